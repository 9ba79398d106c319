"""Damaged and hostile files: a clean result or one line, no output without a result, and never a crash.

Files are read in a child process, which this file is, too: a crash in it is noticed.
"""

import copy
import datetime
import decimal
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, feather, ipc, parquet

from deltauq.tables import ModelFolderError, TableError, fit, load, predict_file
from deltauq.tables.folder import FITTED_FILE, METADATA_FILE, metadata_digest
from deltauq.tables.preprocessing import load_table

N = 50
LIMITS = [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\0\0\0\0", b"\0\0\1\0"]


# What the child process does.


def outcome_of_table(path, model):
    """Read and predict a table: "result", "rejected", or what should not have happened."""
    out = Path(path).with_name("out.parquet")
    try:
        load_table(path, "y", max_rows=1000)
        predict_file(model, path, out, keep=["b"])
        return "result" if pd.read_parquet(out).prediction.notna().all() else "predictions are missing"
    except TableError as error:
        if out.exists() or len(str(error).splitlines()) != 1:
            return f"an output or several lines: {error!r}"
        return "rejected"
    except BaseException:
        return traceback.format_exc()
    finally:
        out.unlink(missing_ok=True)


def outcome_of_folder(folder, table):
    """Load a model and predict a table: "result", "rejected", or what should not have happened."""
    try:
        predicted = load(folder).predict(table)
    except (ModelFolderError, TableError) as error:
        return "rejected" if len(str(error).splitlines()) == 1 else repr(error)
    except BaseException:
        return traceback.format_exc()
    if "std" not in predicted or not (Path(folder) / ".metadata-only").exists():
        return "result"
    sound = (predicted["std"] >= 0) & (predicted.lower <= predicted.upper)
    return "result" if sound.all() else "nonsense"


def main(kind, location, model_or_table):
    """Print the outcome of everything in a folder, a line each, as soon as it is known."""
    warnings.simplefilter("ignore")
    known = load(model_or_table) if kind == "tables" else pd.read_parquet(model_or_table)
    for path in sorted(Path(location).iterdir()):
        print(json.dumps([path.name, None]), flush=True)
        message = outcome_of_table(path, known) if kind == "tables" else outcome_of_folder(path, known)
        print(json.dumps([path.name, message]), flush=True)


def outcomes(kind, location, model_or_table):
    """Return the outcome of everything in a folder, from a child process that must live to its end."""
    command = [sys.executable, __file__, kind, str(location), str(model_or_table)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]} {done.returncode} {done.stderr[-2000:]}"
    actual = dict(lines)
    assert len(actual) == len(os.listdir(location))
    return actual


# Tables.


def plain_table():
    rng = np.random.default_rng(0)
    words = rng.choice(["ulm", "bern", "graz"], N).tolist()
    a = [None if k % 7 == 0 else float(v) for k, v in enumerate(rng.normal(size=N))]
    return pa.table({"a": a, "b": rng.integers(0, 9, N), "w": words, "y": rng.normal(size=N)})


def further_columns():
    yield "plain", None
    yield "dates", pa.array([datetime.datetime(2024, 1, 1 + k % 28) for k in range(N)])
    yield "days", pa.array([datetime.date(2024, 1, 1 + k % 28) for k in range(N)])
    yield "lists", pa.array([[1, 2]] * N)
    yield "records", pa.array([{"k": 1}] * N)
    yield "bytes", pa.array([bytes([255, k % 3]) for k in range(N)])
    yield "decimals", pa.array([decimal.Decimal(k % 5) for k in range(N)], pa.decimal128(9, 2))
    yield "categories", pa.array([f"{k % 3}" for k in range(N)]).dictionary_encode()
    yield (
        "views",
        pa.array([["abc", "text that is kept out of line"][k % 2] for k in range(N)], pa.string_view()),
    )


def written_files():
    """Yield the ending and the bytes of the same tables in every format."""
    for name, column in further_columns():
        table = plain_table() if column is None else plain_table().append_column("x", column)
        for compression in ("uncompressed", "lz4"):
            file = io.BytesIO()
            feather.write_feather(table, file, compression=compression)
            yield f"{name}.feather", file.getvalue()
        file = io.BytesIO()
        with ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        yield f"{name}.arrows", file.getvalue()
        if name != "views":
            for options in ({}, {"compression": "none", "use_dictionary": False, "data_page_version": "2.0"}):
                file = io.BytesIO()
                parquet.write_table(table, file, **options)
                yield f"{name}.parquet", file.getvalue()
    file = io.BytesIO()
    csv.write_csv(plain_table(), file)
    for _ in range(12):
        yield "plain.csv", file.getvalue()
    yield "words.csv", b"a,b,w,y\n" + b"".join(b'%d,2,"u\nv",%d.5\n' % (k % 3, k) for k in range(20))


def damaged(data, rng):
    """Return bytes that were cut, or with some flipped, replaced, added or at the limits of integers."""
    data, way, at = bytearray(data), rng.randrange(6), rng.randrange(len(data))
    if way == 0:
        del data[at:]
    elif way == 1:
        for _ in range(rng.randrange(1, 9)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif way == 2:
        data[at : at + 20] = rng.randbytes(len(data[at : at + 20]))
    elif way == 3:
        data[at:at] = rng.randbytes(rng.randrange(1, 16))
    else:
        at -= at % 4
        data[at : at + 4] = rng.choice(LIMITS)
    return bytes(data)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Model folders of a regression by each kind of model with indices in it, of classes, and their table."""
    location = tmp_path_factory.mktemp("models")
    table = plain_table().to_pandas()
    table["d"] = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.arange(N), unit="D")
    for name in ("tree", "knn", "svm", "linear"):
        fit(table, "y", model=name, n_train_anchors=3).save(location / name)
    fit(table.drop(columns="y"), "w", model="knn", n_train_anchors=3).save(location / "classes")
    fit(table[["a", "b", "w", "y"]], "y", model="linear", n_train_anchors=3).save(location / "plain")
    table.to_parquet(location / "table.parquet")
    return location


def check_tables(folders, tmp_path, per_file):
    for number, (name, data) in enumerate(written_files()):
        rng = random.Random(number)
        for k in range(per_file):
            (tmp_path / f"{number:03d}-{k:03d}-{name}").write_bytes(damaged(data, rng) if k else data)
    actual = outcomes("tables", tmp_path, folders / "plain")
    assert {name: outcome for name, outcome in actual.items() if outcome not in ("result", "rejected")} == {}
    whole = {name: outcome for name, outcome in actual.items() if "-000-" in name}
    # Such as the binary columns of a whole file, which the model does not ask for.
    assert set(whole.values()) == {"result"}, whole
    assert list(actual.values()).count("rejected") > len(actual) // 4
    return len(actual)


def test_some_damaged_tables(folders, tmp_path):
    assert check_tables(folders, tmp_path, 2) > 100


@pytest.mark.slow
def test_many_damaged_tables(folders, tmp_path):
    assert check_tables(folders, tmp_path, 12) > 600


# Model folders.

VALUES = [
    *(None, True, -1, 0, 2, 0.5, 1e308, -1e308, float("nan"), float("inf"), float("-inf"), 10**400),
    *("", "x", "a\0b", "NaT", "now", "number", "date", "duration", "category", "2024-01-01T00:00:00+00:00"),
    *([], {}, [1], {"a": 1}, [[[]]], [2, 1], [-1, 1], ["x", "x"]),
]


def changed_metadata(metadata, rng):
    """Return metadata of which a value, at any depth, was replaced, removed, added or swapped."""
    metadata = copy.deepcopy(metadata)
    at = metadata
    while True:
        keys = sorted(at) if isinstance(at, dict) else range(len(at))
        key = rng.choice(keys)
        if not isinstance(at[key], (dict, list)) or not at[key] or rng.random() < 0.3:
            break
        at = at[key]
    way = rng.randrange(6)
    if way == 0:
        del at[key]
    elif way == 1 and isinstance(at, dict):
        at["unknown"] = rng.choice(VALUES)
    elif way == 2:
        other = rng.choice(keys)
        at[key], at[other] = at[other], at[key]
    else:
        at[key] = rng.choice(VALUES)
    return metadata


def changed_learnt(data, rng):
    """Return an archive that was damaged, or of which an entry was, in a way that its sums still hold."""
    if rng.random() < 0.2:
        return damaged(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    arrays = [name for name, content in entries.items() if len(content) > 140 and name != "schema.json"]
    if rng.random() < 0.3:
        entries["schema.json"] = damaged(entries["schema.json"], rng)
    else:
        name = rng.choice(arrays)
        content = bytearray(entries[name])
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(128, len(content) - 3)  # past the header, which says what is in it
            content[at : at + 4] = rng.choice([*LIMITS, rng.randbytes(4)])
        entries[name] = bytes(content)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


def check_folders(folders, tmp_path, per_folder):
    for model in ("tree", "knn", "svm", "linear", "classes"):
        metadata = json.loads((folders / model / METADATA_FILE).read_text())
        learnt = (folders / model / FITTED_FILE).read_bytes()
        rng = random.Random(model)
        for k in range(per_folder):
            folder = tmp_path / f"{model}-{k:03d}"
            folder.mkdir()
            described, data = metadata, learnt
            if k % 2:
                data = changed_learnt(learnt, rng)
                described = {**metadata, "files": {FITTED_FILE: hashlib.sha256(data).hexdigest()}}
            elif k:
                described = changed_metadata(metadata, rng)
                # Hidden files are no part of a model: by this one the child knows what was changed.
                (folder / ".metadata-only").touch()
            (folder / FITTED_FILE).write_bytes(data)
            described = {**described, "sha256": metadata_digest(described)}
            (folder / METADATA_FILE).write_text(json.dumps(described))
    actual = outcomes("folders", tmp_path, folders / "table.parquet")
    assert {name: outcome for name, outcome in actual.items() if outcome not in ("result", "rejected")} == {}
    assert {outcome for name, outcome in actual.items() if name.endswith("-000")} == {"result"}
    assert list(actual.values()).count("rejected") > len(actual) // 4
    return len(actual)


def test_some_damaged_model_folders(folders, tmp_path):
    assert check_folders(folders, tmp_path, 12) == 60


@pytest.mark.slow
def test_many_damaged_model_folders(folders, tmp_path):
    assert check_folders(folders, tmp_path, 80) == 400


# By the command line.


def text_that_leaves_memory():
    """Return a Feather file whose strings end far beyond its memory, which Arrow's reader does not see."""
    file = io.BytesIO()
    table = plain_table().set_column(2, "w", pa.array([f"word{k % 3}" for k in range(N)]))
    feather.write_feather(table, file, compression="uncompressed")
    data = file.getvalue()
    offsets = np.arange(0, 5 * (N + 1), 5, dtype=np.int32)
    assert data.count(offsets.tobytes()) == 1
    wrong = offsets.copy()
    wrong[1:-1] += 2_000_000_000  # the ends, which are looked at, are as they were
    return data.replace(offsets.tobytes(), wrong.tobytes())


def test_file_that_would_crash_the_reader(folders, tmp_path):
    file, out = tmp_path / "x.feather", tmp_path / "out.csv"
    file.write_bytes(text_that_leaves_memory())
    for command in (
        ["fit", file, "--target", "y", "-o", out],
        ["predict", folders / "plain", file, "-o", out],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "deltauq.cli", *map(str, command)], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "cannot read" in done.stderr
        assert [path.name for path in tmp_path.iterdir()] == ["x.feather"]


if __name__ == "__main__":
    main(*sys.argv[1:])
