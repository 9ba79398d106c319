"""The file of a maximisation: resuming, damaged files, and files of something else."""

import json
from functools import partial

import numpy as np
import pytest

pytest.importorskip("botorch")

from hypothesis import given
from hypothesis import strategies as st

from deltauq.bo import AnchoredSurrogate, ClipWorst, GPSurrogate, Optimizer
from deltauq.nn import MLP
from deltauq.nn.training import Recipe

SQUARE = [[0.0, 0.0], [1.0, 1.0]]


@given(cut=st.integers(1, 60))
def test_incomplete_last_line_is_removed(cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("cut") / "points.jsonl"
    optimizer = Optimizer(SQUARE, path=path)
    optimizer.tell(optimizer.ask(3), [0.1, None, 0.3])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][: min(cut, len(lines[-1]) - 2)])
    resumed = Optimizer(SQUARE, path=path)
    np.testing.assert_array_equal(resumed.history.Y, [0.1, np.nan])
    resumed.tell(optimizer.history.X[2], 0.3)
    assert path.read_bytes().splitlines(keepends=True) == lines


def test_last_line_without_newline_is_kept(tmp_path):
    path = tmp_path / "points.jsonl"
    Optimizer(SQUARE, path=path).tell([0.5, 0.5], 1.0)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    Optimizer(SQUARE, path=path).tell([0.1, 1 / 3], 2.0)
    np.testing.assert_array_equal(Optimizer(SQUARE, path=path).history.X, [[0.5, 0.5], [0.1, 1 / 3]])


def test_file_header(tmp_path):
    path = tmp_path / "points.jsonl"
    path.touch()
    Optimizer(SQUARE, path=path, seed=7).tell([0.5, 0.5], 1.0)
    header, point = map(json.loads, path.read_text().splitlines())
    assert (
        header["bounds"] == SQUARE
        and header["seed"] == 7
        and {"botorch", "deltauq"} <= set(header["versions"])
    )
    assert point == {"x": [0.5, 0.5], "y": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": [[0, 0], [1, 2]]}, "begun with bounds"),
        ({"bounds": [[0], [1]]}, "begun with bounds"),
        ({"seed": 1}, "begun with seed 0 and cannot be continued with 1"),
        (
            {"surrogate": GPSurrogate},
            "AnchoredSurrogate.* continued with .*GPSurrogate",
        ),
        (
            {"surrogate": partial(AnchoredSurrogate, n_anchors=9)},
            "n_anchors=10.* continued with .*n_anchors=9",
        ),
        ({"surrogate": partial(AnchoredSurrogate, recipe=Recipe(epochs=9))}, "continued with .*epochs=9"),
    ],
)
def test_file_of_another_run_raises(options, message, tmp_path):
    path = tmp_path / "points.jsonl"
    Optimizer(SQUARE, path=path).tell([0.5, 0.5], 1.0)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message):
        Optimizer(**{"bounds": SQUARE, **options}, path=path)
    assert path.read_bytes() == before


def test_equal_settings_of_another_process_continue(tmp_path):
    def made():
        return partial(AnchoredSurrogate, network=partial(MLP, hidden=(8,)), outcome_transform=ClipWorst(1))

    path = tmp_path / "points.jsonl"
    Optimizer(SQUARE, path=path, surrogate=made()).tell([0.5, 0.5], 1.0)
    assert len(Optimizer(SQUARE, path=path, surrogate=made()).history) == 1
    assert len(Optimizer(SQUARE, path=path, surrogate=partial(made(), n_anchors=10)).history) == 1


@pytest.mark.parametrize("text", ["dear diary", "dear\ndiary", '{"a": 1}\n', "[1]\n"])
def test_other_file_raises_and_is_not_changed(text, tmp_path):
    path = tmp_path / "diary.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="is not the file of a maximisation"):
        Optimizer(SQUARE, path=path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "line", ["", "nonsense", "{}", '{"x": [1], "y": 0}', '{"x": [0, 1], "y": "high"}', "[]"]
)
def test_damaged_line_raises_with_its_number(line, tmp_path):
    path = tmp_path / "points.jsonl"
    Optimizer(SQUARE, path=path).tell([[0.5, 0.5], [0.1, 0.1]], [1.0, 2.0])
    head, _, last = path.read_text().splitlines()
    path.write_text("\n".join([head, line, last]) + "\n")
    with pytest.raises(ValueError, match=r"line 2 of .* is not a point of 2 numbers"):
        Optimizer(SQUARE, path=path)


def test_full_disk_leaves_no_incomplete_line(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "points.jsonl"
    optimizer = Optimizer(SQUARE, path=path)
    optimizer.tell([0.5, 0.5], 1.0)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))
    try:
        with pytest.raises(OSError):
            optimizer.tell([0.1, 0.2], 2.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before and optimizer.best[1] == 2.0
