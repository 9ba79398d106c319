"""Prediction of many parts in this process: files, resuming, and invalid input."""

import gzip
import json
import shutil
import sys

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from deltauq.distributed import ClusterError, predict_parts, run_locally
from deltauq.distributed.prediction import MANIFEST
from deltauq.tables import TableError, fit, load, predict_file

NAMES = [f"part-{k:06d}.parquet" for k in range(9)]


def predict(model, source, out, **options):
    return predict_parts(model, source, out, **{"keep": ["id"], "run": run_locally, **options})


def contents(folder):
    return sorted(path.name for path in folder.iterdir())


def joined(folder):
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("part-*"))], ignore_index=True)


def identity(path):
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_same_rows_as_on_a_single_machine(model, rows, expected, tmp_path):
    steps = []
    done = predict(model, f"{rows}/*.parquet", tmp_path / "out", progress=lambda *step: steps.append(step))
    assert contents(tmp_path / "out") == sorted([*NAMES, MANIFEST])
    pd.testing.assert_frame_equal(joined(tmp_path / "out"), expected, check_exact=True)
    assert (
        done.rows == len(expected) and done.risk == expected.risk.value_counts().reindex(done.risk).to_dict()
    )
    assert done.notes == ['6 rows have unseen categories in "town", such as "Rome".']
    assert steps[-1] == (len(expected), len(expected)) and len(steps) == 9
    # Readers of Parquet folders ignore the manifest.
    assert parquet.read_table(tmp_path / "out").num_rows == len(expected)


def test_quantiles(model, rows, tmp_path):
    levels = [0.9, 0.05]
    predict(model, rows / "*.parquet", tmp_path / "out", quantiles=levels)
    whole = load(model)
    expected = [whole.predict_quantiles(rows / f"{k}.parquet", levels) for k in range(3)]
    actual = joined(tmp_path / "out")
    assert list(actual.columns[-3:]) == ["risk", "quantile_0.9", "quantile_0.05"]
    expected = pd.concat(expected, ignore_index=True)
    pd.testing.assert_frame_equal(actual[expected.columns], expected)


def test_name_of_a_quantile_cannot_be_kept(model, houses, tmp_path):
    houses[:60].drop(columns="price").assign(**{"quantile_0.5": 1}).to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(TableError, match=r'"quantile_0.5" cannot be kept'):
        predict(model, tmp_path / "x.csv", tmp_path / "out", quantiles=[0.5], keep=["quantile_0.5"])


def test_manifest(model, rows, tmp_path):
    done = predict(model, rows / "*.parquet", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / MANIFEST).read_text())
    assert [part["name"] for part in manifest["parts"]] == NAMES
    assert [part["row_group"] for part in manifest["parts"]] == [0, 1, 2] * 3
    assert {part["source"] for part in manifest["parts"]} == {str(rows / f"{k}.parquet") for k in range(3)}
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"] == done.rows
    assert manifest["risk"] == done.risk and manifest["notes"] == done.notes


def test_second_run_predicts_missing_parts(model, rows, expected, tmp_path):
    out = tmp_path / "out"
    first = predict(model, rows / "*.parquet", out)
    (out / NAMES[2]).unlink()
    (out / NAMES[5]).write_bytes(b"PAR1 cut off")
    (out / f".{NAMES[7]}.abc.part").write_bytes(b"incomplete file of a worker")
    before = {name: identity(out / name) for name in NAMES if (out / name).exists()}
    requested = []

    def run(work, tasks):
        requested.extend(part.name for part in tasks)
        assert not (out / MANIFEST).exists()  # it would mean that all parts are complete
        return run_locally(work, tasks)

    assert predict(model, rows / "*.parquet", out, run=run) == first
    assert requested == [NAMES[2], NAMES[5]]
    assert contents(out) == sorted([*NAMES, MANIFEST])
    for name in set(NAMES) - {NAMES[2], NAMES[5]}:
        assert identity(out / name) == before[name]
    pd.testing.assert_frame_equal(joined(out), expected, check_exact=True)
    assert predict(model, rows / "*.parquet", out, run=None) == first  # no part is missing


def test_files_of_another_prediction_raise(model, houses, rows, tmp_path):
    copy, out = shutil.copytree(rows, tmp_path / "rows"), tmp_path / "out"
    predict(model, copy / "*.parquet", out)
    fit(houses[:200].drop(columns="id"), "price", model="tree", n_train_anchors=5).save(tmp_path / "other")
    for options in (
        {"coverage": 0.5},
        {"quantiles": [0.5]},
        {"keep": ["id", "town"]},
        {"model": tmp_path / "other"},
    ):
        with pytest.raises(TableError, match="by another model, of another table or with other columns"):
            predict(options.pop("model", model), copy / "*.parquet", out, **options)
    shutil.copy(rows / "0.parquet", copy / "1.parquet")
    with pytest.raises(TableError, match=f"another table.*{NAMES[3]}"):
        predict(model, copy / "*.parquet", out)
    with pytest.raises(TableError, match=f"other files .{NAMES[3]}."):
        predict(model, copy / "0.parquet", out)
    with pytest.raises(TableError, match=r"other files \(0.parquet\)"):
        predict(model, copy / "*.parquet", copy)


def test_strict_run_checks_finished_parts(model, rows, tmp_path):
    message = r'0.parquet: . rows have unseen categories in "town", such as "Rome"'
    predict(model, rows / "*.parquet", tmp_path / "out")
    with pytest.raises(TableError, match=message):
        predict(model, rows / "*.parquet", tmp_path / "out", strict=True, run=None)
    predict(model, rows / "*.parquet", tmp_path / "more", keep=[])
    with pytest.raises(TableError, match=r"0.parquet: Columns that the model was not trained on: id"):
        predict(model, rows / "*.parquet", tmp_path / "more", keep=[], strict=True, run=None)


def test_two_runs_at_the_same_time(model, rows, expected, tmp_path, monkeypatch):
    out, write = tmp_path / "out", parquet.ParquetWriter.write_batch

    def write_while_other_run_ends(writer, batch):
        monkeypatch.setattr(parquet.ParquetWriter, "write_batch", write)
        predict(model, rows / "*.parquet", out)  # from the beginning to the manifest
        write(writer, batch)

    monkeypatch.setattr(parquet.ParquetWriter, "write_batch", write_while_other_run_ends)
    assert predict(model, rows / "*.parquet", out).rows == len(expected)
    assert contents(out) == sorted([*NAMES, MANIFEST])
    pd.testing.assert_frame_equal(joined(out), expected, check_exact=True)


def test_worker_without_trusted_package(houses, rows, tmp_path, monkeypatch):
    (tmp_path / "owncode.py").write_text(
        "from sklearn.tree import DecisionTreeRegressor\nclass Own(DecisionTreeRegressor):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import owncode

    fit(houses[:300].drop(columns="id"), "price", model=owncode.Own()).save(tmp_path / "model")

    def run(work, tasks):
        monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
        monkeypatch.delitem(sys.modules, "owncode")
        return run_locally(work, tasks)

    with pytest.raises(ClusterError, match=r"cannot load the model \(.*owncode.*every machine needs"):
        predict(tmp_path / "model", rows / "*.parquet", tmp_path / "out", trust=["owncode.Own"], run=run)


def test_failing_part_names_file_and_row(model, rows, tmp_path):
    copy, out = shutil.copytree(rows, tmp_path / "rows"), tmp_path / "out"
    table = parquet.read_table(copy / "1.parquet").to_pandas().fillna(0).astype({"area": str})
    table.loc[1000, "area"] = "wide"
    parquet.write_table(pa.Table.from_pandas(table), copy / "1.parquet", row_group_size=700)
    with pytest.raises(TableError, match=r'1.parquet: the column "area" contains "wide" in row 1,001'):
        predict(model, copy / "*.parquet", out)
    assert contents(out) == NAMES[:4]


def test_file_formats(model, rows, houses, expected, tmp_path):
    table = houses.drop(columns="price")
    table[:50].to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(table[50:80].to_csv(index=False, sep=";").encode()))
    table[80:99].reset_index(drop=True).to_feather(tmp_path / "c.arrow")
    parquet.write_table(pa.Table.from_pandas(table[:0]), tmp_path / "d.parquet")
    done = predict(model, tmp_path / "*.*", tmp_path / "out", keep=[])
    assert done.rows == 99
    pd.testing.assert_frame_equal(joined(tmp_path / "out"), load(model).predict(table[:99]))


def test_ignored_names_and_files_without_rows(model, rows, houses, tmp_path):
    table = houses[:60].drop(columns="price").to_csv(index=False)
    header = table.splitlines()[0] + "\n"
    (tmp_path / "_rows").mkdir()
    (tmp_path / "_rows" / "_temporary").mkdir()
    for name, content in (
        *(("a.csv", header), ("b.csv", table), ("_SUCCESS", ""), (".c.csv", table), ("_d.csv", table)),
        *(("e.csv.gz", gzip.compress(header.encode())), ("_temporary/f.csv", table)),
    ):
        content = content.encode() if isinstance(content, str) else content
        (tmp_path / "_rows" / name).write_bytes(content)
    for number, pattern in enumerate(("*", "**", "?.csv", "_d.csv")):
        assert predict(model, tmp_path / "_rows" / pattern, tmp_path / f"out{number}").rows == 60
    with pytest.raises(TableError, match="has no rows"):
        predict(model, tmp_path / "_rows" / "a*.csv", tmp_path / "none")


def test_kept_columns_have_one_type(model, rows, tmp_path):
    copy = shutil.copytree(rows, tmp_path / "rows")
    table = parquet.read_table(copy / "1.parquet")

    def write(column):
        parquet.write_table(table.set_column(0, "id", column), copy / "1.parquet")

    write(table["id"].cast(pa.string()))
    with pytest.raises(
        TableError, match=r'"id" cannot be kept: it is int64 in .*0.pa.* and string in .*1.pa'
    ):
        predict(model, copy / "*.parquet", tmp_path / "out", run=None)
    assert not (tmp_path / "out").exists()
    predict(model, copy / "*.parquet", tmp_path / "others", keep=["town"])
    write(table["id"].dictionary_encode())
    predict(model, copy / "*.parquet", tmp_path / "out")
    assert parquet.read_table(tmp_path / "out")["id"].type == pa.int64()


def test_linear_and_knn_models_equal_to_rounding(houses, rows, tmp_path):
    for name in ("linear", "knn"):
        fit(houses[:300].drop(columns="id"), "price", model=name).save(tmp_path / name)
        predict(tmp_path / name, rows / "0.parquet", tmp_path / f"{name}-parts")
        predict_file(load(tmp_path / name), rows / "0.parquet", tmp_path / f"{name}.parquet", keep=["id"])
        actual, whole = joined(tmp_path / f"{name}-parts"), pd.read_parquet(tmp_path / f"{name}.parquet")
        pd.testing.assert_frame_equal(actual, whole, rtol=1e-12, atol=0)


@pytest.fixture
def memory():
    """A file system that is not local."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def test_files_by_url(model, rows, expected, memory, tmp_path):
    memory.put(str(rows), "/rows", recursive=True)
    predict(model, f"file://{rows}/*.parquet", f"file://{tmp_path}/local")
    pd.testing.assert_frame_equal(joined(tmp_path / "local"), expected, check_exact=True)
    predict(model, "memory://rows/*.parquet", "memory://out")
    memory.rm("/out/part-000004.parquet")
    requested = []

    def run(work, tasks):
        requested.extend(part.name for part in tasks)
        return run_locally(work, tasks)

    done = predict(model, "memory://rows/*.parquet", "memory://out", run=run)
    assert requested == ["part-000004.parquet"] and done.rows == len(expected)
    memory.get("/out", str(tmp_path / "fetched"), recursive=True)
    assert contents(tmp_path / "fetched") == sorted([*NAMES, MANIFEST])
    pd.testing.assert_frame_equal(joined(tmp_path / "fetched"), expected, check_exact=True)


def test_csv_file_by_url(model, houses, memory, tmp_path):
    table = houses[:60].drop(columns="price")
    memory.pipe("/rows/a.csv", table.to_csv(index=False).encode())
    memory.pipe("/rows/b.csv", table.assign(rooms="many").to_csv(index=False).encode())
    assert predict(model, "memory://rows/a.csv", tmp_path / "out").rows == 60
    pd.testing.assert_frame_equal(
        joined(tmp_path / "out").drop(columns="id"), load(model).predict(table), check_exact=True
    )
    with pytest.raises(TableError, match=r'memory:///rows/b.csv: the column "rooms" contains "many"'):
        predict(model, "memory://rows/b.csv", tmp_path / "other")


def test_invalid_input_raises_before_any_part_is_run(model, rows, tmp_path):
    def never(work, tasks):
        raise AssertionError

    pattern, out = rows / "*.parquet", tmp_path / "out"
    for source, options, message in (
        (rows / "*.csv", {}, "does not exist"),
        (rows, {}, r"is a folder: name its files, such as .*/\*\.parquet"),
        ("nowhere://rows/*.parquet", {}, "cannot read nowhere"),
        ("", {}, "is empty"),
        (pattern, {"keep": ["idd"]}, '0.parquet: there is no column "idd" to keep: did you mean "id"'),
        (pattern, {"coverage": 1.5}, "between 0 and 1"),
        (pattern, {"quantiles": [0.5, 1.0]}, "between 0 and 1, got 1"),
        (pattern, {"quantiles": [0.999]}, "requires more than 300 scored rows"),
        (pattern, {"strict": True, "keep": []}, "not trained on: id"),
    ):
        with pytest.raises(TableError, match=message):
            predict(model, source, out, run=never, **options)
    assert not out.exists()
    out.write_text("a file")
    with pytest.raises(TableError, match="is a file"):
        predict(model, pattern, out, run=never)
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(TableError, match=r"cannot read .*cut.parquet"):
        predict(model, tmp_path / "cut.parquet", tmp_path / "new", run=never)
    empty = pa.table({"area": pa.array([], pa.float64())})
    parquet.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(TableError, match="has no rows"):
        predict(model, tmp_path / "empty.parquet", tmp_path / "new", run=never)


def test_file_name_with_brackets(model, rows, tmp_path):
    shutil.copy(rows / "0.parquet", tmp_path / "rows[1].parquet")
    assert predict(model, tmp_path / "rows[1].parquet", tmp_path / "out").rows == 2100


def test_parts_use_one_thread(houses, rows, tmp_path):
    table = houses[:300].drop(columns="id")
    fit(table, "price", model="tree", n_train_anchors=5, n_jobs=2).save(tmp_path / "model")
    seen = []

    def run(work, tasks):
        yield from run_locally(work, tasks)
        seen.append(work.model.fitted.model.n_jobs)

    predict(tmp_path / "model", rows / "0.parquet", tmp_path / "out", run=run)
    whole = load(tmp_path / "model")
    assert seen == [1] and whole.fitted.model.n_jobs == 2
    actual = joined(tmp_path / "out").prediction
    np.testing.assert_array_equal(actual, whole.predict(rows / "0.parquet").prediction)
