"""Dates and numbers in text: inferred formats, and errors for ambiguous ones."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltauq
from deltauq.tables import TableError, evaluate, fit, predict_file
from deltauq.tables.folder import METADATA_FILE, metadata_digest
from deltauq.tables.preprocessing import load_table
from deltauq.tables.text_parsing import infer_date_format, infer_decimal, parse_dates, parse_numbers


def text(*values):
    return pd.Series(values, dtype=object, name="column")


def german(number):
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


@pytest.fixture(scope="module")
def sales():
    """A table as a spreadsheet in German writes it: semicolons, decimal commas, days first."""
    rng = np.random.default_rng(0)
    n = 80
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    area = rng.uniform(20, 200, n).round(1)
    return pd.DataFrame(
        {
            "sold": days.strftime("%d.%m.%Y"),
            "area": [f"{value:.1f}".replace(".", ",") for value in area],
            "rooms": rng.integers(1, 7, n),
            "town": np.where(rng.random(n) < 0.2, "?", rng.choice(["Ulm", "Bern"], n)),
            "price": [german(value) for value in 3000 * area + rng.normal(0, 9000, n)],
        }
    )


@pytest.fixture(scope="module")
def file(sales, tmp_path_factory):
    path = tmp_path_factory.mktemp("sales") / "sales.csv"
    sales.to_csv(path, sep=";", index=False)
    return path


@pytest.fixture(scope="module")
def model(file):
    return fit(file, "price", model="linear")


# -- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "decimal", "numbers"),
    [
        (["1", "-2.5", "3e2"], "", [1.0, -2.5, 300.0]),
        (["1,5", "-20,25", "3"], ",", [1.5, -20.25, 3.0]),
        (["2.450,00", "13.900,5", " 80 "], ",", [2450.0, 13900.5, 80.0]),
        (["1.234.567", "1,5e3"], ",", [1234567.0, 1500.0]),
        (["2,450.00", "80.5"], ".", [2450.0, 80.5]),
        (["1,234,567", "8"], ".", [1234567.0, 8.0]),
    ],
)
def test_inferred_decimal_mark(values, decimal, numbers):
    column = text(*values, None)
    assert infer_decimal(column) == decimal
    np.testing.assert_array_equal(parse_numbers(column, decimal).astype(float), [*numbers, np.nan])


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=20), st.sampled_from(",."))
def test_grouped_numbers_survive_text(cents, decimal):
    numbers = [value / 100 for value in cents]
    written = text(*(german(value) if decimal == "," else f"{value:,.2f}" for value in numbers))
    assert parse_numbers(written, decimal).tolist() == numbers
    actual = infer_decimal(written)
    assert parse_numbers(written, actual).tolist() == numbers


@pytest.mark.parametrize("values", [["1,250", "2,375"], ["8,000", "800"], ["1.250", "800"]])
def test_ambiguous_numbers_raise(values):
    with pytest.raises(TableError, match=rf'"column" has numbers such as {values[0]}.*--decimal'):
        infer_decimal(text(*values))
    for decimal in ",.":
        assert infer_decimal(text(*values), decimal) == decimal
        group = "," if decimal == "." else "."
        expected = [float(value.replace(group, "").replace(",", ".")) for value in values]
        assert parse_numbers(text(*values), decimal).tolist() == expected


def test_ambiguous_points_beside_decimal_commas_raise(tmp_path):
    path = tmp_path / "cars.csv"
    rows = "".join(f"{9 + k}.{k:03d};{k},5;{k}\n" for k in range(20))
    path.write_text(f"km;litres;price\n{rows}")
    with pytest.raises(TableError, match=r'"km" has numbers such as 9\.000.*--decimal'):
        load_table(path, "price")
    assert load_table(path, "price", decimal=",").X.km.tolist() == [(9 + k) * 1000 + k for k in range(20)]
    assert load_table(path, "price", decimal=".").X.km[1] == 10.001


def test_numbers_without_a_known_mark():
    actual = parse_numbers(text("1.5", "1,5", "2.450,00", "2,450.00", "1,250", "x"))
    np.testing.assert_array_equal(actual, [1.5, 1.5, 2450.0, 2450.0, np.nan, np.nan])


def test_whole_numbers_use_the_mark_of_other_columns(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("pop;lat;price\n" + "".join(f"{100 + k};48.{k:04d};{k},25\n" for k in range(40)))
    table = load_table(path, "price")
    assert [column.format for column in table.schema.columns] == [",", ""]
    later = pd.DataFrame({"pop": ["1.250", "2.450,00", "950"], "lat": ["48.1351"] * 3})
    assert table.schema.read(later)["pop"].tolist() == [1250, 2450, 950]
    assert not any("pop" in note for note in table.notes)


def test_points_beside_commas_are_no_decimal_marks():
    actual = parse_numbers(text("1.250", "2.450,00", "950"))
    np.testing.assert_array_equal(actual, [np.nan, 2450, 950])
    assert parse_numbers(text("1.250", "1.5", "950")).tolist() == [1.25, 1.5, 950]
    assert parse_numbers(text("1.250", "1.250.000")).isna().tolist() == [True, False]
    assert parse_numbers(text("1.250", "2.5", "x")).isna().tolist() == [False, False, True]


def test_inferred_points_are_noted(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("km;litres;price\n" + "".join(f"6.{k:03d};{k}.5;{k}\n" for k in range(40)))
    table = load_table(path, "price")
    assert table.X.km[1] == 6.001
    assert [note for note in table.notes if "--decimal" in note and "km" in note and "litres" not in note]
    for decimal in ".,":  # columns without a mark are not listed
        notes = [note for note in load_table(path, "price", decimal=decimal).notes if "--decimal" in note]
        assert len(notes) == 1 and "price" not in notes[0]


def test_decimal_of_the_training_table_has_no_effect(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("lat;sold;y\n" + "".join(f"47.{k:04d};1.{k:03d};{k}.25\n" for k in range(40)))
    model = fit(path, "y", decimal=",", model="linear")
    pd.testing.assert_frame_equal(model.predict(path, decimal=","), model.predict(path))
    assert evaluate(model, path, decimal=",").to_dict() == evaluate(model, path).to_dict()
    later = pd.DataFrame({"lat": ["47.477"], "sold": ["1.250"]})
    assert model.with_formats(decimal=",").schema.read(later).iloc[0].tolist() == [47.477, 1250]
    assert model.with_formats(decimal=".").schema.read(later).iloc[0].tolist() == [47.477, 1.25]


def test_points_of_one_column_are_decimal_marks_in_all(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f"{100 + k};1,{k:03d}.5;{k}.25;{k}.5\n" for k in range(40))
    path.write_text(f"pop;cost;area;y\n{rows}")
    model = fit(path, "y", model="linear")
    later = pd.DataFrame({"pop": ["1,250"], "cost": ["2,000"], "area": ["1,250"]})
    for decimal in (None, "."):
        assert model.with_formats(decimal=decimal).schema.read(later).iloc[0].tolist() == [1250, 2000, 1250]
    assert model.with_formats(decimal=",").schema.read(later).iloc[0].tolist() == [1.25, 2, 1.25]


def test_mostly_numbers_raise_with_the_row(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("area;price\n" + "".join(f"{k},5;{k}\n" for k in range(1, 30)) + "wide;30\n")
    with pytest.raises(TableError, match=r'"area" is numbers except for 1 of 30 values, .* "wide" in row 30'):
        load_table(path, "price")


# -- dates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "date_format"),
    [
        (["2021-03-01", "2021-03-04T10:00"], ""),
        (["01.03.2021", "4.3.2021"], "%d.%m.%Y"),
        (["01.03.21", "04.03.21"], "%d.%m.%y"),
        (["01/03/2021", "13/03/2021"], "%d/%m/%Y"),
        (["03/01/2021", "03/13/2021"], "%m/%d/%Y"),
        (["03-01-2021", "03-13-2021"], "%m-%d-%Y"),
        (["2021/03/01", "2021/03/13"], "%Y/%m/%d"),
        (["01.03.2021 14:05", "04.03.2021 09:00"], "%d.%m.%Y %H:%M"),
        (["03/01/2021 2:05:10 PM", "03/13/2021 11:00:00 am"], "%m/%d/%Y %I:%M:%S %p"),
    ],
)
def test_inferred_date_format(values, date_format):
    column = text(*values, None)
    assert infer_date_format(column) == date_format
    actual = parse_dates(column, date_format)
    assert actual[0].date().isoformat() == "2021-03-01" and actual.isna().tolist() == [False, False, True]


@pytest.mark.parametrize("values", [["01/03/2021", "04/05/2021"], ["01-03-21", "04-05-21"]])
def test_ambiguous_dates_raise(values):
    with pytest.raises(TableError, match=f"dates such as {values[0]}, .*--date-format"):
        infer_date_format(text(*values))
    chosen = "%m/%d/%Y" if "/" in values[0] else "%d-%m-%y"
    assert infer_date_format(text(*values), chosen) == chosen


def test_given_date_format(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("day,area,price\n" + "".join(f"{k} Mar 2021,{k},{k}.5\n" for k in range(1, 30)))
    table = load_table(path, "price", date_format="%d %b %Y")
    assert table.X.day.tolist() == list(range(29)) and table.schema.columns[0].format == "%d %b %Y"
    with pytest.raises(TableError, match=r'"day" has values such as "1 Mar 2021", which look like dates'):
        load_table(path, "price", date_format="%d.%m.%Y")
    frame = pd.DataFrame({"area": ["1", "2"] * 9, "price": [f"{k}.5" for k in range(18)]})
    with pytest.raises(TableError, match=r'no column has dates in the format "%d.%m.%Y"'):
        load_table(frame, "price", date_format="%d.%m.%Y")
    with pytest.raises(TableError, match='"%Q" is not a valid date format'):
        load_table(path, "price", date_format="%Q")


@pytest.mark.parametrize("odd", ["31.06.2021", "06/30/2021", "soon"])
def test_mostly_dates_raise_with_the_row(odd):
    column = text(*(f"{day:02d}.03.2021" for day in range(1, 30)), odd)
    with pytest.raises(TableError, match=f'except for 1 of 30 values, the first of them "{odd}" in row 30'):
        infer_date_format(column)


@pytest.mark.parametrize("values", [["1.2.3", "1.2.10"], ["45/99/2021", "1/1/1"], ["a.b.2021", "10.0.0.1"]])
def test_codes_are_not_dates(values):
    assert infer_date_format(text(*values)) is None


def test_date_format_for_unambiguous_dates(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("day,price\n" + "".join(f"2021-03-{k:02d},{k}.5\n" for k in range(1, 30)))
    for table in (path, pd.read_csv(path, parse_dates=["day"])):
        assert load_table(table, "price", date_format="%Y-%m-%d").X.day.tolist() == list(range(29))
        assert load_table(table, "day", date_format="%Y-%m-%d").y.tolist() == list(range(29))


def test_the_century_of_two_digit_years_is_noted(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("born;price\n" + "".join(f"15.03.{40 + k};{k},5\n" for k in range(50)))
    notes = load_table(path, "price").notes
    assert any("born" in note and "1969-03-15 to 2068-03-15" in note for note in notes)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ("{day:02d}-Mar-2021", "--date-format"),
        ("{day}. März 2021", "--date-format"),
        ("March {day}, 2021", "--date-format"),
        ("Mon, {day:02d} Mar 2021 10:00:00 +0100", "--date-format"),
        ("03.{day:02d}.2021", "--date-format"),
        ("{day:02d}/03/2021 10:00:00.123", "--date-format"),
        ("{day}'006.38", "plain numbers"),
        ("{day} 006,38", "plain numbers"),
        ("{day}\N{NARROW NO-BREAK SPACE}006,38", "plain numbers"),
        ("{day}.006,38 €", "plain numbers"),
        ("${day},006.38", "plain numbers"),
        ("{day}.3%", "plain numbers"),
    ],
)
def test_unknown_formats_raise(value, advice, tmp_path):
    values = [value.format(day=1 + k % 28) for k in range(100)]
    frame = pd.DataFrame({"made": values, "size": [f"{k}.5" for k in range(100)]})
    for column in (frame.made, frame.made[:28]):  # that repeat, or not
        with pytest.raises(TableError, match=f'"made" has values such as .*{advice}'):
            load_table(frame.loc[column.index], "size")
        with pytest.raises(TableError, match=f'"made" has values such as .*{advice}'):
            load_table(frame.loc[column.index], "made")


@pytest.mark.parametrize(
    "value",
    [
        *("{k}+", "A-{k}", "{k}-{k}-{k}", "Mar {k}", "May", "10.0.0.{k}", "192.168.100.{k}", "v1.{k}.2"),
        *("{k} km", "12{k}a", "12{k} 456 789", "030 1234{k}", "10:{k}", "{k}0-{k}9", "2021-{k}", "Q1 20{k}"),
        *("Marsh {k} Road", "{k} March Street 2021", "item {k}, in May", "a{k}b4-11ee", "1/{k}", "{k}%-20%"),
    ],
)
def test_text_is_not_read_as_dates_or_numbers(value):
    frame = pd.DataFrame(
        {"made": [value.format(k=10 + k) for k in range(40)], "x": [f"{k}" for k in range(40)]}
    )
    frame["size"] = [f"{k}.5" for k in range(40)]
    assert load_table(frame, "size").schema.names == ["x"]
    assert load_table(pd.concat([frame] * 3), "size").schema.names[-1] == "x"
    rates = frame.assign(made=["10%", "20%"] * 20)
    assert load_table(rates, "size").schema.category_names == ["made"]


def test_white_space_is_missing(tmp_path):
    path = tmp_path / "table.csv"
    rows = "".join(f"{k},{k}.5\n" for k in range(20))
    path.write_text(f"area,price\n{rows} ,7.5\nNaN ,8.5\n3, \n")
    for table in (load_table(path, "price"), load_table(pd.read_csv(path, dtype=str), "price")):
        assert table.X.area.isna().tolist() == [False] * 20 + [True] * 2
        assert table.task == "regression" and len(table.y) == 22


# -- tables -------------------------------------------------------------------------------------------------


def test_inferred_formats_are_noted(model, sales):
    formats = {column.name: (column.kind, column.format) for column in model.schema.columns}
    assert formats == {
        "sold": ("date", "%d.%m.%Y"),
        "area": ("number", ","),
        "rooms": ("number", ","),
        "town": ("category", ""),
    }
    assert (model.task, model.target_format) == ("regression", ",")
    for message in ("%d.%m.%Y: sold (--date-format)", '",": price, area (--decimal)'):
        assert any(message in note for note in model.report["notes"])


def test_dates_as_classes(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("area,sold\n" + "".join(f"{k},0{1 + k % 2}/03/2021\n" for k in range(40)))
    with pytest.raises(TableError, match="--date-format"):
        load_table(path, "sold", "classification")
    table = load_table(path, "sold", "classification", date_format="%d/%m/%Y")
    assert set(table.y) == {"01/03/2021", "02/03/2021"} and table.target_format == ""
    assert load_table(path, "sold", date_format="%d/%m/%Y").task == "regression"


def test_dates_as_targets(file, sales):
    model = fit(file, "sold", model="linear")
    days = pd.to_datetime(sales.sold, format="%d.%m.%Y", utc=True)
    assert (model.task, model.target_format) == ("regression", "%d.%m.%Y")
    assert pd.Timestamp(model.origin) == days.min()
    actual = evaluate(model, file)
    error = (model.predict(file).prediction - days.dt.tz_localize(None)).abs() / pd.Timedelta(days=1)
    assert actual.metrics["mae"] == pytest.approx(error.mean(), rel=1e-6)


@pytest.mark.parametrize("options", [{}, {"dtype": str}, {"keep_default_na": False}, {"dtype": "string"}])
def test_file_and_frame_give_the_same_model(options, model, file):
    frame = pd.read_csv(file, sep=";", **options)
    other = fit(frame, "price", model="linear")
    assert other.report["sha256"] == model.report["sha256"]
    assert other.schema == model.schema or options == {}  # pandas has read the points of its numbers
    expected = model.predict(file)
    for table in (file, frame):
        pd.testing.assert_frame_equal(other.predict(table), expected)
        pd.testing.assert_frame_equal(model.predict(table), expected)
    assert evaluate(other, frame).to_dict() == evaluate(model, file).to_dict()


def test_text_of_numbers_in_a_typed_table_is_categories():
    frame = pd.DataFrame(
        {"zip": ["01234", "89073"] * 20, "area": np.arange(40.0), "price": np.arange(40) / 7}
    )
    table = load_table(frame, "price")
    assert table.schema.columns[0].kind == "category" and set(table.X.zip) == {"01234", "89073"}
    labels = load_table(frame.assign(price=["0", "1"] * 20), "price")
    assert (labels.task, labels.labels) == ("classification", "string")
    assert load_table(frame.astype(str), "price").schema.columns[0].kind == "number"


def test_folder_keeps_formats(model, file, tmp_path):
    model.save(tmp_path / "model")
    again = deltauq.load(tmp_path / "model")
    assert (again.schema, again.target_format) == (model.schema, model.target_format)
    predict_file(again, file, tmp_path / "out.parquet", batch_rows=7)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), model.predict(file))


@pytest.mark.parametrize(
    ("change", "message", "option"),
    [
        (
            {"sold": "03/14/2021"},
            '"03/14/2021" in row 1, where dates are expected; .*%d.%m.%Y: --date-format',
            None,
        ),
        ({"sold": "03/14/2021"}, None, {"date_format": "%m/%d/%Y"}),
        ({"area": "1500.5"}, '"1500.5" in row 1, where numbers are expected; .*commas: --decimal', None),
        ({"area": "1500.5"}, None, {"decimal": "."}),
        ({"sold": "2021-03-14"}, None, None),
    ],
)
def test_other_tables_use_the_formats_of_the_training_table(change, message, option, model, sales, tmp_path):
    path = tmp_path / "new.csv"
    sales.assign(**change).to_csv(path, index=False)
    out = tmp_path / "out.csv"
    if message:
        for predict in (model.predict, lambda path: predict_file(model, path, out)):
            with pytest.raises(TableError, match=message):
                predict(path)
        assert not out.exists()
        return
    typed = {"sold": pd.Timestamp("2021-03-14"), "area": 1500.5}
    expected = model.predict(sales.assign(**{name: typed[name] for name in change}))
    pd.testing.assert_frame_equal(model.predict(path, **(option or {})), expected)
    predict_file(model, path, out, **(option or {}))
    pd.testing.assert_frame_equal(pd.read_csv(out), expected)


def test_ambiguous_values_follow_the_training_formats(model, sales):
    later = sales.assign(area="1,250", sold="04.05.2021")
    read = model.schema.read(later)
    assert set(read.area) == {1.25}
    assert set(read.sold) == {
        (pd.Timestamp("2021-05-04", tz="UTC") - pd.Timestamp(model.schema.columns[0].origin)).days
    }


@pytest.mark.parametrize(
    ("column", "form"), [(0, "%Q"), (0, ["%d"]), (1, ";"), (1, "%d"), (3, ","), (None, "%d"), (None, 1)]
)
def test_invalid_format_in_a_folder_raises(column, form, model, tmp_path):
    model.save(tmp_path / "model")
    path = tmp_path / "model" / METADATA_FILE
    metadata = json.loads(path.read_text())
    assert metadata["target_format"] == ","
    assert [actual["format"] for actual in metadata["schema"]] == ["%d.%m.%Y", ",", ",", ""]
    if column is None:
        metadata["target_format"] = form
    else:
        metadata["schema"][column]["format"] = form
    path.write_text(json.dumps({**metadata, "sha256": metadata_digest(metadata)}))
    with pytest.raises(deltauq.tables.ModelFolderError, match="does not contain a valid model"):
        deltauq.load(tmp_path / "model")


def test_few_values_with_text_are_categories():
    frame = pd.DataFrame({"rooms": ["1", "2", "3", "4", "5+"] * 40, "y": np.arange(200.0)})
    frame.loc[frame.rooms == "5+", "rooms"] = np.where(np.arange(40) < 10, "5+", "4")
    assert frame.rooms.eq("5+").mean() < 0.1
    assert load_table(frame, "y", "regression", None, 0).schema.category_names == ["rooms"]
