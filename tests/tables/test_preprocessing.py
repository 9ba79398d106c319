"""A table is parted into features and target, or refused in one line."""

import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from deltauq.tables.base_models import BaseModel
from deltauq.tables.errors import TableError
from deltauq.tables.io import read_frame
from deltauq.tables.preprocessing import TrainingTable, build_pipeline, load_table
from deltauq.tables.schema import infer_schema


def load(file, target="y", task="auto", max_rows=1000, seed=0):
    return load_table(file, target, task, max_rows, seed)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_delimiters_are_found(delimiter, packed, tmp_path):
    text = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": ["u", "u", "v"], "y": [1.25, 2.0, 3.0]}).to_csv(
        sep=delimiter, index=False
    )
    file = tmp_path / ("x.csv.gz" if packed else "x.csv")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode("utf-8-sig"))
    table = load(file)
    assert list(table.X.columns) == ["a", "b"] or list(table.X.columns) == ["a"]
    assert table.y.tolist() == [1.25, 2.0, 3.0]


def test_a_decimal_comma_is_understood(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a;y\n1,5;2,25\n2,5;3,5\n3,5;1,0\n")
    table = load(file)
    assert (table.X.a.tolist(), table.y.tolist()) == ([1.5, 2.5, 3.5], [2.25, 3.5, 1.0])


def test_parquet_keeps_its_types(tmp_path):
    file = tmp_path / "x.parquet"
    days = pd.date_range("2024-01-01", periods=4)
    pd.DataFrame({"day": days, "on": [True, False, True, True], "y": [1.5, 2.0, 3.0, 9.0]}).to_parquet(file)
    table = load(file)
    assert table.X.day.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert table.X["on"].tolist() == [1.0, 0.0, 1.0, 1.0]


def test_rows_without_a_target_are_left_out_and_counted(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a,y\n1,1.5\n2,\n3,2.5\n4,\n")
    table = load(file)
    assert table.y.tolist() == [1.5, 2.5] and table.X.a.tolist() == [1.0, 3.0]
    assert table.notes[0] == "2 of 4 rows were left out because y is missing."


def test_more_rows_than_asked_for_are_drawn_at_random(tmp_path):
    file = tmp_path / "x.csv"
    pd.DataFrame({"a": np.arange(100), "y": np.arange(100) / 2}).to_csv(file, index=False)
    one, same, other = (load(file, max_rows=20, seed=seed) for seed in (0, 0, 1))
    assert len(one.y) == 20 and one.y.tolist() == same.y.tolist() != other.y.tolist()
    assert (one.X.a / 2).tolist() == one.y.tolist()
    assert "20 of 100 rows" in one.notes[0]


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a", "b"], "classification"),
        ([True, False, True, False], "classification"),
        ([0, 1, 1, 0], "classification"),
        ([0.5, 1.0, 1.5, 1.5], "regression"),
        (list(range(11)) * 2, "regression"),
    ],
)
def test_the_task_follows_from_the_target(values, task, tmp_path):
    file = tmp_path / "x.csv"
    pd.DataFrame({"a": np.arange(len(values)), "y": values}).to_csv(file, index=False)
    assert load(file).task == task


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", {}, "x.csv is empty"),
        ("a,y\n", {}, "x.csv has no rows"),
        ("a,y\n1,\n2,\n", {}, "y is missing in every row"),
        ("a,y\n1,5\n2,5\n", {}, "y is 5 in every row"),
        ("a,b\n1,5\n2,6\n", {"target": "zzz"}, "the columns are a, b"),
        ("age,Sex,y\n1,5,1\n2,6,3\n", {"target": "sexx"}, 'no column "sexx": did you mean "Sex"'),
        ("a,y\n1,u\n2,v\n3,u\n", {"task": "regression"}, "y is not numeric"),
        ("a,y\n1,u\n2,v\n3,w\n", {}, "3 classes in 3 rows"),
        ("a,y\n1,1.5\n1,2.5\n", {}, "no columns left"),
        ("a,y\n1,1.5\n2,inf\n3,1\n", {}, "infinite"),
        ("a,y\n1,2,3,4\n1,2\n1,2,3,4,5\n", {}, "cannot read"),
        (b"a,y\n1,\xff\xfe\n", {}, "cannot read"),
    ],
)
def test_bad_tables_are_refused_in_one_line(text, words, message, tmp_path):
    file = tmp_path / "x.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableError, match=message) as caught:
        load(file, **words)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        load(tmp_path)


def test_words_become_columns_and_units_go_where_they_matter():
    bunch = load_iris(as_frame=True)
    frame = bunch.data.assign(colour=["red", "blue"] * 75)
    table = TrainingTable(
        frame, np.asarray(bunch.target, dtype=str), "classification", infer_schema(frame, [])
    )
    scaled = build_pipeline(BaseModel.svm, table)[:-1].fit_transform(table.X, table.y)
    assert scaled.shape == (150, 6)
    np.testing.assert_allclose(scaled[:, :4].std(axis=0), 1.0)
    np.testing.assert_array_equal(np.unique(scaled[:, 4:]), [0.0, 1.0])
    raw = build_pipeline(BaseModel.forest, table)[:-1].fit_transform(table.X, table.y)
    np.testing.assert_allclose(raw[:, :4], bunch.data)


@pytest.mark.parametrize("suffix", [".csv", ".CSV.GZ", ".csv.bz2", ".csv.xz", ".PARQUET"])
def test_packed_files_are_read_whatever_the_case_of_their_names(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1.5, 2.5], "y": [3.0, 4.0]})
    path = tmp_path / f"table{suffix}"
    if suffix == ".PARQUET":
        frame.to_parquet(path)
    else:
        packing = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}.get(path.suffix.lower())
        frame.to_csv(path, index=False, compression=packing)
    read = infer_schema(frame, []).read(read_frame(path)[0])
    pd.testing.assert_frame_equal(read, frame)


def test_an_archive_is_refused(tmp_path):
    path = tmp_path / "table.zip"
    path.write_bytes(b"PK")
    with pytest.raises(TableError, match="unpack it first"):
        read_frame(path)[0]


def test_a_delimiter_too_many_does_not_shift_the_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n1,2,3,\n4,5,6,\n")
    assert read_frame(path)[0].to_dict("list") == {"a": ["1", "4"], "b": ["2", "5"], "y": ["3", "6"]}
    path.write_text("a,b,y\nfirst,1,2,3\nsecond,4,5,6\n")  # names of the rows, as R writes them
    assert read_frame(path)[0].to_dict("list") == {"a": ["1", "4"], "b": ["2", "5"], "y": ["3", "6"]}
