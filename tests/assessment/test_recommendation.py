"""The rule of the recommendation on synthetic metrics, and its statistics."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from deltauq.assessment import Advice, FoldMetrics, decide

FOLDS = 5
NOISE = np.array([-1.0, 0.5, 0.0, -0.5, 1.0])


def regressor(mae, rank, *, seconds=1.0, noise=0.01, raw=0.6, width=10.0):
    """Return one method's synthetic metrics; `noise` is relative for errors and absolute for the rank."""
    rank = np.full(FOLDS, np.nan) if rank is None else rank + noise * NOISE
    error = mae * (1 + noise * NOISE)
    return {
        "mae": error,
        "trimmed_mae": 0.8 * error,
        "rmse": 1.3 * error,
        "spearman": rank,
        "coverage_raw": np.full(FOLDS, raw),
        "coverage": np.full(FOLDS, 0.9),
        "width": np.full(FOLDS, width),
        "fit_seconds": np.full(FOLDS, seconds),
        "row_seconds": np.full(FOLDS, 1e-6),
    }


def regression(**methods):
    methods = {name.replace("_", "-"): values for name, values in methods.items()}
    ends = {"plain": regressor(10.0, None, seconds=0.1), "baseline": regressor(20.0, None, seconds=0.1)}
    return FoldMetrics("regression", {**ends, **methods}, overlap=0.25)


def classifier(accuracy, log_loss, confidence, spread=None, *, seconds=1.0, noise=0.01):
    nothing = np.full(FOLDS, np.nan)
    return {
        "accuracy": accuracy + noise * NOISE,
        "brier": nothing if log_loss is None else 0.6 * log_loss * (1 + noise * NOISE),
        "log_loss": nothing if log_loss is None else log_loss * (1 + noise * NOISE),
        "ece": np.full(FOLDS, 0.05),
        "auroc_spread": nothing if spread is None else spread + noise * NOISE[::-1],
        "auroc_confidence": confidence + noise * NOISE,
        "fit_seconds": np.full(FOLDS, seconds),
        "row_seconds": np.full(FOLDS, 1e-6),
    }


def classification(**methods):
    return FoldMetrics("classification", {"baseline": classifier(0.5, 0.7, 0.5), **methods}, overlap=0.25)


def assert_advice(metrics, advice, method, *phrases):
    result = decide(metrics)
    assert (result.advice, result.method) == (advice, method), result.text
    assert str(result) == result.text
    for phrase in phrases:
        assert phrase in result.text


def test_more_accurate_with_ranking():
    metrics = regression(anchored=regressor(8.0, 0.5), center=regressor(10.0, 0.5))
    assert_advice(
        metrics, Advice.ANCHORING, "anchored", "more accurate", "8 against 10", "0.50", "need calibration"
    )


def test_equally_accurate_with_a_ranking():
    metrics = regression(anchored=regressor(10.0, 0.3, raw=0.9), center=regressor(10.0, 0.3))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "about as accurate")
    assert "calibration" not in decide(metrics).text


def test_ranking_with_wide_intervals():
    metrics = regression(anchored=regressor(10.0, 0.3, width=40.0), center=regressor(10.0, 0.3))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "to rank only", "4 times as wide")


def test_more_accurate_without_ranking():
    metrics = regression(anchored=regressor(8.0, 0.01), center=regressor(10.0, 0.01))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "Do not rely on σ")


def test_less_accurate_with_ranking():
    metrics = regression(anchored=regressor(15.0, 0.5), center=regressor(10.0, 0.4))
    assert_advice(
        metrics, Advice.SIGMA_ONLY, "center", "center = estimator", "less accurate", "15 against 10", "0.40"
    )


def test_constant_sigma():
    metrics = regression(anchored=regressor(10.0, None), center=regressor(10.0, None))
    assert_advice(
        metrics, Advice.NO_ANCHORING, "plain", "the same for every row", "intervals of constant width"
    )


def test_spread_without_ranking():
    metrics = regression(anchored=regressor(10.0, 0.05), center=regressor(10.0, 0.05))
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "does not rank", "0.05")


def test_ranking_that_is_not_significant():
    metrics = regression(anchored=regressor(10.0, 0.2, noise=0.5), center=regressor(10.0, 0.2, noise=0.5))
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "may rank", "not significant over 5 folds")
    assert "does not rank" not in decide(metrics).text


def test_ranking_that_is_too_small():
    metrics = regression(anchored=regressor(10.0, 0.08), center=regressor(10.0, 0.08))
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "does not rank", "0.08")
    assert "not significant" not in decide(metrics).text


@pytest.mark.parametrize(("rank", "phrase"), [(0.7, "worse than"), (0.52, "as well as")])
def test_trees_that_rank_as_well_are_preferred(rank, phrase):
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=20.0),
        center=regressor(10.0, 0.5, seconds=20.1),
        tree_spread=regressor(10.0, rank, seconds=0.5),
    )
    assert_advice(
        metrics, Advice.NO_ANCHORING, "tree-spread", "the spread of its trees", phrase, "2.5% of the time"
    )


def test_trees_that_rank_worse_are_not_preferred():
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=20.0),
        center=regressor(10.0, 0.5, seconds=20.1),
        tree_spread=regressor(10.0, 0.3, seconds=0.5),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "better than the spread of its trees", "0.30")


def test_equal_alternative_is_preferred_only_if_cheaper():
    methods = {"anchored": regressor(10.0, 0.5, seconds=1.0), "center": regressor(10.0, 0.5, seconds=1.1)}
    expensive = regression(**methods, ensemble=regressor(10.0, 0.5, seconds=3.0))
    cheap = regression(**methods, ensemble=regressor(10.0, 0.5, seconds=0.3))
    assert_advice(expensive, Advice.ANCHORING, "anchored", "about as well as an ensemble of 3")
    assert_advice(cheap, Advice.NO_ANCHORING, "ensemble", "as well as", "use an ensemble of 3")


def test_cheaper_alternative_wins_a_tie():
    own = {"anchored": regressor(10.0, 0.19, seconds=0.16), "center": regressor(10.0, 0.19, seconds=0.17)}
    cheap = regression(**own, ensemble=regressor(10.0, 0.13, seconds=0.011, noise=0.3))
    assert_advice(
        cheap,
        Advice.NO_ANCHORING,
        "ensemble",
        "as well as",
        "0.19 against 0.13",
        "not significant over 5 folds",
        "of the time",
    )
    # As expensive, and with the smaller mean: no reason against.
    level = regression(**own, ensemble=regressor(10.0, 0.13, seconds=0.15, noise=0.3))
    assert_advice(level, Advice.ANCHORING, "anchored", "as well as an ensemble of 3")
    # Of no use, whatever it costs.
    useless = regression(**own, ensemble=regressor(10.0, 0.08, seconds=0.011, noise=0.3))
    assert_advice(useless, Advice.ANCHORING, "anchored")


def test_accuracy_outweighs_a_cheaper_ranking():
    own = {"anchored": regressor(9.0, 0.19, seconds=5.0), "center": regressor(10.0, 0.19, seconds=5.0)}
    noisy = regressor(9.4, 0.2, seconds=0.1, noise=0.3)
    assert_advice(regression(**own, ensemble=noisy), Advice.ANCHORING, "anchored", "more accurate")
    as_good = regressor(9.0, 0.2, seconds=0.1)
    assert_advice(regression(**own, ensemble=as_good), Advice.NO_ANCHORING, "ensemble")


def test_best_alternative_is_named():
    metrics = regression(
        anchored=regressor(10.0, 0.5),
        center=regressor(10.0, 0.5),
        tree_spread=regressor(10.0, 0.3),
        ensemble=regressor(10.0, 0.4, noise=0.2, seconds=3.0),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "as an ensemble of 3", "0.50 against 0.40")


@pytest.mark.parametrize(("seconds", "advice"), [(1.0, Advice.ANCHORING), (0.6, Advice.NO_ANCHORING)])
def test_similar_costs_are_a_tie(seconds, advice):
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=1.2),
        center=regressor(10.0, 0.5, seconds=1.2),
        ensemble=regressor(10.0, 0.48, seconds=seconds),
    )
    assert decide(metrics).advice is advice


def test_insignificant_gain_suggests_repeats():
    metrics = regression(anchored=regressor(8.0, 0.01, noise=0.5), center=regressor(10.0, 0.01))
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "not significant over 5 folds", "more repeats")
    higher = regression(anchored=regressor(12.0, 0.01, noise=0.5), center=regressor(10.0, 0.01))
    assert "more repeats" not in decide(higher).text


def test_cheapest_of_equal_alternatives():
    metrics = regression(
        anchored=regressor(10.0, 0.3, seconds=20.0),
        center=regressor(10.0, 0.3, seconds=20.0),
        tree_spread=regressor(10.0, 0.60, seconds=0.2),
        ensemble=regressor(10.0, 0.61, seconds=0.6),
    )
    assert_advice(metrics, Advice.NO_ANCHORING, "tree-spread")


def test_small_loss_of_accuracy_is_a_tie():
    # Half a per cent, without any noise: certain, but of no matter.
    metrics = regression(anchored=regressor(10.05, 0.5), center=regressor(10.0, 0.5))
    assert_advice(metrics, Advice.ANCHORING, "anchored")


def test_alternative_that_is_only_more_accurate():
    metrics = regression(
        anchored=regressor(10.0, 0.01),
        center=regressor(10.0, 0.01),
        ensemble=regressor(9.0, 0.09, seconds=0.3),
    )
    assert_advice(
        metrics,
        Advice.NO_ANCHORING,
        "ensemble",
        "does not rank",
        "An ensemble of 3 is more accurate",
        "9 against 10",
    )
    assert "ranks the errors" not in decide(metrics).text


def test_classifier_whose_spread_ranks_mistakes():
    metrics = classification(
        plain=classifier(0.9, 0.3, 0.7, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.7, 0.85),
        center=classifier(0.9, 0.3, 0.7, 0.85),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "ranks its errors better", "0.85 against 0.70")


def test_classifier_with_better_probabilities():
    metrics = classification(
        plain=classifier(0.9, 0.6, 0.8, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.8, 0.75),
        center=classifier(0.9, 0.6, 0.8, 0.75),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "log loss 0.3 against 0.6", "about as well as")


def test_classifier_with_lower_accuracy():
    metrics = classification(
        plain=classifier(0.9, 0.6, 0.7, seconds=0.1),
        anchored=classifier(0.8, 0.3, 0.85, 0.8),
        center=classifier(0.9, 0.6, 0.7, 0.8),
    )
    assert_advice(metrics, Advice.SIGMA_ONLY, "center", "less accurate", "accuracy 80.0% against 90.0%")


def test_classifier_without_gain():
    metrics = classification(
        plain=classifier(0.9, None, 0.8, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.8, 0.75),
        center=classifier(0.9, None, 0.8, 0.75),
    )
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "as well as the plain model", "use the plain model.")


def test_classifier_whose_ranking_is_not_significant():
    plain = classifier(0.9, 0.3, 0.7, seconds=0.1)
    own = classifier(0.9, 0.3, 0.7, 0.8)
    own["auroc_spread"] = 0.8 + 0.3 * NOISE
    metrics = classification(plain=plain, anchored=own, center=own)
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "ranks its errors", "not significant over 5 folds")


def test_possible_loss_of_accuracy_in_percentage_points():
    plain = classifier(0.99, 0.3, 0.7, seconds=0.1, noise=0.0)
    anchored = classifier(0.99, 0.3, 0.7, 0.85, noise=0.0)
    center = {**anchored}
    anchored["accuracy"] = np.array([0.99, 0.99, 0.99, 0.99, 0.79])
    metrics = classification(plain=plain, anchored=anchored, center=center)
    assert_advice(metrics, Advice.SIGMA_ONLY, "center", "may be less accurate", "95.0% against 99.0%")
    # Less than one point, though many times the error rate: no matter.
    anchored["accuracy"] = np.array([0.99, 0.99, 0.99, 0.99, 0.95])
    assert decide(metrics).advice is Advice.ANCHORING


def test_classifier_without_mistakes():
    perfect = classifier(1.0, 0.01, np.nan, np.nan, noise=0.0)
    metrics = classification(plain=perfect, anchored=perfect, center=perfect)
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "no errors to rank")


def test_folds_of_one_row():
    own = regressor(10.0, None)
    metrics = replace(regression(anchored=own, center=own), rows_per_fold=1.0)
    assert_advice(metrics, Advice.NO_ANCHORING, "plain", "Folds of one row")


def test_more_accurate_with_constant_sigma():
    metrics = regression(anchored=regressor(8.0, None), center=regressor(10.0, None))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "σ is the same for every row")
    assert "nan" not in decide(metrics).text


@given(st.data())
def test_text_never_contains_nan(data):
    def values(low, high):
        return np.array(data.draw(st.lists(st.floats(low, high) | st.just(np.nan), min_size=4, max_size=4)))

    def drawn():
        method = classifier(0.9, 0.3, 0.7)
        for name in ("brier", "log_loss", "auroc_spread", "auroc_confidence"):
            method[name] = values(0.0, 1.0)
        method["accuracy"] = np.array(data.draw(st.lists(st.floats(0, 1), min_size=4, max_size=4)))
        return method

    names = ("plain", "anchored", "center", "ensemble", "baseline")
    assert "nan" not in decide(classification(**{name: drawn() for name in names})).text


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=20), st.floats(0, 0.1))
def test_without_overlap_exceeds_is_a_t_test(gain, margin):
    gain = np.array(gain)
    if np.std(gain) < 1e-6:
        return
    p_value = ttest_1samp(gain, 0.0, alternative="greater").pvalue
    metrics = FoldMetrics("regression", {}, overlap=0.0)
    assert metrics.exceeds(gain, margin) == (p_value < 0.05 and np.mean(gain) > margin)


def test_standard_error_includes_overlap():
    gain = np.array([1.0, 2.0, 3.0, np.nan])
    mean, error = FoldMetrics("regression", {}, overlap=0.25).mean_and_error(gain)
    assert mean == 2.0
    np.testing.assert_allclose(error, np.sqrt(1 / 3 + 0.25))


def test_one_fold_is_never_significant():
    assert not FoldMetrics("regression", {}, overlap=0.25).exceeds(np.array([np.nan, 9.0]), 0.0)


@given(st.floats(1e-6, 1e6))
def test_unit_of_target_does_not_matter(unit):
    def scaled(mae, *arguments, **keywords):
        return regressor(unit * mae, *arguments, width=unit * 10.0, **keywords)

    methods = {
        "plain": scaled(10.0, None, seconds=0.1),
        "anchored": scaled(15.0, 0.5),
        "center": scaled(10.0, 0.4),
        "baseline": scaled(20.0, None),
    }
    assert decide(FoldMetrics("regression", methods, overlap=0.25)).advice is Advice.SIGMA_ONLY
