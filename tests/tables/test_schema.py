"""Reading of tables by the schema of a training table."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltauq.tables.errors import TableError
from deltauq.tables.io import open_table
from deltauq.tables.schema import infer_schema


def as_text(frame):
    """Return what a CSV file gives: text, and None."""
    return frame.astype(object).map(lambda value: None if pd.isna(value) else str(value))


def test_days_are_counted_from_the_first_training_date():
    schema = infer_schema(pd.DataFrame({"day": ["2024-01-01", "2024-03-01"]}), [])
    later = schema.read(pd.DataFrame({"day": ["2024-01-11", None]}))
    np.testing.assert_array_equal(later.day, [10.0, np.nan])
    stamps = pd.DataFrame({"day": [pd.Timestamp("2024-01-11T12:00"), pd.Timestamp("2023-12-31")]})
    np.testing.assert_array_equal(schema.read(stamps).day, [10.5, -1.0])


def test_text_and_typed_columns_agree(mixed):
    schema = infer_schema(mixed, [])
    pd.testing.assert_frame_equal(schema.read(as_text(mixed)), schema.read(mixed))


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "feather"])
def test_file_formats_agree(mixed, suffix, tmp_path):
    path = tmp_path / f"x.{suffix}"
    {
        "csv": lambda: mixed.to_csv(path, index=False, sep=";", decimal=","),
        "parquet": lambda: mixed.iloc[::-1].iloc[::-1].to_parquet(path),
        "arrow": lambda: mixed.to_feather(path, compression="zstd"),
        "feather": lambda: mixed.to_feather(path),
    }[suffix]()
    schema = infer_schema(mixed, [])
    with open_table(path, batch_rows=50) as stream:
        parts = [schema.read(batch.to_pandas()) for batch in stream.batches]
    assert len(parts) == 5
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), schema.read(mixed))


@given(st.lists(st.floats(-1e36, 1e36) | st.none(), min_size=2, max_size=20, unique=True))
def test_numbers_survive_text(values):
    frame = pd.DataFrame({"a": pd.Series(values, dtype="float64"), "b": np.arange(len(values))})
    schema = infer_schema(frame, [])
    pd.testing.assert_frame_equal(schema.read(as_text(frame)), schema.read(frame))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "area",
            ["1", "2", "wide"],
            'column "area" contains "wide" in row 103, where numbers are expected',
        ),
        ("area", [1.0, np.inf, 2.0], 'contains "inf" in row 102, which is too large'),
        ("area", [1.0, 2.0, -1e308], 'contains "-1e\\+308" in row 103, which is too large'),
        ("area", pd.to_datetime(["2024-01-01"] * 3), "where numbers are expected"),
        ("sold", ["2024-01-01", "soon", None], 'contains "soon" in row 102, where dates are expected'),
        ("sold", [1.0, 2.0, 3.0], "where dates are expected"),
        ("town", [["Ulm"], [], ["Bern"]], "lists or records"),
    ],
)
def test_invalid_values_raise_with_their_row(mixed, column, values, message):
    schema = infer_schema(mixed, [])
    table = mixed.iloc[:3].assign(**{column: values})
    with pytest.raises(TableError, match=message):
        schema.read(table, first_row=100)


def test_invalid_value_among_decimal_commas_raises(mixed):
    schema = infer_schema(mixed, [])
    table = as_text(mixed.iloc[:3]).assign(area=["1,5", "2,5,1", "-3,5e2"])
    with pytest.raises(TableError, match='"2,5,1" in row 2'):
        schema.read(table)
    table["area"] = ["1,5", None, "-3,5e2"]
    np.testing.assert_array_equal(schema.read(table).area, [1.5, np.nan, -350.0])


def test_missing_column_raises(mixed):
    schema = infer_schema(mixed, [])
    with pytest.raises(
        TableError, match='"area", which the model was trained on, is missing: did you mean "Are"'
    ):
        schema.read(mixed.rename(columns={"area": "Are"}))


def test_unseen_categories_are_counted(mixed):
    schema = infer_schema(mixed, [])
    table = mixed.iloc[:4].assign(town=["Ulm", "Rome", None, "Rome"])
    assert list(schema.unseen_categories(schema.read(table))) == [("town", 2, "Rome")]
