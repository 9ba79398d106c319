"""Reading of CSV files."""

import csv
import gzip
import io
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltauq.tables import csv_reader
from deltauq.tables.csv_reader import HEAD_BYTES, MISSING, find_delimiter
from deltauq.tables.errors import TableError
from deltauq.tables.io import open_table
from deltauq.tables.preprocessing import load_table

CELLS = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="\u2028\u2029") | st.just("\n"),
    max_size=6,
)


def read(path, batch_rows=65_536):
    """Return the names and the rows of a file, as lists of text."""
    with open_table(path, batch_rows) as stream:
        rows = [tuple(row.values()) for batch in stream.batches for row in batch.to_pylist()]
        return stream.names, rows


@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
    batch_rows=st.integers(1, 9),
)
def test_text_is_read_unchanged(rows, delimiter, end, batch_rows, tmp_path_factory):
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("a", "b", "c"), *rows])
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(stream.getvalue().encode())
    names, actual = read(path, batch_rows)
    assert names == ["a", "b", "c"]
    assert actual == [tuple(None if cell in MISSING else cell for cell in row) for row in rows]


@given(data=st.binary(max_size=300), packed=st.booleans())
def test_any_bytes_give_a_table_or_a_table_error(data, packed, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(data)
    try:
        names, rows = read(path)
    except TableError as error:
        assert "\n" not in str(error) and str(error).endswith(".")
    else:
        assert all(len(row) == len(names) for row in rows)


@given(data=st.binary(min_size=1, max_size=40), at=st.integers(0, 200))
def test_damaged_files_give_a_table_or_a_table_error(data, at, tmp_path_factory):
    text = b"a,b\n" + b"1,x\n2,y\n" * 40
    whole = gzip.compress(text)
    at %= len(whole)
    path = tmp_path_factory.mktemp("csv") / "x.csv.gz"
    path.write_bytes(whole[:at] + data + whole[at + len(data) :])
    try:
        read(path)
    except TableError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a;b\n1,5;2\n", ";"),
        ("a,b\n1;5,2\n", ","),
        ("name\tsize, cm\nu\t1\n", "\t"),
        ('"x;y",b\n"p;q",2\n', ","),
        ("a b c\n1 2 3\n4 5 6\n", " "),
        ("a~b\n1~2\n", "~"),
        ("alone\n1\n2\n", ","),
    ],
)
def test_delimiter_detection(text, delimiter):
    assert find_delimiter(text) == delimiter


def test_files_longer_than_the_head(tmp_path):
    path = tmp_path / "x.csv"
    n = HEAD_BYTES // 4
    path.write_text("number,word\n" + "".join(f"{k},é{k % 7}\n" for k in range(n)), encoding="utf-8")
    _, rows = read(path, 1000)
    assert rows == [(str(k), f"é{k % 7}") for k in range(n)]


def test_row_names_and_trailing_delimiters_are_ignored(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\nfirst,1,2\nsecond,3,4\n")
    assert read(path) == (["a", "b"], [("1", "2"), ("3", "4")])
    path.write_text("\ufeffa,b\n1,2,\n3,4,\n", encoding="utf-8")
    assert read(path) == (["a", "b"], [("1", "2"), ("3", "4")])


@pytest.mark.parametrize("whole", [True, False])
def test_threads_release_the_file(whole, tmp_path, monkeypatch):
    references = []

    class Watched(csv_reader._Joined):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            references.append(weakref.ref(self))

        def read(self, size=-1):
            time.sleep(0.02)  # as if from a slow disk
            return super().read(size)

    monkeypatch.setattr(csv_reader, "_Joined", Watched)
    monkeypatch.setattr(csv_reader, "BLOCK", 10_000)
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,2\n" * 10_000)
    file = csv_reader.CSVReader(path)
    batches = file.batches()
    rows = sum(len(batch) for batch in batches) if whole else len(next(batches))
    batches.close()
    assert rows == 10_000 if whole else rows < 10_000
    assert [reference() for reference in references] == [None]
    file.close()


def test_ambiguous_commas_raise(tmp_path):
    path = tmp_path / "table.tsv"
    path.write_text("area\tprice\n8,000\t1.5\n800\t2.5\n16,046\t3.5\n")
    with pytest.raises(TableError, match=r'"area" has numbers such as 8,000, .* by --decimal'):
        load_table(path, "price")
    for decimals in ("8,000 800,5", "0,125 2", "1,25 3", "1250,500 2"):
        first, second = decimals.split()
        path.write_text(f"area\tprice\n{first}\t1.5\n{second}\t2.5\n")
        expected = [float(number.replace(",", ".")) for number in (first, second)]
        assert list(load_table(path, "price").X.area) == expected


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "UTF-16", "utf-16-le", "gb18030"])
def test_other_encodings(encoding, suffix, tmp_path):
    path = tmp_path / f"x{suffix}"
    n = HEAD_BYTES // 8
    words = [f"Köln € {k}" for k in range(n)]
    text = "stadt,zahl\r\n" + "".join(f'"{word}",{k}\r\n' for k, word in enumerate(words))
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if suffix == ".csv.gz" else data)
    with open_table(path, encoding=encoding) as stream:
        rows = [tuple(row.values()) for batch in stream.batches for row in batch.to_pylist()]
        assert stream.names == ["stadt", "zahl"]
    assert rows == [(word, str(k)) for k, word in enumerate(words)]


@pytest.mark.parametrize("rows", [10, HEAD_BYTES])
@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_wrong_encoding_raises(encoding, rows, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(("a,b\n" + "1,2\n" * rows + "1,Köln\n").encode(encoding))
    with pytest.raises(TableError, match=r"cannot read .*x\.csv.*--encoding"):
        read(path)


def test_text_that_does_not_fit_the_encoding_raises(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * HEAD_BYTES + b"\x81,2\n")
    misread = [(name, rf"cannot read .*x\.csv.* {name}, .*--encoding") for name in ("ascii", "utf-16")]
    for encoding, message in (
        *misread,
        ("cp1252", "byte 0x81"),
        ("klingon", "no encoding 'klingon'"),
        ("hex", "'hex'"),
    ):
        with pytest.raises(TableError, match=message) as error, open_table(path, encoding=encoding) as stream:
            list(stream.batches)
        assert "\n" not in str(error.value)


@given(data=st.binary(max_size=300), encoding=st.sampled_from(["utf-16", "cp1252", "utf-7", "shift_jis"]))
def test_random_bytes_in_other_encodings(data, encoding, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(data)
    try:
        with open_table(path, encoding=encoding) as stream:
            assert all(batch.num_columns == len(stream.names) for batch in stream.batches)
    except TableError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", ["x.xlsx", "x.XLS", "x.ods"])
def test_spreadsheets_raise_with_advice(name, tmp_path):
    (tmp_path / name).write_bytes(b"PK\x03\x04")
    with pytest.raises(TableError, match="is a spreadsheet: save its sheet as CSV"):
        read(tmp_path / name)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["sep=;", "SEP=;", "\ufeffsep=;", '"sep=;"'])
def test_first_line_may_name_the_delimiter(first, end, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(end.join([first, "a;b", "1,5;2", "3,5;4", ""]).encode())
    assert read(path) == (["a", "b"], [("1,5", "2"), ("3,5", "4")])
    path.write_text("sep=|\na|b;c|d;e\n1|2|3\n")
    assert read(path) == (["a", "b;c", "d;e"], [("1", "2", "3")])
    path.write_text("sep=;\n")
    with pytest.raises(TableError, match="is empty"):
        read(path)


@pytest.mark.parametrize(
    ("text", "row"), [("Report 2024\na,b,c\n1,2,secret\n", 1), ("a,b\n1,2\n3,4,secret\n", 2)]
)
def test_ragged_rows_raise_without_quoting_values(text, row, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=f"row {row} has [23] fields") as error:
        read(path)
    assert "secret" not in str(error.value) and "a,b,c" not in str(error.value)
    path.write_text("a,b\n" + "1,2\n" * (csv_reader.BLOCK // 4) + "1,secret,3\n")
    with pytest.raises(TableError, match="has 3 fields") as error:
        read(path)
    assert "secret" not in str(error.value)
