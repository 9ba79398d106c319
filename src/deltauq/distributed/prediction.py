"""Bulk prediction: each part of a table into a file of its own, wherever parts are run."""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from deltauq._version import __version__
from deltauq.distributed.parts import Part, list_parts, naming, open_part
from deltauq.distributed.places import OutputFolder
from deltauq.distributed.running import ClusterError, Run, run_on_ray
from deltauq.tables.errors import ModelFolderError, TableError
from deltauq.tables.folder import FILES, load, read_metadata
from deltauq.tables.io import as_table_error, open_parquet
from deltauq.tables.model import TableModel
from deltauq.tables.prediction import PredictionSummary, Tally, check_columns, predict_stream
from deltauq.utils.filesystem import atomic_write

MANIFEST = "_manifest.json"
"""Its name begins as those that readers of Parquet folders pass over."""
FOOTER = "deltauq.part"
FORMAT = "deltauq.predictions/1"


def predict_parts(
    model: str | PathLike[str],
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    strict: bool = False,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    trust: Sequence[str] = (),
    run: Run = run_on_ray,
    progress: Callable[[int, int | None], None] | None = None,
) -> PredictionSummary:
    """Predict a table of many files into a folder of Parquet files, the same rows as `predict_file` gives.

    Each row group of Parquet, and each file of another kind, is a part, whose predictions appear under their
    name when they are complete; a manifest comes last. What was killed on the way goes on when it is called
    again: only parts that are missing are predicted.

    Parameters
    ----------
    model : path
        A model folder. It is sent to the workers, which need not see it.
    source : path or URL
        Of a file, or a pattern of several, such as "rows/*.parquet" or "s3://bucket/rows/*.parquet". Workers
        must see it.
    out : path or URL
        Of a folder that is new, empty, or begun by the same prediction. Workers must see it.
    keep, coverage, strict, date_format, decimal, encoding
        As those of `deltauq.tables.predict_file`.
    trust : sequence of str
        As that of `deltauq.load`.
    run : callable, default=run_on_ray
        Where parts are run: `run_on_ray`, possibly with another address by `functools.partial`, or
        `run_here`.
    progress : callable, optional
        Called with the rows done and, where the files say, the rows there are.

    Returns
    -------
    predicted : PredictionSummary
        Of all rows, also those that were done before.
    """
    model = Path(model)
    loaded = load(model, trust).with_formats(date_format, decimal)
    coverage = loaded.coverage if coverage is None else coverage
    loaded.check_coverage(coverage)
    parts = list_parts(fspath(source), keep, encoding)
    with naming(parts[0].source), open_part(parts[0], encoding) as stream:
        check_columns(loaded, stream, keep, strict)
    folder = OutputFolder(fspath(out))
    folder.make()
    reading = {"date_format": date_format, "decimal": decimal, "encoding": encoding}
    job = _digest([FORMAT, read_metadata(model)["sha256"], list(keep), coverage, reading])
    tallies = _find_done(folder, parts, job)
    if strict:
        _refuse_notes(loaded, parts, tallies)
    total = None if any(part.rows is None for part in parts) else sum(part.rows or 0 for part in parts)
    done = sum(tally.rows for tally in tallies.values())
    work = PartPredictor(
        _read_folder(model), tuple(trust), folder.url, tuple(keep), coverage, strict, reading, job
    )
    missing = [part for part in parts if part.name not in tallies]
    if missing:
        folder.remove(MANIFEST)
    for part, tally in run(work, missing) if missing else ():
        tallies[part.name] = tally
        done += tally.rows
        if progress is not None:
            progress(done, total)
    account = Tally()
    for part in parts:
        account.add(tallies[part.name])
    predicted = account.predicted()
    _finish(folder, parts, tallies, predicted, job)
    return predicted


@dataclass
class PartPredictor:
    """Predicts parts with a model that it loads once, wherever it finds itself.

    Attributes
    ----------
    files : dict of str to bytes
        The model folder.
    trust : tuple of str
    out : str
        Path or URL of the folder of predictions.
    keep : tuple of str
    coverage : float
    strict : bool
    reading : dict
        The formats and the encoding of the table.
    job : str
        What predictions by another model or with other columns have another one of.
    """

    files: dict[str, bytes]
    trust: tuple[str, ...]
    out: str
    keep: tuple[str, ...]
    coverage: float
    strict: bool
    reading: dict[str, Any]
    job: str

    @cached_property
    def model(self) -> TableModel:
        """The model, of a single thread: a part has one core."""
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions: whoever began this was warned
            for file, content in self.files.items():
                (Path(name) / file).write_bytes(content)
            try:
                model = load(name, self.trust)
            except ModelFolderError as error:
                # Whoever began this has loaded it: it is the worker that differs.
                raise ClusterError(
                    f"A worker cannot load the model ({str(error.__cause__ or error).rstrip('.')}): every "
                    "machine needs deltauq in the same version, and the packages of what is trusted."
                ) from error
        anchored = model.fitted.model
        members: list[Any] = [anchored, anchored.estimator_, getattr(anchored, "center_", None)]
        for member in members:
            if hasattr(member, "n_jobs"):
                member.n_jobs = 1
        return model.with_formats(self.reading["date_format"], self.reading["decimal"])

    def __call__(self, part: Part) -> Tally:
        """Predict a part into its file, and return what was counted."""
        folder = OutputFolder(self.out)
        try:
            return folder.put(part.name, partial(self._write, part))
        except FileNotFoundError:
            # Another run of the same prediction may have ended, and removed what was unfinished.
            said = _read_footer(folder, part.name)
            if said is None or not _fits(said, part, self.job):
                raise
            return Tally.read(said["tally"])

    def _write(self, part: Part, path: Path) -> Tally:
        with naming(part.source), open_part(part, self.reading["encoding"]) as stream:
            return predict_stream(
                self.model,
                stream,
                part.source,
                path,
                keep=self.keep,
                coverage=self.coverage,
                strict=self.strict,
                footer=lambda tally: {FOOTER: json.dumps(_footer(part, self.job, tally))},
            )


def _footer(part: Part, job: str, tally: Tally) -> dict[str, Any]:
    return {"job": job, "part": asdict(part), "tally": tally.plain()}


def _fits(said: dict[str, Any], part: Part, job: str) -> bool:
    return said["job"] == job and said["part"] == asdict(part)


def _find_done(folder: OutputFolder, parts: list[Part], job: str) -> dict[str, Tally]:
    """Return what was counted of the parts that are there already; anything else there is refused."""
    there = {name for name in folder.names() if not name.startswith(".")} - {MANIFEST}
    by_name = {part.name: part for part in parts}
    if strange := sorted(there - by_name.keys()):
        raise TableError(f"{folder.url} holds something else ({strange[0]}): name another folder.")
    tallies = {}
    for name in sorted(there):
        said = _read_footer(folder, name)
        if said is None:
            continue
        if not _fits(said, by_name[name], job):
            raise TableError(
                f"{folder.url} holds predictions by another model, of another table or with other columns "
                f"({name}): name another folder, or remove it."
            )
        tallies[name] = Tally.read(said["tally"])
    return tallies


def _refuse_notes(model: TableModel, parts: list[Part], tallies: dict[str, Tally]) -> None:
    """Refuse parts that a run that was not strict has let pass."""
    for part in parts:
        if part.name in tallies and (notes := tallies[part.name].predicted().notes):
            raise TableError(f"{part.source}: {notes[0]}")


def _read_footer(folder: OutputFolder, name: str) -> dict[str, Any] | None:
    """Return what a part says of itself, or None for one that a failing disk has left unreadable."""
    try:
        with as_table_error(name), folder.open(name) as source, open_parquet(source) as file:
            said = (file.metadata.metadata or {}).get(FOOTER.encode())
    except TableError:
        return None
    return {"job": None} if said is None else json.loads(said)


def _finish(
    folder: OutputFolder, parts: list[Part], tallies: dict[str, Tally], predicted: PredictionSummary, job: str
) -> None:
    """Write the manifest, and remove what workers that died have left."""
    for name in folder.names():
        if name.startswith(".part-") and name.endswith(".part"):
            folder.remove(name)
    manifest = {
        "format": FORMAT,
        "deltauq": __version__,
        "job": job,
        **asdict(predicted),
        "parts": [{**asdict(part), "rows": tallies[part.name].rows} for part in parts],
    }

    def write(path: Path) -> None:
        with atomic_write(path) as part:
            part.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")

    folder.put(MANIFEST, write)


def _read_folder(model: Path) -> dict[str, bytes]:
    return {name: (model / name).read_bytes() for name in sorted(FILES)}


def _digest(words: list[Any]) -> str:
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()
