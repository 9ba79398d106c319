"""Any invalid input: exit code 2, one clear line, no traceback and no output."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import pickle
import resource
import shutil

import numpy as np
import pandas as pd
import pytest

from deltauq.tables.folder import FITTED_FILE, METADATA_FILE, metadata_digest

GOOD = "area,rooms,town,sold,price\n"


def assert_input_error(done, out, message):
    done.assert_input_error(message)
    assert not out.exists()
    assert not [path.name for path in out.parent.glob(".*")] if out.parent.is_dir() else True


def rows(count, line="{k},2,Ulm,2024-01-01,{k}.5\n"):
    return "".join(line.format(k=k) for k in range(count))


FINE = GOOD + rows(40)

# -- Tables to fit: their content, options, and the error ---------------------------------------------------

TABLES_TO_FIT = {
    "empty file": (b"", [], "is empty"),
    "white space": (b"  \n\n \n", [], "is empty"),
    "header only": (GOOD.encode(), [], "has no rows"),
    "long row": (FINE + "1,2,3,4,5,6,7\n", [], "has 7 fields, and the header has 5"),
    "short row": (FINE + "1,2\n", [], "has 2 fields, and the header has 5"),
    "latin-1": (FINE.replace("Ulm", "Köln").encode("latin-1"), [], "not UTF-8"),
    "utf-16": (FINE.encode("utf-16"), [], "NUL bytes"),
    "late latin-1": ((GOOD + rows(20_000)).encode() + b"1,2,K\xf6ln,2024-01-01,1\n", [], "--encoding"),
    "NUL byte": (FINE.encode() + b"1,2,U\0lm,2024-01-01,2\n", [], "NUL bytes"),
    "late NUL byte": ((GOOD + rows(20_000)).encode() + b"1,2,U\0lm,2024-01-01,2\n", [], "NUL bytes"),
    "duplicate target": (GOOD[:-1] + ",price\n" + rows(40, "{k},2,U,2024-01-01,{k},{k}\n"), [], "several"),
    "unknown target": (FINE, ["--target", "prize"], 'did you mean "price"?'),
    "target without near names": (FINE, ["--target", "zzz"], "the columns are area"),
    "target all missing": (GOOD + rows(40, "{k},2,Ulm,2024-01-01,\n"), [], "missing in every row"),
    "constant target": (GOOD + rows(40, "{k},2,Ulm,2024-01-01,7\n"), [], "is 7 in every row"),
    "infinite target": (FINE + "1,2,Ulm,2024-01-01,inf\n", [], "infinite values"),
    "target of 1e308": (FINE + "1,2,Ulm,2024-01-01,1e308\n", [], "beyond"),
    "text as regression target": (
        GOOD + rows(40, "{k},2,Ulm,2024-01-01,w{k}\n"),
        ["--task", "regression"],
        "not numeric",
    ),
    "as many classes as rows": (FINE, ["--task", "classification"], "40 classes in 40 rows"),
    "a class of one row": (
        GOOD + rows(40, "{k},2,Ulm,2024-01-01,a\n") + "1,2,Ulm,2024-01-01,b\n",
        [],
        'the class "b" has a single row',
    ),
    "infinite feature": (FINE + "inf,2,Ulm,2024-01-01,2\n", [], 'contains "inf" in row 41'),
    "feature of 1e308": (FINE + "-1e308,2,Ulm,2024-01-01,2\n", [], "too large"),
    "mixed types": (FINE + "wide,2,Ulm,2024-01-01,2\n", [], '"wide" in row 41'),
    "no features": ("price\n" + "".join(f"{k}\n" for k in range(40)), [], "no columns left"),
    "constant features": ("a,price\n" + rows(40, "1,{k}\n"), [], "no columns left"),
    "too few rows": (GOOD + rows(9), [], "9 rows are too few"),
    "ten rows": (GOOD + rows(10), [], "10 rows are too few: a coverage of 0.9 requires at least 19"),
    "nine rows": (GOOD + rows(9), ["--coverage", "0.5"], "requires at least 10"),
    "too few rows for the coverage": (FINE, ["--coverage", "0.99"], "40 rows are too few"),
    "coverage of one": (FINE, ["--coverage", "1"], "between 0 and 1"),
    "coverage in per cent": (FINE, ["--coverage", "90"], "between 0 and 1, got 90"),
    "coverage as text": (FINE, ["--coverage", "high"], "--coverage"),
    "unknown model": (FINE, ["--model", "oracle"], "oracle"),
    "unknown task": (FINE, ["--task", "sorting"], "sorting"),
    "unknown anchors": (FINE, ["--anchors", "stars"], "stars"),
    "no model": (FINE, ["--model", ""], 'got ""'),
    "missing in every feature": ("a,b,price\n" + rows(40, ",,{k}\n"), [], "no columns left"),
    "train anchors as text": (FINE, ["--train-anchors", "some"], "positive integer"),
    "a seed of 33 bits": (FINE, ["--seed", str(2**32)], "--seed"),
    "no rows to use": (FINE, ["--max-rows", "0"], "--max-rows"),
    "a second argument": (FINE, ["more.csv"], "more.csv"),
}


@pytest.mark.parametrize("case", TABLES_TO_FIT)
def test_tables_that_cannot_be_fitted(case, run, tmp_path):
    data, options, message = TABLES_TO_FIT[case]
    (tmp_path / "x.csv").write_bytes(data.encode() if isinstance(data, str) else data)
    target = [] if "--target" in options else ["--target", "price"]
    out = tmp_path / "model"
    done = run("fit", tmp_path / "x.csv", *target, "--model", "linear", *options, "-o", out)
    assert_input_error(done, out, message)


FILES_TO_FIT = {
    "x.csv.gz": (b"no gzip at all", "Not a gzipped file"),
    "cut.csv.gz": (gzip.compress((GOOD + rows(400)).encode())[:-20], "cannot read"),
    "cut.csv.bz2": (bz2.compress((GOOD + rows(400)).encode())[:-20], "cannot read"),
    "cut.csv.xz": (lzma.compress((GOOD + rows(400)).encode())[:-20], "cannot read"),
    "x.zip": (b"PK\x03\x04", "unpack it first"),
    "x.parquet": (b"PAR1 but not really PAR1", "cannot read"),
    "empty.parquet": (b"", "cannot read"),
    "x.arrow": (b"ARROW1 but not really", "cannot read"),
    "empty.feather": (b"", "cannot read"),
    "parquet.csv": (b"PAR1\x15\x04\x00\x00", "NUL bytes"),
}


@pytest.mark.parametrize("name", FILES_TO_FIT)
def test_damaged_files(name, run, tmp_path, price_model):
    data, message = FILES_TO_FIT[name]
    (tmp_path / name).write_bytes(data)
    out = tmp_path / "model"
    assert_input_error(run("fit", tmp_path / name, "--target", "price", "-o", out), out, message)
    out = tmp_path / "out.csv"
    assert_input_error(run("predict", price_model, tmp_path / name, "-o", out), out, message)


# -- Tables to predict: a function that breaks a good one, options, and the error ---------------------------

TABLES_TO_PREDICT = {
    "missing column": (
        lambda t: t.drop(columns="area"),
        [],
        '"area", which the model was trained on, is missing',
    ),
    "renamed column": (lambda t: t.rename(columns={"area": "Area"}), [], 'did you mean "Area"?'),
    "no rows": (lambda t: t[:0], [], "has no rows"),
    "text in a numeric column": (
        lambda t: t.astype({"area": str}).assign(area="wide"),
        [],
        '"wide" in row 1',
    ),
    "text in one row": (
        lambda t: t.astype({"area": object}).replace({"area": {t.area[7]: "x"}}),
        [],
        "row 8",
    ),
    "infinity": (lambda t: t.assign(area=np.where(t.index == 3, np.inf, t.area)), [], '"inf" in row 4'),
    "1e308": (
        lambda t: t.assign(area=np.where(t.index == 3, 1e308, t.area)),
        [],
        "row 4, which is too large",
    ),
    "no dates": (lambda t: t.assign(sold="soon"), [], "where dates are expected"),
    "new categories": (
        lambda t: t.assign(town="Rome"),
        ["--strict"],
        'unseen categories in "town", such as "Rome"',
    ),
    "extra columns": (lambda t: t.assign(extra=1), ["--strict"], "not trained on: extra"),
    "nothing to keep": (lambda t: t, ["--keep", "id"], 'no column "id" to keep'),
    "kept twice": (lambda t: t, ["--keep", "town", "--keep", "town"], "kept twice"),
    "kept under a taken name": (lambda t: t.assign(std=1), ["--keep", "std"], '"std" cannot be kept'),
    "coverage of two": (lambda t: t, ["--coverage", "2"], "between 0 and 1"),
    "coverage that takes more rows": (
        lambda t: t,
        ["--coverage", "0.99"],
        "requires more than 120 scored rows: the largest coverage is 0.983",
    ),
    "quantiles as text": (
        lambda t: t,
        ["--quantiles", "low"],
        "Invalid value for --quantiles: must be levels",
    ),
    "no quantiles": (lambda t: t, ["--quantiles", ""], "must be levels such as 0.05,0.5,0.95, got"),
    "a quantile at one": (lambda t: t, ["--quantiles", "0.5,1"], "must lie between 0 and 1, got 1"),
    "quantiles in per cent": (lambda t: t, ["--quantiles", "5,95"], "must lie between 0 and 1, got 5"),
    "quantile that takes more rows": (
        lambda t: t,
        ["--quantiles", "0.999"],
        "at 0.999 requires more than 120 scored rows: levels from 0.0083 to 0.9917 are possible",
    ),
    "equal quantiles": (lambda t: t, ["--quantiles", "0.5,0.50"], "are equal"),
    "kept under the name of a quantile": (
        lambda t: t.assign(**{"quantile_0.5": 1}),
        ["--quantiles", "0.5", "--keep", "quantile_0.5"],
        '"quantile_0.5" cannot be kept',
    ),
}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("case", TABLES_TO_PREDICT)
def test_tables_that_cannot_be_predicted(case, suffix, run, tmp_path, houses, price_model):
    broken, options, message = TABLES_TO_PREDICT[case]
    table, source = broken(houses.drop(columns=["price", "size"])), tmp_path / f"x.{suffix}"
    if suffix == "csv":
        table.to_csv(source, index=False)
    else:
        table.astype({name: str for name in table if table[name].dtype == object}).to_parquet(source)
    out = tmp_path / "out.parquet"
    assert_input_error(run("predict", price_model, source, *options, "-o", out), out, message)


# -- Model folders ------------------------------------------------------------------------------------------


def rewrite(folder, change):
    """Change metadata, with a hash that fits."""
    metadata = json.loads((folder / METADATA_FILE).read_text())
    change(metadata)
    (folder / METADATA_FILE).write_text(json.dumps({**metadata, "sha256": metadata_digest(metadata)}))


def flip(folder, name, at):
    data = bytearray((folder / name).read_bytes())
    data[at] ^= 1
    (folder / name).write_bytes(bytes(data))


def with_other_learnt(folder, data):
    (folder / FITTED_FILE).write_bytes(data)
    rewrite(folder, lambda m: m.update(files={FITTED_FILE: hashlib.sha256(data).hexdigest()}))


class Planted:
    def __reduce__(self):
        return (os.system, ("touch planted",))


FOLDERS = {
    "no folder": (lambda f: shutil.rmtree(f), "no model folder"),
    "a file": (lambda f: (shutil.rmtree(f), f.write_text("x")), "no model folder"),
    "empty folder": (lambda f: [path.unlink() for path in f.iterdir()], "has no metadata.json"),
    "no model": (lambda f: (f / FITTED_FILE).unlink(), "No such file"),
    "no metadata": (lambda f: (f / METADATA_FILE).unlink(), "has no metadata.json"),
    "metadata that are no JSON": (lambda f: (f / METADATA_FILE).write_text("{"), "is not JSON"),
    "metadata that are a list": (lambda f: (f / METADATA_FILE).write_text("[]"), "its format"),
    "deep metadata": (lambda f: (f / METADATA_FILE).write_text("[" * 10**5), "is not JSON"),
    "altered metadata": (
        lambda f: flip(f, METADATA_FILE, (f / METADATA_FILE).read_bytes().find(b"price")),
        "was altered",
    ),
    "altered model": (lambda f: flip(f, FITTED_FILE, 900), "was altered"),
    "cut model": (
        lambda f: (f / FITTED_FILE).write_bytes((f / FITTED_FILE).read_bytes()[:-9]),
        "was altered",
    ),
    "newer format": (
        lambda f: rewrite(f, lambda m: m.update(format="deltauq.table/999")),
        "unknown to deltauq",
    ),
    "unknown format": (lambda f: rewrite(f, lambda m: m.update(format="mystery")), "unknown to deltauq"),
    "planted pickle": (
        lambda f: (f / "model.pkl").write_bytes(pickle.dumps(Planted())),
        "not part of a model",
    ),
    "pickle for a model": (lambda f: with_other_learnt(f, pickle.dumps(Planted())), "cannot be read"),
    "no zip for a model": (lambda f: with_other_learnt(f, b"x" * 99), "cannot be read"),
    "another task": (
        lambda f: rewrite(f, lambda m: m.update(task="classification")),
        "its StackedRegressor is not a model for classification",
    ),
    "another schema": (lambda f: rewrite(f, lambda m: m["schema"].pop()), "different columns"),
    "no risk": (lambda f: rewrite(f, lambda m: m.pop("risk")), "does not contain a valid model"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_model_folders_that_cannot_be_used(case, run, tmp_path, monkeypatch, houses, price_model):
    monkeypatch.chdir(tmp_path)
    damage, message = FOLDERS[case]
    folder, source, out = tmp_path / "model", tmp_path / "x.csv", tmp_path / "out.csv"
    shutil.copytree(price_model, folder)
    damage(folder)
    houses.to_csv(source, index=False)
    assert_input_error(run("predict", folder, source, "-o", out), out, message)
    assert not (tmp_path / "planted").exists()


# -- Files and folders --------------------------------------------------------------------------------------


@pytest.fixture
def table(houses, tmp_path):
    houses.drop(columns="size").to_csv(tmp_path / "x.csv", index=False)
    return tmp_path / "x.csv"


def test_sources_that_are_not_files(run, tmp_path, price_model):
    for source, message in ((tmp_path / "absent.csv", "does not exist"), (tmp_path, "is a folder")):
        out = tmp_path / "model"
        assert_input_error(run("fit", source, "--target", "price", "-o", out), out, message)
        out = tmp_path / "out.csv"
        assert_input_error(run("predict", price_model, source, "-o", out), out, message)


def test_outputs_that_cannot_be_written(run, tmp_path, table, price_model):
    absent = tmp_path / "no" / "out.csv"
    assert_input_error(run("predict", price_model, table, "-o", absent), absent, "is not a folder")
    assert_input_error(run("fit", table, "--target", "price", "-o", absent), absent, "is not a folder")
    long = tmp_path / ("x" * 300 + ".csv")
    done = run("predict", price_model, table, "-o", long)
    done.assert_input_error("File name too long")
    for name in ("out", "out.xlsx", "out.gz"):
        out = tmp_path / name
        assert_input_error(run("predict", price_model, table, "-o", out), out, "must end in .parquet")
    done = run("predict", price_model, table, "-o", table)
    done.assert_input_error("is the table itself")
    done = run("predict", price_model, table, "-o", tmp_path)
    done.assert_input_error("it is a folder")


def test_other_files_are_not_overwritten(run, tmp_path, table):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    for out, message in ((tmp_path / "mine", "thesis.txt"), (table, "it is a file")):
        done = run("fit", table, "--target", "price", "-o", out)
        done.assert_input_error(message)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "x" and table.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")
def test_no_permission(run, tmp_path, table, price_model):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    for command in (["fit", table, "--target", "price"], ["predict", price_model, table]):
        done = run(*command, "-o", closed / "out.csv")
        assert done.code == 2 and "permission denied" in done.err.lower()
    table.chmod(0)
    out = tmp_path / "model"
    assert_input_error(run("fit", table, "--target", "price", "-o", out), out, "Permission denied")


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.arrow", "model"])
def test_full_disk(name, run, tmp_path, houses, table, price_model):
    out = tmp_path / name
    pd.concat([houses] * 40).to_csv(table, index=False)
    command = (
        ["predict", price_model, table]
        if "." in name
        else ["fit", table, "--target", "price", "--model", "linear"]
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, hard))  # a file that cannot grow any options
    try:
        done = run(*command, "-o", out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert_input_error(done, out, f"cannot write {out}")
    assert run(*command, "-o", out).code == 0
