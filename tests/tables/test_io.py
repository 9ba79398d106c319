"""Reading of table files: names, decimals, dates, types, pipes."""

import datetime
import decimal
import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from deltauq.tables.errors import TableError
from deltauq.tables.io import to_frame
from deltauq.tables.preprocessing import load_table


def load(file, target="y", task="auto", max_rows=1000, seed=0):
    return load_table(file, target, task, max_rows, seed)


def written(tmp_path, text):
    file = tmp_path / "x.csv"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("header", ["a,y,y", "a,y, y", "y,a,y"])
def test_duplicate_target_raises(header, tmp_path):
    with pytest.raises(TableError, match="y names several columns"):
        load(written(tmp_path, f"{header}\n1,2.5,2.5\n2,3.5,3.5\n"))


def test_duplicate_columns_are_numbered(tmp_path):
    table = load(written(tmp_path, "a,a,a.1,y\n1,5,8,2.5\n2,6,9,3.5\n"))
    assert table.X.to_dict("list") == {"a": [1, 2], "a.2": [5, 6], "a.1": [8, 9]}
    assert table.notes[0] == "Columns that share a name were numbered: a."


def test_decimal_commas_next_to_dates_and_points(tmp_path):
    text = "day;place;a;b;y\n01.02.2024;u;1,5;0.5;2,25\n02.02.2024;u;-2;0.6;3,5e1\n01.02.2024;v;;0.7;1,0\n"
    table = load(written(tmp_path, text))
    assert table.y.tolist() == [2.25, 35.0, 1.0]
    np.testing.assert_array_equal(table.X.a, [1.5, -2.0, np.nan])
    assert table.X.b.tolist() == [0.5, 0.6, 0.7]


def test_text_with_commas_is_no_number(tmp_path):
    table = load(written(tmp_path, "a;b;y\n1,5;u;1.5\n1,5;v;2.5\nx;u;3.5\nx;u;4.5\n"))
    assert table.X.a.tolist() == ["1,5", "1,5", "x", "x"]


def test_header_without_rows_raises(tmp_path):
    with pytest.raises(TableError, match="has no rows"):
        load(written(tmp_path, "a;b;y\n"))


def test_lists_and_records_are_left_out(tmp_path):
    file = tmp_path / "x.parquet"
    lists, records = [[1], [2, 3], []], [{"k": 1}, {"k": 2}, {"k": 3}]
    pd.DataFrame({"a": [1, 2, 3], "l": lists, "r": records, "y": [1.5, 2.5, 3.5]}).to_parquet(file)
    table = load(file)
    assert list(table.X.columns) == ["a"]
    assert table.notes[-1] == "Columns left out: l (lists or records), r (lists or records)."
    with pytest.raises(TableError, match="l contains lists"):
        load(file, target="l")


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
@pytest.mark.parametrize("encoded", [False, True])
def test_binary_columns_are_left_out(suffix, encoded, tmp_path):
    column = pa.array([bytes([255, k % 3]) for k in range(9)])
    table = pa.table({"a": range(9), "x": column.dictionary_encode() if encoded else column, "y": range(9)})
    table = table.append_column("z", pa.array(np.arange(9) / 7))
    file = tmp_path / f"x.{suffix}"
    (parquet.write_table if suffix == "parquet" else feather.write_feather)(table, file)
    loaded = load(file, target="z")
    assert list(loaded.X.columns) == ["a", "y"]
    assert loaded.notes[-1] == "Columns left out: x (binary data)."
    with pytest.raises(TableError, match="x contains binary data"):
        load(file, target="x")


def one_column(tmp_path, column):
    """Write a Feather file of a column and a target."""
    table = pa.table({"x": column, "y": np.arange(len(column)) / 7})
    feather.write_feather(table, tmp_path / "x.feather", compression="uncompressed")
    return tmp_path / "x.feather"


def test_decimals_of_a_negative_scale_are_numbers(tmp_path):
    values = [decimal.Decimal(f"{k}E3") for k in range(1, 5)]
    table = load(one_column(tmp_path, pa.array(values, pa.decimal128(5, -3))))
    assert table.X.x.tolist() == [1000.0, 2000.0, 3000.0, 4000.0]


def test_long_durations_do_not_overflow(tmp_path):
    seconds = pa.array([0, 2**40, 2**62], pa.int64()).view(pa.duration("s"))
    table = load(one_column(tmp_path, seconds))
    np.testing.assert_allclose(table.X.x, [0.0, 2**40 / 86400, 2**62 / 86400])


@pytest.mark.parametrize(
    ("column", "error_message"),
    [
        (pa.array([0, 2**62], pa.int64()).view(pa.timestamp("us")), "outside the years 1 to 9999"),
        (pa.array([0, -(2**45)], pa.int64()).view(pa.timestamp("s")), "outside the years 1 to 9999"),
        (pa.array([0, 2**31 - 1], pa.int32()).view(pa.date32()), r'column "x" \(date32'),
        (pa.array([0, 1], pa.int64()).view(pa.timestamp("s", "Mars/Olympus")), r'column "x" \(timestamp'),
        (
            pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
            r'column "x" \(sparse_union',
        ),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", "a"])), r'column "x" \(dictionary'),
    ],
)
def test_unsupported_values_raise(column, error_message, tmp_path):
    with pytest.raises(TableError, match=error_message) as caught:
        load(one_column(tmp_path, column))
    assert "\n" not in str(caught.value)


def test_messages_are_one_short_line(tmp_path):
    message = str(TableError("the column has " + "x\n\x1b[31m" * 10_000 + ", where numbers are expected."))
    assert len(message) < 1000 and message.isprintable()
    assert message.startswith("the column has") and message.endswith("where numbers are expected.")


def test_decimals_dates_and_durations_become_numbers(tmp_path):
    file = tmp_path / "x.parquet"
    days = [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 4)]
    spans = pd.to_timedelta([1.0, 0.5, 2.0], unit="D")
    prices = [decimal.Decimal("1.50"), decimal.Decimal("2.25"), decimal.Decimal("9.00")]
    costs = [decimal.Decimal("0.10"), None, decimal.Decimal("0.30")]
    pd.DataFrame({"day": days, "span": spans, "cost": costs, "y": prices}).to_parquet(file)
    table = load(file)
    assert (table.task, table.y.tolist()) == ("regression", [1.5, 2.25, 9.0])
    np.testing.assert_array_equal(table.X.day, [0.0, np.nan, 3.0])
    assert table.X.span.tolist() == [1.0, 0.5, 2.0]
    np.testing.assert_array_equal(table.X.cost, [0.1, np.nan, 0.3])
    assert table.notes[-1] == "Dates and times were taken as numbers of days: day, span."


def test_iso_dates_in_text_become_days(tmp_path):
    text = "day,at,odd,y\n2024-01-01,2024-01-01T12:00,2024-06-31,1.5\n,2024-01-02 00:00:00Z,2024-06-31,2.5\n"
    text += "2024-03-01,2024-01-01T00:00+01:00,2024-06-30,3.5\n2024-01-02,,2024-06-30,4.5\n"
    table = load(written(tmp_path, text))
    np.testing.assert_allclose(table.X.day, [0.0, np.nan, 60.0, 1.0])
    np.testing.assert_allclose(table.X["at"], [13 / 24, 25 / 24, 0.0, np.nan])
    assert table.X.odd.tolist() == ["2024-06-31"] * 2 + ["2024-06-30"] * 2
    assert "day, at." in table.notes[-1]


def test_a_pipe_is_read_once():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "y"])
    command = [
        sys.executable,
        "-m",
        "deltauq.cli",
        "assess",
        "/dev/stdin",
        "--target",
        "y",
        "--model",
        "linear",
    ]
    done = subprocess.run(
        command, input=frame.to_csv(index=False), capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Ridge, regression: 120 rows" in done.stdout


def test_damaged_compressed_file_raises(tmp_path):
    file = tmp_path / "x.csv.gz"
    packed = bytearray(gzip.compress(b"a,y\n" + b"1,2\n" * 500))
    packed[12:20] = b"\xff" * 8
    file.write_bytes(bytes(packed))
    with pytest.raises(TableError, match="cannot read"):
        load(file)


@pytest.mark.parametrize("mark", ["?", "NA", ""])
def test_text_because_of_missing_values_is_numbers(mark, tmp_path):
    frame = pd.DataFrame({"hp": ["130", mark, "95", "150"] * 3, "a": range(12), "y": np.arange(12) / 7})
    by_frame, by_path = load(frame), load(written(tmp_path, frame.to_csv(index=False)))
    assert [column.kind for column in by_frame.schema.columns] == ["number", "number"]
    pd.testing.assert_frame_equal(by_frame.X, by_path.X)
    target = load(frame, target="hp", task="regression")
    assert target.y.tolist() == [130.0, 95.0, 150.0] * 3
    assert frame.hp.tolist() == ["130", mark, "95", "150"] * 3


def test_integer_classes_with_missing_values(tmp_path):
    frame = pd.DataFrame({"a": np.arange(40.0), "y": [1.0, 2.0, None, 10.0] * 10})
    text = frame.astype({"y": "Int64"}).to_csv(index=False)
    frame.to_parquet(tmp_path / "x.parquet")
    for source in (written(tmp_path, text), tmp_path / "x.parquet", frame):
        table = load(source)
        assert (table.task, table.labels) == ("classification", "int64")
        assert set(table.y) == {"1", "2", "10"}
    halves = load(frame.assign(y=[1.0, 1.5] * 20), task="classification")
    assert (halves.labels, set(halves.y)) == ("float64", {"1.0", "1.5"})


def test_parquet_and_feather_dictionaries_agree(tmp_path):
    values = {
        "k": pa.array([10, 20, 30]),
        "day": pa.array([datetime.date(2024, 1, day) for day in (1, 2, 4)]),
        "cost": pa.array([decimal.Decimal("0.10"), decimal.Decimal("0.20"), decimal.Decimal("0.30")]),
        "town": pa.array(["u", "v", "w"]),
    }
    codes = pa.array([0, 1, None, 2] * 3)
    columns = {name: pa.DictionaryArray.from_arrays(codes, array) for name, array in values.items()}
    table = pa.table({**columns, "y": np.arange(12) / 7})
    parquet.write_table(table, tmp_path / "x.parquet")
    feather.write_feather(table, tmp_path / "x.feather")
    one, other = (load(tmp_path / f"x.{suffix}") for suffix in ("parquet", "feather"))
    assert [column.kind for column in other.schema.columns] == ["number", "date", "number", "category"]
    assert one.schema == other.schema
    pd.testing.assert_frame_equal(one.X, other.X)
    batch = table.to_batches()[0]
    pd.testing.assert_frame_equal(one.schema.read(to_frame(batch)), one.X)
    classes = load(tmp_path / "x.feather", target="k")
    assert (classes.labels, set(classes.y)) == ("int64", {"10", "20", "30"})
