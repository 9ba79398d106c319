"""`deltauq assess` as a user runs it, and how it reads the user's table."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

from deltauq.cli.complaints import BadInput
from deltauq.cli.models import ModelWord, build_model
from deltauq.cli.tables import UserTable, load_table, read_frame

WITHOUT = "import sys; sys.modules[{name!r}] = None; from deltauq.cli import main; main()"


def run(*arguments, program=None):
    start = ["-m", "deltauq.cli"] if program is None else ["-c", program]
    command = [sys.executable, *start, "assess", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def assert_one_line(done, *words):
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("deltauq: ")
    for word in words:
        assert word in lines[0]


def load(file, target="y", task="auto", max_rows=1000, seed=0):
    return load_table(file, target, task, max_rows, seed)


@pytest.fixture
def diabetes(tmp_path):
    """A table with gaps, words, a constant, row numbers and names."""
    frame = load_diabetes(as_frame=True).frame.iloc[:120].rename(columns={"target": "y"})
    frame["size"] = np.where(frame.bmi > 0, "large", "small")
    frame.loc[::9, "bmi"] = np.nan
    frame.loc[::10, "size"] = None
    frame["unit"] = "mg"
    frame["name"] = [f"patient {k}" for k in range(len(frame))]
    file = tmp_path / "diabetes.csv"
    frame.to_csv(file)
    return file


# -- the command -----------------------------------------------------------------------------------------


def test_a_table_with_all_that_tables_have(diabetes, tmp_path):
    page = tmp_path / "page.html"
    done = run(diabetes, "--target", "y", "--model", "knn", "--folds", "3", "--html", page)
    assert (done.returncode, done.stderr) == (0, "")
    assert "KNeighborsRegressor, regression: 120 rows, 3 folds" in done.stdout
    for word in ("unit (one value)", "name (words that hardly repeat)", "row numbers", "anchored", "MAE"):
        assert word in " ".join(done.stdout.split())
    assert "se anchoring" in done.stdout or "Use it for σ only" in done.stdout
    assert "y of diabetes.csv, knn" in page.read_text(encoding="utf-8")


def test_json_is_all_that_is_printed(diabetes):
    done = run(diabetes, "--target", "y", "--model", "linear", "--folds", "3", "--json")
    assert done.stderr == ""
    numbers = json.loads(done.stdout)
    assert (numbers["target"], numbers["model"], numbers["page"]) == ("y", "linear", None)
    assert numbers["verdict"]["advice"] == "don't"
    # Ten columns, and the size; in the unit of the target and not of its standard deviation.
    assert numbers["columns"] == 11
    assert 20 < numbers["methods"][0]["mae"] < 200
    assert len(numbers["notes"]) == 2


@pytest.mark.parametrize(("word", "count"), [("quick", 64), ("auto", 64), ("7", 7)])
def test_training_anchors_are_chosen_and_told(word, count, diabetes):
    words = ("--model", "tree", "--folds", "3", "--repeats", "2", "--train-anchors", word)
    done = run(diabetes, "--target", "y", *words)
    assert done.stderr == ""
    text = " ".join(done.stdout.split())
    assert f"trained with {count} anchors a row" in text and "6 folds" in text
    assert ("(n_train_anchors=7); the default trains with 64." in text) == (word == "7")


def test_bad_input_gets_one_line(diabetes, tmp_path):
    assert_one_line(run(tmp_path / "no.csv", "--target", "y"), "no.csv does not exist")
    assert_one_line(run(diabetes, "--target", "y", "--max-rows", "30"), "Too few rows")
    assert_one_line(run(diabetes, "--target", "y", "--train-anchors", "few"), "positive integer, got few")
    assert_one_line(run(diabetes, "--target", "y", "--html", tmp_path / "no" / "x.html"), "not a folder")


@pytest.mark.parametrize(
    ("name", "words"), [("pandas", "pip install pandas"), ("rich", "pip install 'deltauq[cli,report]'")]
)
def test_what_is_missing_is_named(name, words, diabetes):
    assert_one_line(run(diabetes, "--target", "y", program=WITHOUT.format(name=name)), name, words)


@pytest.mark.slow
@pytest.mark.parametrize("word", list(ModelWord))
@pytest.mark.parametrize("target", ["y", "size"])
def test_every_model_on_both_tasks(word, target, diabetes):
    done = run(diabetes, "--target", target, "--model", word, "--folds", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["task"] == ("regression" if target == "y" else "classification")


# -- the table -------------------------------------------------------------------------------------------


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
    assert table.notes[0] == "2 of 4 rows were left out: y is missing there."


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
    with pytest.raises(BadInput, match=message) as caught:
        load(file, **words)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(BadInput, match="is a folder"):
        load(tmp_path)


def test_words_become_columns_and_units_go_where_they_matter():
    bunch = load_iris(as_frame=True)
    frame = bunch.data.assign(colour=["red", "blue"] * 75)
    table = UserTable(frame, np.asarray(bunch.target, dtype=str), "classification")
    scaled = build_model(ModelWord.svm, table)[:-1].fit_transform(table.X, table.y)
    assert scaled.shape == (150, 6)
    np.testing.assert_allclose(scaled[:, :4].std(axis=0), 1.0)
    np.testing.assert_array_equal(np.unique(scaled[:, 4:]), [0.0, 1.0])
    raw = build_model(ModelWord.forest, table)[:-1].fit_transform(table.X, table.y)
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
    pd.testing.assert_frame_equal(read_frame(path), frame)


def test_an_archive_is_refused(tmp_path):
    path = tmp_path / "table.zip"
    path.write_bytes(b"PK")
    with pytest.raises(BadInput, match="unpack it first"):
        read_frame(path)


def test_a_delimiter_too_many_does_not_shift_the_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b,y\n1,2,3,\n4,5,6,\n")
    assert read_frame(path).to_dict("list") == {"a": [1, 4], "b": [2, 5], "y": [3, 6]}
    path.write_text("a,b,y\nfirst,1,2,3\nsecond,4,5,6\n")  # names of the rows, as R writes them
    assert read_frame(path).to_dict("list") == {"a": [1, 4], "b": [2, 5], "y": [3, 6]}


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_targets_of_any_size_are_assessed(tmp_path, unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": unit * (X[:, 0] + 0.1 * X[:, 1])})
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = run(tmp_path / "t.csv", "--target", "y", "--model", "tree", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"]["sentence"]
