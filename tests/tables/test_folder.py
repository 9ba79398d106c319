"""The model folder: saving, loading, and rejection of anything altered or unknown."""

import copy
import dataclasses
import hashlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import VotingRegressor
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeRegressor

import deltauq
from deltauq.core import Anchors, Full
from deltauq.tables import ModelFolderError, TableError, fit, load
from deltauq.tables.base_models import BaseModel
from deltauq.tables.folder import FILES, FITTED_FILE, MAX_BYTES, METADATA_FILE, metadata_digest


@pytest.fixture
def folder(regression, tmp_path):
    regression.save(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder, **changes):
    """Change metadata as somebody would who knows how their hash is made."""
    path = folder / METADATA_FILE
    metadata = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({**metadata, "sha256": metadata_digest(metadata)}))


def replace_fitted(folder, data):
    """Put other bytes where the model was, with a hash that fits."""
    (folder / FITTED_FILE).write_bytes(data)
    rewrite(folder, files={FITTED_FILE: hashlib.sha256(data).hexdigest()})


@pytest.mark.parametrize("word", list(BaseModel))
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_save_and_load_every_base_model(word, task, mixed, tmp_path):
    target = "price" if task == "regression" else "size"
    table = mixed[["area", "rooms", "town", target]][:80]
    model = fit(table, target, model=word.value, n_train_anchors=3, quick=True)
    check_saved(model, mixed, tmp_path / "model")


@pytest.mark.parametrize("target", ["price", "size"])
def test_save_and_load_the_default_model(target, mixed, tmp_path):
    model = fit(mixed[["area", "rooms", "town", target]][:80], target, quick=True)
    check_saved(model, mixed, tmp_path / "model")


def check_saved(model, table, folder):
    model.save(folder)
    again = deltauq.load(folder)
    pd.testing.assert_frame_equal(again.predict(table), model.predict(table))
    if model.task == "regression":
        levels = [0.1, 0.5, 0.8]
        expected = model.predict_quantiles(table, levels)
        pd.testing.assert_frame_equal(again.predict_quantiles(table, levels), expected)
    assert (again.schema, again.report, again.risk) == (model.schema, model.report, model.risk)


@pytest.mark.parametrize("anchors", ["data", "kmeans", "normal"])
def test_save_and_load_anchors_and_their_targets(anchors, mixed, tmp_path):
    options = {"model": "boosting", "anchors": anchors, "n_train_anchors": 5, "quick": True}
    model = fit(mixed.drop(columns="size"), "price", **options)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    pd.testing.assert_frame_equal(again.predict(mixed), model.predict(mixed))
    before, after = (anchored_member(fitted.fitted) for fitted in (model, again))
    assert (after.encoding_, after.target_) == (before.encoding_, before.target_)
    np.testing.assert_array_equal(after.anchors_.X, before.anchors_.X)
    labelled = anchors != "normal"  # which have no targets, so that the model is one of values
    assert after.target_.needs_labels == labelled and isinstance(after.encoding_, Full) == labelled
    assert (after.anchors_.y is not None) == labelled


@pytest.mark.parametrize(
    ("anchors", "message"),
    [
        (lambda a: a.X, "its anchors part is a ndarray, not Anchors"),
        (lambda a: Anchors(a.X[:, 1:], a.y), r"anchors are not an array of shape \(20, 8\)"),
        (lambda a: Anchors(a.X + np.inf, a.y), "anchors are not finite"),
        (lambda a: Anchors(a.X), r"targets of anchors are not an array of shape \(20,\)"),
        (lambda a: Anchors(a.X, np.tile(a.y[:, None], 2)), "targets of anchors are not an array"),
        (lambda a: Anchors(a.X, a.y * np.nan), "targets of anchors are not finite"),
    ],
)
def test_invalid_anchors_raise(anchors, message, regression, tmp_path):
    def alter(fitted):
        anchored_member(fitted).anchors_ = anchors(anchored_member(fitted).anchors_)

    check_altered(regression, alter, message, tmp_path / "model")


def anchored_member(fitted):
    [member] = [member for member in fitted.model.estimators_ if hasattr(member, "anchors_")]
    return member


def check_altered(model, alter, message, folder):
    """Check the error for a model whose parts were altered before they were written."""
    fitted = copy.deepcopy(model.fitted)
    alter(fitted)
    dataclasses.replace(model, fitted=fitted).save(folder)
    with pytest.raises(ModelFolderError, match=f"does not contain a valid model: .*{message}") as caught:
        load(folder)
    assert "\n" not in str(caught.value)


NUMBERS = [
    # A part, the attribute, how it is changed, and the error.
    ("model", "weights_", lambda w: w[:-1], r"weights are not an array of shape"),
    ("model", "weights_", lambda w: w[:, None], r"weights are not an array of shape"),
    ("model", "weights_", lambda w: w * np.nan, "weights are not finite"),
    ("model", "weights_", lambda w: -w, "weights are negative"),
    ("model", "weights_", lambda w: w.tolist(), "weights are not an array"),
    ("model", "weights_", lambda w: w.astype(np.float32), "weights are not an array"),
    ("model", "n_scored_", lambda n: n - 1, "scores are not an array of shape"),
    ("model", "n_features_in_", lambda n: n + 1, "anchors are not an array of shape"),
    ("reference", None, lambda rows: rows[:, 1:], "reference rows are not an array"),
    ("reference", None, lambda rows: rows + np.inf, "reference rows are not finite"),
    ("fingerprints", None, lambda hashes: hashes.astype(float), "fingerprints are not uint64 hashes"),
    ("ranges", None, lambda ranges: None, "its ranges part is a NoneType"),
    ("ranges", "low", lambda low: low[1:], "ranges are not an array"),
    ("ranges", "unit", lambda unit: unit * np.nan, "ranges are not finite"),
    ("ranges", "unit", lambda unit: unit * 0.0, "a unit that is not positive"),
]
REGRESSION_NUMBERS = [
    ("model", "scores_", lambda scores: scores[1:], r"scores are not an array of shape \(240,\)"),
    ("model", "scores_", lambda scores: scores * np.inf, "scores are not finite"),
    ("model", "sizes_", lambda sizes: sizes[1:], "sizes are not an array of shape"),
    ("model", "sizes_", lambda sizes: sizes * np.nan, "sizes are not finite"),
    ("model", "std_factor_", lambda factor: -factor, "standard deviations are negative"),
    ("model", "std_factor_", lambda factor: float("nan"), "std_factor is not a finite number"),
    ("model", "target_mean_", lambda mean: "0", "target_mean is not a finite number"),
    ("model", "target_scale_", lambda scale: 0.0, "target_scale is not a positive number"),
    ("model", "target_range_", lambda ends: ends[:1], "range of the target are not an array"),
    (
        "model",
        "difficulty_",
        lambda difficulty: difficulty.forest_,
        "difficulty part is a RandomForestRegressor",
    ),
    ("difficulty", "weights_", lambda w: w[1:], "weights of variances are not an array of shape"),
    ("difficulty", "weights_", lambda w: w - 1e9, "weights of variances are negative"),
    ("difficulty", "largest_", lambda largest: -largest, "standard deviations are negative"),
    ("difficulty", "largest_", lambda largest: float("nan"), "standard deviations are negative"),
    ("difficulty", "constant_", lambda constant: 0.0, "constant is not a positive number"),
    ("difficulty", "forest_", lambda forest: forest.estimators_[0], "forest part is a DecisionTreeRegressor"),
]
CLASSIFICATION_NUMBERS = [
    ("model", "floor_", lambda floor: float("nan"), "floor is not a positive number"),
    ("model", "classes_", lambda classes: classes[:1], ""),
    ("model", "conformal_", lambda conformal: None, "conformal part is a NoneType"),
    ("conformal", "scores_", lambda scores: scores[1:], r"scores are not an array of shape \(240,\)"),
    ("conformal", "scores_", lambda scores: scores * np.nan, "scores are not finite"),
]


@pytest.mark.parametrize(
    ("task", "part", "name", "change", "message"),
    [
        *(("regression", *case) for case in [*NUMBERS, *REGRESSION_NUMBERS]),
        *(("classification", *case) for case in [*NUMBERS, *CLASSIFICATION_NUMBERS]),
    ],
)
def test_invalid_parts_raise(task, part, name, change, message, tmp_path, request):
    def alter(fitted):
        if name is None:
            object.__setattr__(fitted, part, change(getattr(fitted, part)))
            return
        inner = {"difficulty": "difficulty_", "conformal": "conformal_"}
        owner = getattr(fitted.model, inner[part]) if part in inner else getattr(fitted, part)
        object.__setattr__(owner, name, change(getattr(owner, name)))

    check_altered(request.getfixturevalue(task), alter, message, tmp_path / "model")


def test_model_of_another_task_raises(regression, classification, tmp_path):
    other = dataclasses.replace(regression, fitted=classification.fitted)
    other.save(tmp_path / "model")
    with pytest.raises(ModelFolderError, match="its StackedClassifier is not a model for regression"):
        load(tmp_path / "model")


def test_only_a_model_is_replaced(folder, classification, mixed):
    classification.save(folder)
    assert load(folder).task == "classification"
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ModelFolderError, match=r"the folder is not empty \(notes.txt\)"):
        classification.save(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_content_of_the_metadata(folder, mixed):
    metadata = json.loads((folder / METADATA_FILE).read_text())
    assert metadata["format"] == "deltauq.table/7"
    assert [column["name"] for column in metadata["schema"]] == ["area", "rooms", "town", "new", "sold"]
    assert metadata["versions"]["deltauq"] == deltauq.__version__
    assert metadata["report"]["rows"] == metadata["report"]["scored"] == len(mixed)
    assert set(metadata["risk"]) == {"size", "beyond"}
    assert set(metadata["files"]) == {FITTED_FILE}


@pytest.mark.parametrize("name", [METADATA_FILE, FITTED_FILE])
def test_altered_files_raise(name, folder):
    data = bytearray((folder / name).read_bytes())
    at = data.find(b"price") if name == METADATA_FILE else len(data) // 2
    data[at] ^= 1
    (folder / name).write_bytes(bytes(data))
    with pytest.raises(ModelFolderError, match=f"{name} was altered"):
        load(folder)


@pytest.mark.parametrize("format", ["deltauq.table/5", "deltauq.table/8", "deltauq.nn/1", "", "x" * 500])
def test_other_format_versions_raise(format, folder):
    rewrite(folder, format=format)
    with pytest.raises(ModelFolderError, match=r"unknown to deltauq .* reads deltauq.table/7") as caught:
        load(folder)
    assert len(str(caught.value)) < 400


class OwnRidge(Ridge):
    """A model of the user's own."""


class Planted:
    """Would leave a file behind if it were ever unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("name", ["model.pkl", "metadata.pickle", "columns.joblib"])
def test_additional_pickle_is_never_loaded(name, folder, tmp_path):
    trace = tmp_path / "trace"
    (folder / name).write_bytes(pickle.dumps(Planted(trace)))
    with pytest.raises(ModelFolderError, match=f"not part of a model: {name}"):
        load(folder)
    assert not trace.exists()


def test_pickle_instead_of_the_model_is_never_loaded(folder, tmp_path):
    trace = tmp_path / "trace"
    replace_fitted(folder, pickle.dumps(Planted(trace)))
    with pytest.raises(ModelFolderError, match="cannot be read"):
        load(folder)
    assert not trace.exists()


def test_custom_types_must_be_trusted(mixed, tmp_path):
    table = mixed[["area", "rooms", "price"]]
    fit(table, "price", model=OwnRidge()).save(tmp_path / "model")
    name = f"{OwnRidge.__module__}.{OwnRidge.__name__}"
    with pytest.raises(ModelFolderError, match=f"not trusted: {name}.*--trust"):
        load(tmp_path / "model")


def test_other_skops_files_raise(folder):
    import skops.io

    replace_fitted(folder, skops.io.dumps({"columns": [1, 2]}))
    with pytest.raises(ModelFolderError, match="does not contain the parts"):
        load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": "classification"},
        {"task": "sorting"},
        {"schema": []},
        {"schema": [{"name": "area", "kind": "number", "origin": "", "categories": []}]},
        {"schema": "none"},
        {"coverage": "much"},
        {"risk": None},
        {"report": 3},
        *({"coverage": coverage} for coverage in (float("nan"), 0, 1, 5, 0.9999)),
        {"risk": {"size": [float("nan"), 1.0], "beyond": [0.0, 1.0]}},
        {"risk": {"size": [2.0, 1.0], "beyond": [0.0, 1.0]}},
        {"risk": {"size": [0.0, 1.0]}},
        {"risk": {"size": [0.0, 1.0], "std": [0.0, 1.0]}},
        *({"target": target} for target in (["price"], None, "area")),
        *({"origin": origin} for origin in ("yesterday", "NaT", "2024-01-01", 5)),
        *({"files": files} for files in ([], ["model.skops"], None)),
        *({"versions": versions} for versions in ([], ["scikit-learn"], {"scikit-learn": 1})),
        {"labels": "text"},
        {"further": 1},
    ],
)
def test_invalid_metadata_raise(changes, folder):
    rewrite(folder, **changes)
    with pytest.raises(ModelFolderError, match="does not contain a valid model"):
        load(folder)


def change_column(folder, name, changes):
    """Change what the metadata say of a column."""
    columns = json.loads((folder / METADATA_FILE).read_text())["schema"]
    rewrite(folder, schema=[{**each, **changes} if each["name"] == name else each for each in columns])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("area", {"kind": "category", "categories": ["a"]}, "different kinds"),
        ("area", {"kind": "date", "origin": "2024-01-01T00:00:00+00:00"}, None),
        ("area", {"kind": "date"}, 'fields that do not fit the kind "date"'),
        ("town", {"kind": "number", "categories": []}, "different kinds"),
        ("town", {"categories": ["Basel", "Chur"]}, "different categories"),
        ("sold", {"origin": "soon"}, "not an ISO timestamp"),
        ("area", {"name": "rooms"}, "share a name"),
        ("area", {"name": ["area"]}, "not text"),
    ],
)
def test_columns_that_do_not_fit_the_model_raise(name, changes, message, folder, mixed):
    change_column(folder, name, changes)
    if message is None:  # days are numbers: the error comes with the table
        with pytest.raises(TableError, match="where dates are expected"):
            load(folder).predict(mixed)
        return
    with pytest.raises(ModelFolderError, match=f"does not contain a valid model: .*{message}"):
        load(folder)


def test_pipes_raise(folder):
    (folder / FITTED_FILE).unlink()
    os.mkfifo(folder / FITTED_FILE)
    with pytest.raises(ModelFolderError, match="not a regular file"):
        load(folder)


def test_large_metadata_raise(folder):
    with (folder / METADATA_FILE).open("ab") as file:
        file.truncate(MAX_BYTES[METADATA_FILE] + 1)  # without taking any room
    with pytest.raises(ModelFolderError, match="67,108,865 bytes"):
        load(folder)


def bomb(declared=None):
    """Return an archive of 300 KB that unpacks to 300 MB, and may say that it is smaller."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("0.npy", "w") as entry:
        for _ in range(300):
            entry.write(bytes(10**6))
    data = file.getvalue()
    if declared is None:
        return data
    size, sums = struct.pack("<L", 300 * 10**6), struct.pack("<L", zlib.crc32(bytes(declared)))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        true = struct.pack("<L", archive.infolist()[0].CRC)
    return data.replace(size, struct.pack("<L", declared)).replace(true, sums)


@pytest.mark.parametrize(
    ("declared", "message"), [(None, "it unpacks to more than"), (1000, "cannot be read")]
)
def test_zip_bombs_raise(declared, message, folder):
    replace_fitted(folder, bomb(declared))
    tracemalloc.start()
    with pytest.raises(ModelFolderError, match=message):
        load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_large_skops_schema_raises(folder, monkeypatch):
    monkeypatch.setattr("deltauq.tables.folder.MAX_SCHEMA_BYTES", 1000)
    with pytest.raises(ModelFolderError, match=r"its schema.json has more than 1,000 bytes"):
        load(folder)


def test_too_many_entries_raise(folder, monkeypatch):
    monkeypatch.setattr("deltauq.tables.folder.MAX_ENTRIES", 3)
    with pytest.raises(ModelFolderError, match="entries"):
        load(folder)


def test_highly_compressible_models_are_stored_uncompressed(regression, mixed, tmp_path, monkeypatch):
    monkeypatch.setattr("deltauq.tables.folder.MAX_UNPACKED", 0)
    monkeypatch.setattr("deltauq.tables.folder.MAX_RATIO", 1)
    regression.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model" / FITTED_FILE) as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    pd.testing.assert_frame_equal(load(tmp_path / "model").predict(mixed), regression.predict(mixed))


def test_other_scikit_learn_version_warns(folder):
    rewrite(folder, versions={"scikit-learn": "0.1.0"})
    with pytest.warns(UserWarning, match="fitted with scikit-learn 0.1.0"):
        load(folder)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.binary(max_size=60), at=st.integers(0, 10**6), name=st.sampled_from(sorted(FILES)))
def test_any_damage_raises_a_model_folder_error(data, at, name, folder):
    whole = (folder / name).read_bytes()
    damaged = whole[: at % len(whole)] + data + whole[at % len(whole) + len(data) :]
    (folder / name).write_bytes(damaged)
    try:
        if damaged != whole:
            with pytest.raises(ModelFolderError):
                load(folder)
    finally:
        (folder / name).write_bytes(whole)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(data=st.binary(min_size=1, max_size=60), at=st.integers(0, 10**6))
def test_damaged_model_with_a_matching_hash(data, at, folder):
    with zipfile.ZipFile(folder / FITTED_FILE) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    whole = (folder / FITTED_FILE).read_bytes()
    schema = parts["schema.json"]
    at %= len(schema)
    parts["schema.json"] = schema[:at] + data + schema[at + len(data) :]
    with zipfile.ZipFile(folder / FITTED_FILE, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    replace_fitted(folder, (folder / FITTED_FILE).read_bytes())
    try:
        load(folder)
    except ModelFolderError as error:
        assert "\n" not in str(error)
    finally:
        replace_fitted(folder, whole)


def test_missing_and_empty_folders_raise(tmp_path):
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        load(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFolderError, match=f"is not a model folder: it has no {METADATA_FILE}"):
        deltauq.load(tmp_path / "empty")


def test_empty_folders_and_links_are_kept(regression, mixed, tmp_path, monkeypatch):
    here, real = tmp_path / "here", tmp_path / "real"
    here.mkdir(), real.mkdir()
    (tmp_path / "link").symlink_to(real)
    monkeypatch.chdir(here)
    regression.save(".")
    regression.save(tmp_path / "link")
    regression.save(tmp_path / "link")  # in the place of a model, still behind the link
    assert (tmp_path / "link").is_symlink()
    for folder in (here, real):
        pd.testing.assert_frame_equal(load(folder).predict(mixed), regression.predict(mixed))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "link", "real"]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
def test_failed_replacement_keeps_the_old_model(failure, folder, classification, monkeypatch):
    real, calls = os.replace, []

    def fails_second(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise failure
        return real(source, target)

    monkeypatch.setattr(os, "replace", fails_second)
    with pytest.raises(failure):
        classification.save(folder)
    assert load(folder).task == "regression"
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("target", "base"),
    [
        ("price", VotingRegressor([("tree", DecisionTreeRegressor(max_depth=3)), ("linear", Ridge())])),
        ("size", KNeighborsClassifier(algorithm="ball_tree")),
    ],
)
def test_save_and_load_composite_models(target, base, mixed, tmp_path):
    model = fit(mixed, target, model=base)
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(load(tmp_path / "model").predict(mixed), model.predict(mixed))
