"""The user's table: read, checked, and parted into features and target, or refused in one line."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from deltauq.cli.complaints import BadInput

if TYPE_CHECKING:
    import pandas as pd

DELIMITERS = ",;\t|"
SNIFFED = 64 * 1024
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMMA_NUMBER = r"\s*[+-]?\d+(,\d+)?([eE][+-]?\d+)?\s*"
ISO_DATE = r"\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?\s*"
FEW_VALUES = 10
"""Whole numbers with no more different values than this are taken for classes."""
MANY_WORDS = 0.5
"""A column of words with more different ones than this share of rows tells rows apart, not kinds."""


@dataclass(frozen=True)
class UserTable:
    """A table that is ready to be learnt from.

    Attributes
    ----------
    X : DataFrame of shape (n, d)
        Numbers, with NaN where they are missing, and strings.
    y : array of shape (n,)
        Floats, or strings.
    task : {"regression", "classification"}
    notes : list of str
        What was left out or decided on the way.
    """

    X: pd.DataFrame
    y: np.ndarray
    task: str
    notes: list[str] = field(default_factory=list)

    @property
    def numeric(self) -> list[str]:
        """The names of the columns of numbers."""
        return [name for name in self.X.columns if self.X[name].dtype.kind == "f"]


def load_table(file: Path, target: str, task: str, max_rows: int, seed: int) -> UserTable:
    """Read a CSV or Parquet file and part it into features and target.

    Parameters
    ----------
    file : Path
    target : str
        A column's name.
    task : {"auto", "regression", "classification"}
    max_rows : int
        Of more, as many are drawn at random.
    seed : int
        For that drawing.

    Returns
    -------
    table : UserTable
    """
    frame, notes = read_frame(file), list[str]()
    frame.columns = [str(name).strip() for name in frame.columns]
    _require_target(frame, target)
    _name_apart(frame, notes)
    missing = int(frame[target].isna().sum())
    if missing > 0:
        notes.append(f"{missing:,} of {len(frame):,} rows were left out: {target} is missing there.")
        frame = frame[frame[target].notna()]
    if len(frame) == 0:
        raise BadInput(f"{file} has no rows" if missing == 0 else f"{target} is missing in every row")
    if len(frame) > max_rows:
        notes.append(f"{max_rows:,} of {len(frame):,} rows, drawn at random (--max-rows).")
        frame = frame.sample(max_rows, random_state=seed)
    frame = frame.reset_index(drop=True)
    y, task = _read_target(frame[target], task, notes)
    return UserTable(_read_features(frame.drop(columns=target), notes), y, task, notes)


def read_frame(file: Path) -> pd.DataFrame:
    """Return the content of a CSV (also packed by gzip, bzip2 or xz) or Parquet file.

    Columns of one name keep it.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise BadInput("reading tables needs pandas: pip install pandas") from error
    if not file.exists():
        raise BadInput(f"{file} does not exist")
    if file.is_dir():
        raise BadInput(f"{file} is a folder")
    try:
        if file.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(file)
        return _read_csv(file)
    except ImportError as error:
        raise BadInput("reading Parquet needs pyarrow: pip install pyarrow") from error
    except pd.errors.EmptyDataError as error:
        raise BadInput(f"{file} is empty") from error
    except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"cannot read {file}: {str(error).splitlines()[0]}") from error


def _read_csv(file: Path) -> pd.DataFrame:
    import pandas as pd

    if file.suffix.lower() in (".zip", ".7z", ".tar", ".tgz"):
        raise BadInput(f"{file} is an archive: unpack it first")
    # Once: a pipe cannot be read again.
    data = file.read_bytes()
    if file.suffix.lower() in OPENERS:
        with OPENERS[file.suffix.lower()](io.BytesIO(data)) as stream:
            data = stream.read()
    text = data.decode("utf-8-sig")
    delimiter = _find_delimiter(text[:SNIFFED])
    frame = pd.read_csv(io.StringIO(text, newline=""), low_memory=False, sep=delimiter)
    # A row with one field more than the header has row names in front, or a delimiter too many at its end.
    if not isinstance(frame.index, pd.RangeIndex) and frame.iloc[:, -1].isna().all():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text, newline=""), low_memory=False, sep=delimiter, index_col=False
            )
    if delimiter != ",":
        for name in frame.columns:
            frame[name] = _read_decimal_commas(frame[name])
    return _with_its_own_names(frame, text, delimiter)


def _find_delimiter(sample: str) -> str:
    try:
        return csv.Sniffer().sniff(sample, DELIMITERS).delimiter
    except csv.Error:
        return ","  # a single column


def _read_decimal_commas(column: pd.Series) -> pd.Series:
    """Return a column of numbers with decimal commas as floats, and any other as it is."""
    if not _is_all(column, COMMA_NUMBER):
        return column
    return column.str.replace(",", ".").astype("float64")


def _is_all(column: pd.Series, pattern: str) -> bool:
    """Tell whether a column is made of strings of one pattern, and gaps."""
    import pandas as pd

    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return False
    return bool(column.dropna().str.fullmatch(pattern).all())


def _with_its_own_names(frame: pd.DataFrame, text: str, delimiter: str) -> pd.DataFrame:
    """Take back that pandas numbers columns of one name: a second target would pass for a feature."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header = next((row for row in rows if row), [])
    counts = Counter(header)
    if len(header) >= len(frame.columns):
        # Only what is repeated: names that are empty are pandas' own.
        frame.columns = [
            own if own.strip() and counts[own] > 1 else name
            for own, name in zip(header, frame.columns, strict=False)
        ]
    return frame


def _name_apart(frame: pd.DataFrame, notes: list[str]) -> None:
    """Give numbers to columns that share a name, and say so."""
    names = list(frame.columns)
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if not repeated:
        return
    taken = set(names)
    for k, name in enumerate(names):
        if name in names[:k]:
            number = next(i for i in range(1, len(names) + 1) if f"{name}.{i}" not in taken)
            names[k] = f"{name}.{number}"
            taken.add(names[k])
    frame.columns = names
    notes.append(f"Columns that share a name were numbered: {', '.join(repeated)}.")


def _require_target(frame: pd.DataFrame, target: str) -> None:
    names = list(frame.columns)
    if names.count(target) > 1:
        raise BadInput(f"{target} names {names.count(target)} columns")
    if target in names:
        return
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[name] for name in get_close_matches(target.lower(), by_lower, n=3)]
    listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    quoted = " or ".join(f'"{name}"' for name in near)
    hint = f"did you mean {quoted}?" if near else f"the columns are {listed}"
    raise BadInput(f'there is no column "{target}": {hint}')


def _read_target(column: pd.Series, task: str, notes: list[str]) -> tuple[np.ndarray, str]:
    """Return the targets and the task."""
    import pandas as pd

    if _is_unhashable(column):
        raise BadInput(f"{column.name} holds lists or records: there is nothing to predict in them")
    column, in_days = _plain_numbers(column)
    if in_days:
        notes.append(f"{column.name} was taken as a number of days.")
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    n_values = int(column.nunique())
    if n_values == 1:
        raise BadInput(f"{column.name} is {column.iloc[0]} in every row: there is nothing to predict")
    if task == "auto":
        whole = numbers and bool(np.all(np.trunc(column) == column))
        task = "classification" if not numbers or (whole and n_values <= FEW_VALUES) else "regression"
        notes.append(f"{column.name} has {n_values:,} different values: {task} (--task).")
    if task == "classification":
        if n_values > len(column) / 2:
            raise BadInput(f"{column.name} has {n_values:,} classes in {len(column):,} rows")
        return column.astype(str).to_numpy(dtype=object), task
    if not numbers:
        raise BadInput(f"{column.name} is not numeric (first value: {column.iloc[0]}), as regression needs")
    y = column.to_numpy(dtype=np.float64)
    if not np.all(np.isfinite(y)):
        raise BadInput(f"{column.name} has infinite values")
    return y, task


def _read_features(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return columns of floats and of strings; columns that can say nothing are left out."""
    import pandas as pd

    columns: dict[str, Any] = {}
    dropped: list[str] = []
    dates: list[str] = []
    for name in frame.columns:
        column = frame[name]
        if _is_unhashable(column):
            dropped.append(f"{name} (lists or records)")
            continue
        column, in_days = _plain_numbers(_as_dates(column))
        if in_days:
            dates.append(name)
        is_number = pd.api.types.is_numeric_dtype(column)
        if column.nunique() <= 1:
            dropped.append(f"{name} (one value)")
        elif name.startswith("Unnamed:") and is_number and column.is_monotonic_increasing:
            dropped.append(f"{name} (row numbers)")
        elif is_number:
            columns[name] = column.astype("float64").replace([np.inf, -np.inf], np.nan)
        elif column.nunique() > MANY_WORDS * len(column):
            dropped.append(f"{name} (words that hardly repeat)")
        else:
            columns[name] = column.astype(object).where(column.notna(), "").astype(str).astype(object)
    if dates:
        notes.append(f"Dates and times were taken as numbers of days: {', '.join(dates)}.")
    if dropped:
        notes.append(f"Columns left out: {', '.join(dropped)}.")
    if not columns:
        raise BadInput("there are no columns left to predict from")
    return pd.DataFrame(columns)


def _is_unhashable(column: pd.Series) -> bool:
    """Tell whether a column has values that cannot be compared, such as the lists of a Parquet file."""
    try:
        column.nunique()
    except TypeError:
        return True
    return False


def _as_dates(column: pd.Series) -> pd.Series:
    """Return a column of dates, or of ISO dates in writing, as timestamps, and any other as it is."""
    import pandas as pd

    written = _is_all(column, ISO_DATE) and bool(column.notna().any())
    if not written and pd.api.types.infer_dtype(column, skipna=True) not in ("date", "datetime"):
        return column
    stamps = pd.to_datetime(column, utc=True, errors="coerce", **({"format": "ISO8601"} if written else {}))
    # What is no date after all, such as a 31st of June, is a word.
    return stamps if bool((stamps.notna() == column.notna()).all()) else column


def _plain_numbers(column: pd.Series) -> tuple[pd.Series, bool]:
    """Return decimals as floats, and times in days, and whether they are; any other column as it is."""
    import pandas as pd

    if pd.api.types.infer_dtype(column, skipna=True) == "decimal":
        return column.astype("float64"), False
    if pd.api.types.is_datetime64_any_dtype(column):
        return (column - column.min()) / pd.Timedelta(days=1), True
    if pd.api.types.is_timedelta64_dtype(column):
        return column / pd.Timedelta(days=1), True
    return column, False
