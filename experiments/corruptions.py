"""`corruptions`: distance of corrupted images from the originals, and examples."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np

from deltauq.data import load_images
from deltauq.plots import Figure
from experiments.data import CORRUPTIONS, load_corrupted
from experiments.data.corruptions import SEVERITIES
from experiments.plots import contact_sheet
from experiments.runner import Cell, Experiment, Outcome
from experiments.store import ResultLine
from experiments.tables import TableSpec

N_IMAGES = {"quick": 200, "paper": 10_000}
EXAMPLE = 17
"""Index in the test set of the example image."""

SHEETS = {"Noise and blur": CORRUPTIONS[:9], "Weather, colour, geometry, compression": CORRUPTIONS[9:]}
"""Corruptions by figure."""

_NAMES = {name: name.replace("_", " ") for name in CORRUPTIONS}


def cells(profile: str) -> list[Cell]:
    """Return one cell per corruption and severity."""
    return [{"corruption": name, "severity": severity} for name in CORRUPTIONS for severity in SEVERITIES]


def run(cell: Cell, profile: str) -> Outcome:
    """Measure the distance in levels of 0 to 255, and store one image."""
    n = N_IMAGES[profile]
    originals = load_images("cifar10-test")[0][:n]
    corrupted = load_corrupted(cell["corruption"], cell["severity"], n)
    difference = corrupted.images.astype(np.float32) - originals
    details = {"source": corrupted.source, "picture": _encode(corrupted.images[EXAMPLE])}
    if cell["severity"] == SEVERITIES[0]:
        details["original"] = _encode(originals[EXAMPLE])
    return Outcome({"rmse": float(np.sqrt(np.mean(difference**2, dtype=np.float64)))}, details)


def figures(lines: Sequence[ResultLine]) -> list[Figure]:
    """Return contact sheets: a row for each corruption, a column for the original and each severity."""
    sources = sorted({line.details["source"] for line in lines})
    pictures: dict[tuple[str, int], np.ndarray] = {}
    for line in lines:
        name = line.cell["corruption"]
        pictures[name, line.cell["severity"]] = _decode(line.details["picture"])
        if "original" in line.details:
            pictures[name, 0] = _decode(line.details["original"])
    return [_sheet(pictures, title, names, sources) for title, names in SHEETS.items()]


def _sheet(
    pictures: dict[tuple[str, int], np.ndarray], title: str, names: Sequence[str], sources: Sequence[str]
) -> Figure:
    missing = np.full((32, 32, 3), 128, dtype=np.uint8)
    images = np.array([[pictures.get((name, k), missing) for k in (0, *SEVERITIES)] for name in names])
    columns = [str(severity) for severity in (0, *SEVERITIES)]
    sheet = contact_sheet(images, [_NAMES[name] for name in names], columns)
    caption = f"An image of the test set, and the same at severities 1 to 5; {' and '.join(sources)} images."
    return Figure(sheet, title, caption, height=64 * len(names) + 40)


def _encode(pixels: np.ndarray) -> str:
    """Return the bytes of an image as text."""
    return base64.b64encode(np.ascontiguousarray(pixels).tobytes()).decode()


def _decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(32, 32, 3)


EXPERIMENT = Experiment(
    "corruptions",
    1,
    "The corruptions of CIFAR-10-C",
    cells,
    run,
    tables=(
        TableSpec(
            "Distance from the originals: root mean square, in levels of 0 to 255, by severity",
            "rmse",
            "corruption",
            "severity",
            best=None,
            labels=_NAMES,
            note="A severity is not always farther from the originals than the one before it: the settings "
            "published for glass blur, frost, saturate, elastic transform and spatter trade one effect for "
            "another. Motion blur at 3 and at 4 differs in its tail only.",
        ),
    ),
    figures=figures,
    notes=(
        "The test images of CIFAR-10 (all 10,000; 200 in the quick profile) under nineteen corruptions with "
        "the severities of CIFAR-10-C. The published images are used if the data folder has them, and "
        "generated ones otherwise; the caption of a sheet says which. Published images were made without a "
        "random seed, so generated ones have the same definitions but other noise."
    ),
)
