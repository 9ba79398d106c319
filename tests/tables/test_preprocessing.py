"""Loading of tables for training, and their preprocessing."""

import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import check_estimator

from deltauq.tables.base_models import BaseModel
from deltauq.tables.errors import TableError
from deltauq.tables.io import read_frame
from deltauq.tables.preprocessing import TrainingTable, UnitScaler, build_pipeline, load_table
from deltauq.tables.schema import infer_schema


def load(file, target="y", task="auto", max_rows=1000, seed=0):
    return load_table(file, target, task, max_rows, seed)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("packed", [False, True])
def test_delimiters(delimiter, packed, tmp_path):
    text = pd.DataFrame({"a": [1.5, 2.5, 3.5], "b": ["u", "u", "v"], "y": [1.25, 2.0, 3.0]}).to_csv(
        sep=delimiter, index=False
    )
    file = tmp_path / ("x.csv.gz" if packed else "x.csv")
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode("utf-8-sig"))
    table = load(file)
    assert list(table.X.columns) == ["a", "b"] or list(table.X.columns) == ["a"]
    assert table.y.tolist() == [1.25, 2.0, 3.0]


def test_decimal_commas(tmp_path):
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


def test_rows_without_target_are_left_out(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("a,y\n1,1.5\n2,\n3,2.5\n4,\n")
    table = load(file)
    assert table.y.tolist() == [1.5, 2.5] and table.X.a.tolist() == [1.0, 3.0]
    assert table.notes[0] == "2 of 4 rows were left out because y is missing."


def test_max_rows(tmp_path):
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
def test_inferred_task(values, task, tmp_path):
    file = tmp_path / "x.csv"
    pd.DataFrame({"a": np.arange(len(values)), "y": values}).to_csv(file, index=False)
    assert load(file).task == task


@pytest.mark.parametrize(
    ("text", "options", "message"),
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
def test_unusable_tables_raise(text, options, message, tmp_path):
    file = tmp_path / "x.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TableError, match=message) as caught:
        load(file, **options)
    assert "\n" not in str(caught.value)


def test_folder_instead_of_a_table_raises(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        load(tmp_path)


def test_preprocessing_of_categories_and_units():
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
def test_compressed_files(tmp_path, suffix):
    frame = pd.DataFrame({"a": [1.5, 2.5], "y": [3.0, 4.0]})
    path = tmp_path / f"table{suffix}"
    if suffix == ".PARQUET":
        frame.to_parquet(path)
    else:
        packing = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz"}.get(path.suffix.lower())
        frame.to_csv(path, index=False, compression=packing)
    read = infer_schema(frame, []).read(read_frame(path)[0])
    pd.testing.assert_frame_equal(read, frame)


def test_archives_raise(tmp_path):
    path = tmp_path / "table.zip"
    path.write_bytes(b"PK")
    with pytest.raises(TableError, match="unpack it first"):
        read_frame(path)[0]


def test_trailing_delimiter_does_not_shift_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n1,2,3,\n4,5,6,\n")
    assert read_frame(path)[0].to_dict("list") == {"a": ["1", "4"], "b": ["2", "5"], "y": ["3", "6"]}
    path.write_text("a,b,y\nfirst,1,2,3\nsecond,4,5,6\n")  # names of the rows, as R writes them
    assert read_frame(path)[0].to_dict("list") == {"a": ["1", "4"], "b": ["2", "5"], "y": ["3", "6"]}


@given(st.integers(-300, 300), st.integers(0, 1000))
def test_unit_scaler_does_not_round(exponent, seed):
    X = np.random.default_rng(seed).normal(size=(20, 2)) * 10.0**exponent
    scaler = UnitScaler().fit(X)
    scaled = scaler.transform(X)
    np.testing.assert_array_equal(scaled * scaler.scale_, X)
    if -2 <= exponent <= 15:
        np.testing.assert_array_equal(scaler.scale_, 1.0)
    if not -4 <= exponent <= 19:
        assert np.all((scaled.std(axis=0) > 0.7) & (scaled.std(axis=0) < 1.5))


@pytest.mark.parametrize("column", [np.zeros(5), np.full(5, 1e300), np.full(1, 3.0)])
def test_unit_scaler_keeps_constant_columns(column):
    np.testing.assert_array_equal(UnitScaler().fit_transform(column[:, None]), column[:, None])


def test_unit_scaler_keeps_missing_values():
    X = np.random.default_rng(0).normal(size=(20, 3)) * [1e-30, 1.0, 1e30]
    gaps = X.copy()
    gaps[::3] = np.nan
    expected = UnitScaler().fit(X[np.arange(20) % 3 > 0])
    scaler = UnitScaler().fit(gaps)
    np.testing.assert_array_equal(scaler.scale_, expected.scale_)
    np.testing.assert_array_equal(scaler.transform(gaps), gaps / scaler.scale_)
    np.testing.assert_array_equal(scaler.transform(X), X / scaler.scale_)


def test_unit_scaler_fills_columns_without_values():
    X = np.column_stack([np.arange(5.0), np.full(5, np.nan)])
    scaler = UnitScaler().fit(X)
    np.testing.assert_array_equal(scaler.transform(X), np.nan_to_num(X))


def test_unit_scaler_imputes_what_was_never_missing():
    X = np.array([[1.0, 1.0], [2.0, np.nan], [9.0, 3.0]])
    scaled = UnitScaler().fit(X).transform([[np.nan, np.nan]])
    np.testing.assert_array_equal(scaled, [[2.0, np.nan]])


def test_unit_scaler_rejects_infinite_values():
    X = np.array([[0.0], [np.inf]])
    with pytest.raises(ValueError, match="infinity"):
        UnitScaler().fit(X)
    with pytest.raises(ValueError, match="infinity"):
        UnitScaler().fit(X[:1]).transform(X)


@pytest.mark.parametrize("name", list(BaseModel))
def test_missing_numbers_remain_where_the_model_accepts_them(name):
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0, 5.0], "b": ["u", "v", "", "u"]})
    table = TrainingTable(frame, np.arange(4.0), "regression", infer_schema(frame, []))
    X = build_pipeline(name, table)[:-1].fit_transform(table.X)
    assert np.isnan(X).sum() == (name in ("forest", "boosting", "tree"))
    assert not np.isnan(X[:, 1:]).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_unit_scaler_is_an_estimator():
    check_estimator(UnitScaler())
