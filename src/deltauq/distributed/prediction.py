"""Prediction of a table of many parts, each into its own file."""

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
from deltauq.distributed.filesystem import OutputFolder, open_binary
from deltauq.distributed.runners import ClusterError, RunTasks, run_on_ray
from deltauq.distributed.table_parts import Part, add_file_name_to_errors, list_parts, open_part
from deltauq.tables.errors import ModelFolderError, TableError, VersionWarning
from deltauq.tables.folder import FILES, load, read_metadata
from deltauq.tables.io import as_table_error, open_parquet
from deltauq.tables.model import TableModel
from deltauq.tables.prediction import PredictionSummary, Tally, check_columns, predict_stream
from deltauq.utils.filesystem import atomic_write

MANIFEST = "_manifest.json"
"""Readers of Parquet folders ignore names that begin with an underscore."""
FOOTER = "deltauq.part"
FORMAT = "deltauq.predictions/1"


def predict_parts(
    model: str | PathLike[str],
    source: str | PathLike[str],
    out: str | PathLike[str],
    *,
    keep: Sequence[str] = (),
    coverage: float | None = None,
    quantiles: Sequence[float] = (),
    strict: bool = False,
    date_format: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    trust: Sequence[str] = (),
    run: RunTasks = run_on_ray,
    progress: Callable[[int, int | None], None] | None = None,
) -> PredictionSummary:
    """Predict a table of many files into a folder of Parquet files, with the same rows as `predict_file`.

    Each row group of Parquet, and each file of another kind, is a part. The file with its predictions appears
    when it is complete; a manifest is written last. An interrupted prediction is resumed by calling the
    function again: only missing parts are predicted.

    Parameters
    ----------
    model : path
        A model folder. It is sent to the workers, which need no access to it.
    source : path or URL
        A file, or a pattern of several, such as "rows/*.parquet" or "s3://bucket/rows/*.parquet". Workers
        need access to it.
    out : path or URL
        A folder that is new, empty, or of the same prediction. Workers need access to it.
    keep, coverage, quantiles, strict, date_format, decimal, encoding
        As in `deltauq.tables.predict_file`.
    trust : sequence of str
        Trusted types, as in `deltauq.load`.
    run : callable, default=run_on_ray
        How parts are run: `run_on_ray`, with another address by `functools.partial`, or `run_locally`.
    progress : callable, optional
        Called with the number of finished rows and, if the files state it, of all rows.

    Returns
    -------
    summary : PredictionSummary
        Of all rows, including those predicted before.
    """
    model = Path(model)
    loaded = load(model, trust).with_formats(date_format, decimal)
    coverage = loaded.coverage if coverage is None else coverage
    loaded.check_coverage(coverage)
    loaded.check_levels(quantiles)
    parts = list_parts(fspath(source), keep, encoding)
    with add_file_name_to_errors(parts[0].source), open_part(parts[0], encoding) as stream:
        check_columns(loaded, stream, keep, strict, quantiles)
    folder = OutputFolder(fspath(out))
    folder.create()
    formats = {"date_format": date_format, "decimal": decimal, "encoding": encoding}
    identity = json.dumps(
        [FORMAT, read_metadata(model)["sha256"], list(keep), coverage, list(quantiles), formats]
    )
    job = hashlib.sha256(identity.encode()).hexdigest()
    tallies = _find_finished(folder, parts, job)
    if strict:
        for part in parts:  # a run that was not strict may have noted unknown categories
            if part.name in tallies and (notes := tallies[part.name].summary().notes):
                raise TableError(f"{part.source}: {notes[0]}")
    total = None if any(part.rows is None for part in parts) else sum(part.rows or 0 for part in parts)
    done = sum(tally.rows for tally in tallies.values())
    files = {name: (model / name).read_bytes() for name in sorted(FILES)}
    work = PartPredictor(
        files, tuple(trust), folder.url, tuple(keep), coverage, tuple(quantiles), strict, formats, job
    )
    missing = [part for part in parts if part.name not in tallies]
    if missing:
        folder.remove(MANIFEST)
    for part, tally in run(work, missing) if missing else ():
        tallies[part.name] = tally
        done += tally.rows
        if progress is not None:
            progress(done, total)
    combined = Tally()
    for part in parts:
        combined.add(tallies[part.name])
    summary = combined.summary()
    _write_manifest(folder, parts, tallies, summary, job)
    return summary


@dataclass
class PartPredictor:
    """Predicts parts, with the options of `predict_parts`; loads the model once in each process."""

    files: dict[str, bytes]
    """The model folder."""
    trust: tuple[str, ...]
    out: str
    keep: tuple[str, ...]
    coverage: float
    quantiles: tuple[float, ...]
    strict: bool
    formats: dict[str, Any]
    """date_format, decimal and encoding."""
    job: str
    """Hash of the model and the options, to detect files of another prediction."""

    @cached_property
    def model(self) -> TableModel:
        """The model, with a single thread: a part has one core."""
        with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionWarning)  # the main process shows them
            for file, content in self.files.items():
                (Path(name) / file).write_bytes(content)
            try:
                model = load(name, self.trust)
            except ModelFolderError as error:
                # It was loaded where the prediction was started, so the worker differs.
                raise ClusterError(
                    f"A worker cannot load the model ({str(error.__cause__ or error).rstrip('.')}): every "
                    "machine needs the same version of deltauq, and the packages of the trusted types."
                ) from error
        model.set_jobs(1)
        return model.with_formats(self.formats["date_format"], self.formats["decimal"])

    def __call__(self, part: Part) -> Tally:
        """Predict a part into its file."""
        folder = OutputFolder(self.out)
        try:
            return folder.put(part.name, partial(self._write, part))
        except FileNotFoundError:
            # Another run of the same prediction may have ended and removed incomplete files.
            if (tally := _read_tally(folder, part, self.job)) is None:
                raise
            return tally

    def _write(self, part: Part, path: Path) -> Tally:
        def footer(tally: Tally) -> dict[str, str]:
            return {FOOTER: json.dumps({"job": self.job, "part": asdict(part), "tally": tally.to_dict()})}

        with add_file_name_to_errors(part.source), open_part(part, self.formats["encoding"]) as stream:
            return predict_stream(
                self.model,
                stream,
                part.source,
                path,
                keep=self.keep,
                coverage=self.coverage,
                quantiles=self.quantiles,
                strict=self.strict,
                metadata=footer,
            )


def _find_finished(folder: OutputFolder, parts: list[Part], job: str) -> dict[str, Tally]:
    """Return the tallies of finished parts; raise an error for files of anything else."""
    names = {name for name in folder.names() if not name.startswith(".")} - {MANIFEST}
    by_name = {part.name: part for part in parts}
    if others := sorted(names - by_name.keys()):
        raise TableError(f"{folder.url} contains other files ({others[0]}): name another folder.")
    tallies = {name: _read_tally(folder, by_name[name], job) for name in sorted(names)}
    return {name: tally for name, tally in tallies.items() if tally is not None}


def _read_tally(folder: OutputFolder, part: Part, job: str) -> Tally | None:
    """Return the tally of a finished part, None for a damaged file; another prediction raises an error."""
    url = f"{folder.url}/{part.name}"
    try:
        with as_table_error(url), open_binary(url) as source, open_parquet(source) as file:
            footer = json.loads((file.metadata.metadata or {}).get(FOOTER.encode(), "{}"))
    except TableError:
        return None
    if footer.get("job") != job or footer["part"] != asdict(part):
        raise TableError(
            f"{folder.url} contains predictions by another model, of another table or with other columns "
            f"({part.name}): name another folder, or remove it."
        )
    return Tally.from_dict(footer["tally"])


def _write_manifest(
    folder: OutputFolder, parts: list[Part], tallies: dict[str, Tally], summary: PredictionSummary, job: str
) -> None:
    """Write the manifest, and remove incomplete files of workers that died."""
    for name in folder.names():
        if name.startswith(".part-") and name.endswith(".part"):
            folder.remove(name)
    rows = [{**asdict(part), "rows": tallies[part.name].rows} for part in parts]
    header = {"format": FORMAT, "deltauq": __version__, "job": job}
    manifest = {**header, **asdict(summary), "parts": rows}

    def write(path: Path) -> None:
        with atomic_write(path) as part:
            part.write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")

    folder.put(MANIFEST, write)
