"""Tables that pages state by hand say what the result lines say."""

from pathlib import Path

import numpy as np
import pytest

from experiments import ResultStore

ROOT = Path(__file__).parents[2]
RECOMMENDED = {
    "masked": "delta-masked",
    "masked, one anchor": "delta-masked-1",
    "plain": "plain",
    "plain, halved logits": "scaled",
    "MC dropout": "mc-dropout",
    "DUQ": "duq",
    "ensemble of 3": "ensemble",
    "anchored without masks": "delta-uq",
}
CORRUPTED = {
    "masked rows, temperature, shifted": "delta-masked-rows-temperature-shifted",
    "masked rows, halved logits": "delta-masked-rows",
    "plain": "plain",
    "plain, halved logits": "scaled",
    "plain, temperature": "temperature",
    "plain, temperature, shifted": "temperature-shifted",
    "MC dropout": "mc-dropout",
    "Δ-UQ without masks": "delta-uq",
    "ensemble of 3": "ensemble",
    "ensemble of 5": "ensemble-5",
}


def table(page, corner):
    """Return the figures of the table whose first header is `corner`, by row and column."""
    lines = iter((ROOT / "docs" / page).read_text(encoding="utf-8").splitlines())
    rows = []
    for line in lines:
        if line.startswith(f"| {corner} |"):
            rows.append(line)
            while (line := next(lines)).startswith("|"):
                rows.append(line)
    header, _, *body = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {
        (first, column): float(text)
        for first, *cells in body
        for column, text in zip(header[1:], cells, strict=True)
        if text
    }


def mean_of(experiment, metric, **keys):
    lines = ResultStore(ROOT / "results" / f"{experiment}.jsonl").latest().values()
    chosen = [line for line in lines if line.profile == "paper" and keys.items() <= line.cell.items()]
    return np.mean([line.metrics[metric] for line in chosen])


def test_recommendation_for_ood_images():
    schedules = {"85 epochs in steps": "steps", "40 epochs, linearly falling": "linear"}
    stated = table("ood.md", "AUROC")
    assert len(stated) == 14
    for (schedule, column), figure in stated.items():
        keys = {"method": RECOMMENDED[column], "schedule": schedules[schedule]}
        assert figure == pytest.approx(mean_of("table5", "auroc", **keys), abs=5.01e-4), keys


@pytest.mark.parametrize(
    ("corner", "metric"), [("calibration error", "ece"), ("negative log-likelihood", "nll")]
)
def test_recommendation_for_corrupted_images(corner, metric):
    stated = table("ood.md", corner)
    assert len(stated) == 6 * len(CORRUPTED)
    for (method, severity), figure in stated.items():
        name, keys = f"{metric}_{severity.replace('clean', '0')}", {"method": CORRUPTED[method]}
        assert figure == pytest.approx(mean_of("figure5", name, **keys), abs=5.01e-4), (name, keys)
