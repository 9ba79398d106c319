"""Prediction from file to file."""

import gzip
import json
import os
import signal
import subprocess
import sys

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import compute, parquet

from deltauq.tables import TableError, predict_file


@pytest.fixture
def source(mixed, tmp_path):
    path = tmp_path / "new.parquet"
    mixed.drop(columns=["price", "size"]).assign(id=[f"{k:04d}" for k in range(len(mixed))]).to_parquet(path)
    return path


@pytest.mark.parametrize("batch_rows", [1, 7, 240, 65_536])
def test_batch_size_has_no_effect(batch_rows, regression, mixed, source, tmp_path):
    calls = []
    out = tmp_path / "out.parquet"
    options = {"batch_rows": batch_rows, "progress": lambda *step: calls.append(step)}
    done = predict_file(regression, source, out, keep=["id", "sold"], **options)
    actual = pd.read_parquet(out)
    assert list(actual.columns) == ["id", "sold", "prediction", "std", "lower", "upper", "risk"]
    assert actual.id.tolist() == [f"{k:04d}" for k in range(len(mixed))]
    assert (actual.sold == mixed.sold).all()
    pd.testing.assert_frame_equal(actual.iloc[:, 2:], regression.predict(mixed))
    assert done.rows == 240 and done.risk == {level: (actual.risk == level).sum() for level in done.risk}
    assert calls[-1] == (240, 240)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.arrow"])
@pytest.mark.parametrize("batch_rows", [100, 65_536])
def test_quantiles(name, batch_rows, regression, mixed, source, tmp_path):
    out, levels = tmp_path / name, [0.95, 0.1]
    predict_file(regression, source, out, keep=["id"], quantiles=levels, batch_rows=batch_rows)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}[name[4:]]
    actual = read(out).drop(columns="id")
    assert list(actual.columns[-3:]) == ["risk", "quantile_0.95", "quantile_0.1"]
    expected = regression.predict(mixed).join(regression.predict_quantiles(mixed, levels))
    pd.testing.assert_frame_equal(actual, expected)


def test_invalid_quantiles_raise(regression, classification, mixed, source, tmp_path):
    out = tmp_path / "out.parquet"
    for model, levels, message in (
        (regression, [1.0], "must lie between 0 and 1, got 1"),
        (regression, [0.9999], "requires more than 240 scored rows"),
        (regression, [0.5, 0.5], "are equal"),
        (classification, [0.5], "size is a class: quantiles are for numbers"),
    ):
        with pytest.raises(TableError, match=message):
            predict_file(model, source, out, quantiles=levels)
    mixed.assign(**{"quantile_0.5": 1}).to_parquet(source)
    with pytest.raises(TableError, match=r'"quantile_0.5" cannot be kept: a column of the output has that'):
        predict_file(regression, source, out, quantiles=[0.5], keep=["quantile_0.5"])
    assert not out.exists()
    predict_file(regression, source, out, quantiles=[0.4], keep=["quantile_0.5"])


@pytest.mark.parametrize(
    "name", ["out.csv", "out.csv.gz", "out.tsv", "out.arrow", "out.feather", "OUT.PARQUET"]
)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_output_formats_agree(name, task, mixed, source, tmp_path, request):
    model = request.getfixturevalue(task)
    out, expected = tmp_path / name, model.predict(mixed)
    predict_file(model, source, out, keep=["id"], batch_rows=100)
    if "csv" in name or "tsv" in name:
        actual = pd.read_csv(out, sep="\t" if "tsv" in name else ",", dtype={"id": str})
        if task == "classification":
            actual["set"] = [json.loads(row) for row in actual["set"]]
    else:
        actual = (pd.read_parquet if "PARQUET" in name else pd.read_feather)(out)
        if task == "classification":
            actual["set"] = [list(row) for row in actual["set"]]
    assert actual.pop("id").tolist() == [f"{k:04d}" for k in range(len(mixed))]
    pd.testing.assert_frame_equal(actual, expected)


def test_kept_columns_of_csv_are_unchanged_text(regression, mixed, tmp_path):
    source, out = tmp_path / "new.csv.gz", tmp_path / "out.csv"
    table = mixed.drop(columns=["price", "size"]).assign(code=["007", '1,5 "x"', "é"] * 80)
    source.write_bytes(gzip.compress(table.to_csv(index=False, sep=";").encode()))
    predict_file(regression, source, out, keep=["code"], batch_rows=64)
    actual = pd.read_csv(out, dtype={"code": str})
    assert actual.pop("code").tolist() == ["007", '1,5 "x"', "é"] * 80
    pd.testing.assert_frame_equal(actual, regression.predict(mixed))


def encoded(kind, n):
    """Return a column of n values as Arrow may hold it."""
    words = pa.array([f"w{k}" for k in range(n)])
    return {
        "list": lambda: pa.array([[k] for k in range(n)]),
        "struct": lambda: pa.array([{"a": k} for k in range(n)]),
        "bytes": lambda: pa.array([b"fine"] * (n - 1) + [b"\xff"]),
        "view": lambda: words.cast(pa.string_view()),
        "dictionary": lambda: words.dictionary_encode(),
        "runs": lambda: compute.run_end_encode(words),
        "months": lambda: pa.array([pa.MonthDayNano([1, 2, 3])] * n),
    }[kind]()


def with_column(source, column, path):
    """Write a table with a further column, in several batches: each has a dictionary of its own."""
    rows = parquet.read_table(source).append_column("kept", column)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        for start in range(0, len(rows), 100):
            [batch] = rows.slice(start, 100).combine_chunks().to_batches()
            if pa.types.is_dictionary(column.type):
                words = batch["kept"].dictionary_decode().dictionary_encode()
                batch = batch.set_column(batch.num_columns - 1, "kept", words)
            writer.write_batch(batch)


@pytest.mark.parametrize("kind", ["view", "dictionary", "runs"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_kept_columns_in_arrow_encodings(kind, suffix, regression, source, tmp_path):
    new, out = tmp_path / "new.arrows", tmp_path / f"out.{suffix}"
    with_column(source, encoded(kind, 240), new)
    predict_file(regression, new, out, keep=["kept"])
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "arrow": pd.read_feather}[suffix]
    assert read(out).kept.tolist() == [f"w{k}" for k in range(240)]


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("list", "out.csv", r'"kept" cannot be kept in a CSV file \(list<item: int64>\)\.'),
        ("struct", "out.csv.gz", r'"kept" cannot be kept in a CSV file \(struct<a: int64>\)\.'),
        ("bytes", "out.tsv", r'"kept" cannot be kept in a CSV file \(binary\)\.'),
        ("months", "out.csv", r'"kept" cannot be kept in a CSV file \(month_day_nano_interval\)\.'),
        ("months", "out.parquet", r'"kept" cannot be kept in a Parquet file \(month_day_nano_interval\)\.'),
    ],
)
def test_unsupported_columns_in_the_output_raise(kind, name, message, regression, source, tmp_path):
    new, out = tmp_path / "new.arrows", tmp_path / name
    with_column(source, encoded(kind, 240), new)
    with pytest.raises(TableError, match=message):
        predict_file(regression, new, out, keep=["kept"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.arrows", "new.parquet"]
    predict_file(regression, new, tmp_path / "out.arrow", keep=["kept"])
    assert (
        pa.ipc.open_file(tmp_path / "out.arrow").read_all()["kept"].to_pylist()
        == encoded(kind, 240).to_pylist()
    )


def test_unknown_columns_and_unseen_categories(regression, mixed, tmp_path):
    source, out = tmp_path / "new.parquet", tmp_path / "out.parquet"
    mixed.assign(town=["Rome", *mixed.town[1:]]).to_parquet(source)
    done = predict_file(regression, source, out)
    assert done.notes == [
        "Columns that the model was not trained on: size.",
        '1 rows have unseen categories in "town", such as "Rome".',
    ]
    out.unlink()
    with pytest.raises(TableError, match="not trained on: size"):
        predict_file(regression, source, out, strict=True)
    with pytest.raises(TableError, match='in "town", such as "Rome"'):
        predict_file(regression, source, out, strict=True, keep=["size"])
    assert not out.exists()


def test_permissions_of_the_output(regression, source, tmp_path):
    predict_file(regression, source, tmp_path / "out.csv")
    (tmp_path / "other").touch()
    assert (tmp_path / "out.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_error_in_the_last_batch_keeps_the_old_output(regression, mixed, tmp_path):
    source, out = tmp_path / "new.csv", tmp_path / "out.csv"
    mixed.astype(object).assign(area=["1.5"] * 239 + ["wide"]).to_csv(source, index=False)
    out.write_text("old")
    with pytest.raises(TableError, match='"wide" in row 240'):
        predict_file(regression, source, out, batch_rows=50)
    assert out.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "out.csv"]


KILLED = """
import os, sys
from deltauq.tables import load, predict_file
def progress(done, total):
    print(done, flush=True)
    sys.stdin.readline()
predict_file(load(sys.argv[1]), sys.argv[2], sys.argv[3], batch_rows=50, progress=progress)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_killed_run_leaves_no_output(suffix, regression, mixed, source, tmp_path):
    folder, out = tmp_path / "model", tmp_path / f"out.{suffix}"
    regression.save(folder)
    command = [sys.executable, "-c", KILLED, str(folder), str(source), str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "50\n"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "100\n"
        os.kill(process.pid, signal.SIGKILL)
    assert not out.exists()
    done = subprocess.run(command, input="\n" * 9, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert out.exists()


MEMORY = """
import resource, sys
from deltauq.tables import load, predict_file
predict_file(load(sys.argv[1]), sys.argv[2], sys.argv[3], batch_rows=20_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_memory_does_not_depend_on_the_file_size(suffix, regression, mixed, tmp_path):
    regression.save(tmp_path / "model")
    table = pa.Table.from_pandas(mixed.drop(columns=["price", "size"]), preserve_index=False)
    peaks = []
    for copies in (500, 5_000):
        source = tmp_path / f"new{copies}.{suffix}"
        if suffix == "parquet":
            with parquet.ParquetWriter(source, table.schema) as writer:
                for _ in range(copies // 100):
                    writer.write_table(pa.concat_tables([table] * 100))
        else:
            block = table.to_pandas()
            for k in range(copies // 100):
                pd.concat([block] * 100).to_csv(source, mode="a", header=k == 0, index=False)
        command = [
            sys.executable,
            "-c",
            MEMORY,
            *map(str, (tmp_path / "model", source, tmp_path / "o.parquet")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
        assert parquet.read_metadata(tmp_path / "o.parquet").num_rows == 240 * copies
        peaks.append(int(done.stdout))
    assert peaks[1] < 1.25 * peaks[0]
