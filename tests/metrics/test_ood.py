import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from torchmetrics.functional.classification import binary_average_precision

from deltauq.metrics import aupr, auroc, fpr95

MEASURES = [auroc, aupr, fpr95]


@st.composite
def scores(draw):
    """Scores inside and outside, drawn from few values so that ties are common."""
    sides = [
        arrays(np.int64, draw(st.integers(1, 60)), elements=st.integers(0, 15)),
        arrays(np.int64, draw(st.integers(1, 60)), elements=st.integers(3, 18)),
    ]
    return tuple(draw(side).astype(float) for side in sides)


def labelled(inside, outside):
    """Return labels, 1 for outside, and scores."""
    return np.repeat([0, 1], [len(inside), len(outside)]), np.concatenate([inside, outside])


@pytest.mark.parametrize("decimals", [16, 0])
def test_areas_agree_with_other_libraries(decimals):
    rng = np.random.default_rng(0)
    inside, outside = (np.round(rng.normal(at, 1, n), decimals) for at, n in ((0, 300), (1, 200)))
    labels, values = labelled(inside, outside)
    assert auroc(inside, outside) == pytest.approx(roc_auc_score(labels, values), rel=1e-12)
    # torchmetrics would squash scores outside [0, 1], so it is given their ranks.
    ranks = torch.asarray(np.unique(values, return_inverse=True)[1] / len(values))
    expected = binary_average_precision(ranks, torch.asarray(labels))
    assert aupr(inside, outside) == pytest.approx(float(expected), rel=1e-6)
    assert aupr(inside, outside) == pytest.approx(average_precision_score(labels, values), rel=1e-12)


@given(scores())
def test_auroc_counts_a_tie_as_half(sides):
    inside, outside = sides
    wins = outside[:, None] - inside[None, :]
    assert auroc(inside, outside) == pytest.approx(np.mean((wins > 0) + 0.5 * (wins == 0)), rel=1e-12)


@given(scores())
def test_aupr_is_the_average_precision(sides):
    inside, outside = sides
    area = 0.0
    for threshold in np.unique(outside):
        precision = np.sum(outside >= threshold) / np.sum(np.concatenate(sides) >= threshold)
        area += np.mean(outside == threshold) * precision
    assert aupr(inside, outside) == pytest.approx(area, rel=1e-12)


@given(scores())
def test_fpr95_agrees_with_the_roc_curve(sides):
    labels, values = labelled(*sides)
    fpr, tpr, _ = roc_curve(1 - labels, -values, drop_intermediate=False)
    assert fpr95(*sides) == fpr[tpr >= 0.95 - 1e-12][0]


@pytest.mark.parametrize("n", [20, 60, 100, 140, 10_000])
def test_fpr95_keeps_no_more_than_it_must(n):
    # One input of the other side between each two of this one: the share kept is exactly 95 %.
    assert fpr95(np.arange(n), np.arange(n) + 0.5) == pytest.approx(0.95 - 1 / n, abs=1e-12)


def test_signs_and_extremes():
    inside, outside = [0.0, 0.1, 0.2], [0.8, 0.9]
    assert (auroc(inside, outside), aupr(inside, outside), fpr95(inside, outside)) == (1.0, 1.0, 0.0)
    assert auroc(outside, inside) == 0.0 and fpr95(outside, inside) == 1.0
    ties = np.ones(3), np.ones(2)
    assert auroc(*ties) == 0.5 and fpr95(*ties) == 1.0
    # A score that says nothing: the precision is the share of inputs from outside.
    assert aupr(*ties) == pytest.approx(2 / 5)


@given(scores())
def test_exchanging_and_negating_gives_the_same_auroc(sides):
    inside, outside = sides
    assert auroc(inside, outside) == pytest.approx(auroc(-outside, -inside), abs=1e-12)
    assert auroc(inside, outside) == pytest.approx(1 - auroc(outside, inside), abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
@given(sides=scores(), seed=st.integers(0, 99))
def test_only_the_order_of_scores_matters(measure, sides, seed):
    rng = np.random.default_rng(seed)
    expected = measure(*sides)
    assert 0 <= expected <= 1
    assert measure(*(rng.permutation(side) for side in sides)) == pytest.approx(expected, abs=1e-12)
    assert measure(*(np.exp(side) - 7 for side in sides)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_invalid_input(measure):
    with pytest.raises(ValueError, match=r"inside must have shape \(n,\) with n > 0, got \(0,\)\."):
        measure([], [1.0])
    with pytest.raises(ValueError, match=r"outside must have shape \(n,\) with n > 0, got \(1, 2\)\."):
        measure([1.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"outside contains"):
        measure([1.0], [np.nan])
