"""The rule behind the advice, on metrics of each kind that are made up, and its statistics."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from deltauq.assessment import Advice, Metrics, decide

FOLDS = 5
NOISE = np.array([-1.0, 0.5, 0.0, -0.5, 1.0])


def regressor(mae, rank, *, seconds=1.0, noise=0.01, raw=0.6, width=10.0):
    """Return one method's made-up metrics; `noise` is relative for errors and absolute for the rank."""
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
    return Metrics("regression", {**ends, **methods}, overlap=0.25)


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
    return Metrics("classification", {"baseline": classifier(0.5, 0.7, 0.5), **methods}, overlap=0.25)


def assert_advice(metrics, advice, method, *words):
    result = decide(metrics)
    assert (result.advice, result.method) == (advice, method), result.text
    assert str(result) == result.text
    for word in words:
        assert word in result.text


def test_more_accurate_and_a_ranking_of_its_own():
    metrics = regression(anchored=regressor(8.0, 0.5), center=regressor(10.0, 0.5))
    assert_advice(
        metrics, Advice.ANCHORING, "anchored", "more accurate", "8 against 10", "0.50", "need calibration"
    )


def test_equally_accurate_with_a_ranking():
    metrics = regression(anchored=regressor(10.0, 0.3, raw=0.9), center=regressor(10.0, 0.3))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "about as accurate")
    assert "calibration" not in decide(metrics).text


def test_a_ranking_whose_intervals_are_wide_is_for_ranking_only():
    metrics = regression(anchored=regressor(10.0, 0.3, width=40.0), center=regressor(10.0, 0.3))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "to rank only", "4 times as wide")


def test_more_accurate_but_no_ranking_says_not_to_rely_on_sigma():
    metrics = regression(anchored=regressor(8.0, 0.01), center=regressor(10.0, 0.01))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "Do not rely on σ")


def test_accuracy_lost_but_the_spread_ranks():
    metrics = regression(anchored=regressor(15.0, 0.5), center=regressor(10.0, 0.4))
    assert_advice(
        metrics, Advice.SIGMA_ONLY, "center", "center = estimator", "less accurate", "15 against 10", "0.40"
    )


def test_the_same_sigma_everywhere():
    metrics = regression(anchored=regressor(10.0, None), center=regressor(10.0, None))
    assert_advice(metrics, Advice.DONT, "plain", "the same for every row", "intervals of constant width")


def test_a_spread_that_does_not_rank():
    metrics = regression(anchored=regressor(10.0, 0.05), center=regressor(10.0, 0.05))
    assert_advice(metrics, Advice.DONT, "plain", "does not rank", "0.05")


def test_a_ranking_within_the_noise_is_none_and_the_sentence_says_so():
    metrics = regression(anchored=regressor(10.0, 0.2, noise=0.5), center=regressor(10.0, 0.2, noise=0.5))
    assert_advice(metrics, Advice.DONT, "plain", "may rank", "not significant over 5 folds")
    assert "does not rank" not in decide(metrics).text


def test_a_clear_but_useless_ranking_is_not_called_noise():
    metrics = regression(anchored=regressor(10.0, 0.08), center=regressor(10.0, 0.08))
    assert_advice(metrics, Advice.DONT, "plain", "does not rank", "0.08")
    assert "not significant" not in decide(metrics).text


@pytest.mark.parametrize(("rank", "word"), [(0.7, "worse than"), (0.52, "as well as")])
def test_trees_that_rank_as_well_are_cheaper(rank, word):
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=20.0),
        center=regressor(10.0, 0.5, seconds=20.1),
        tree_spread=regressor(10.0, rank, seconds=0.5),
    )
    assert_advice(metrics, Advice.DONT, "tree-spread", "the spread of its trees", word, "1/40 of the time")


def test_trees_that_rank_worse_are_no_reason_against():
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=20.0),
        center=regressor(10.0, 0.5, seconds=20.1),
        tree_spread=regressor(10.0, 0.3, seconds=0.5),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "better than the spread of its trees", "0.30")


def test_an_equal_rival_that_costs_more_is_no_reason_against():
    rivals = {"anchored": regressor(10.0, 0.5, seconds=1.0), "center": regressor(10.0, 0.5, seconds=1.1)}
    dear = regression(**rivals, ensemble=regressor(10.0, 0.5, seconds=3.0))
    cheap = regression(**rivals, ensemble=regressor(10.0, 0.5, seconds=0.3))
    assert_advice(dear, Advice.ANCHORING, "anchored", "about as well as an ensemble of 3")
    assert_advice(cheap, Advice.DONT, "ensemble", "as well as", "use an ensemble of 3")


def test_a_tie_goes_to_the_cheaper_rival_even_if_it_does_not_beat_the_plain_model():
    ours = {"anchored": regressor(10.0, 0.19, seconds=0.16), "center": regressor(10.0, 0.19, seconds=0.17)}
    cheap = regression(**ours, ensemble=regressor(10.0, 0.13, seconds=0.011, noise=0.3))
    assert_advice(
        cheap,
        Advice.DONT,
        "ensemble",
        "as well as",
        "0.19 against 0.13",
        "not significant over 5 folds",
        "1/1",
    )
    # As dear, and with the smaller mean: no reason against.
    level = regression(**ours, ensemble=regressor(10.0, 0.13, seconds=0.15, noise=0.3))
    assert_advice(level, Advice.ANCHORING, "anchored", "as well as an ensemble of 3")
    # Of no use, whatever it costs.
    useless = regression(**ours, ensemble=regressor(10.0, 0.08, seconds=0.011, noise=0.3))
    assert_advice(useless, Advice.ANCHORING, "anchored")


def test_accuracy_is_a_reason_that_a_rival_without_it_does_not_take_away():
    ours = {"anchored": regressor(9.0, 0.19, seconds=5.0), "center": regressor(10.0, 0.19, seconds=5.0)}
    noisy = regressor(9.4, 0.2, seconds=0.1, noise=0.3)
    assert_advice(regression(**ours, ensemble=noisy), Advice.ANCHORING, "anchored", "more accurate")
    as_good = regressor(9.0, 0.2, seconds=0.1)
    assert_advice(regression(**ours, ensemble=as_good), Advice.DONT, "ensemble")


def test_the_best_ranking_rival_is_named():
    metrics = regression(
        anchored=regressor(10.0, 0.5),
        center=regressor(10.0, 0.5),
        tree_spread=regressor(10.0, 0.3),
        ensemble=regressor(10.0, 0.4, noise=0.2, seconds=3.0),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "as an ensemble of 3", "0.50 against 0.40")


@pytest.mark.parametrize(("seconds", "advice"), [(1.0, Advice.ANCHORING), (0.6, Advice.DONT)])
def test_costs_that_differ_little_decide_nothing(seconds, advice):
    metrics = regression(
        anchored=regressor(10.0, 0.5, seconds=1.2),
        center=regressor(10.0, 0.5, seconds=1.2),
        ensemble=regressor(10.0, 0.48, seconds=seconds),
    )
    assert decide(metrics).advice is advice


def test_a_lower_error_within_the_noise_asks_for_more_folds():
    metrics = regression(anchored=regressor(8.0, 0.01, noise=0.5), center=regressor(10.0, 0.01))
    assert_advice(metrics, Advice.DONT, "plain", "not significant over 5 folds", "More repeats")
    higher = regression(anchored=regressor(12.0, 0.01, noise=0.5), center=regressor(10.0, 0.01))
    assert "More repeats" not in decide(higher).text


def test_of_equal_rivals_the_cheapest_is_named():
    metrics = regression(
        anchored=regressor(10.0, 0.3, seconds=20.0),
        center=regressor(10.0, 0.3, seconds=20.0),
        tree_spread=regressor(10.0, 0.60, seconds=0.2),
        ensemble=regressor(10.0, 0.61, seconds=0.6),
    )
    assert_advice(metrics, Advice.DONT, "tree-spread")


def test_a_small_loss_of_accuracy_is_none():
    # Half a per cent, without any noise: certain, but of no matter.
    metrics = regression(anchored=regressor(10.05, 0.5), center=regressor(10.0, 0.5))
    assert_advice(metrics, Advice.ANCHORING, "anchored")


def test_a_rival_that_only_predicts_better_is_not_praised_for_its_ranking():
    metrics = regression(
        anchored=regressor(10.0, 0.01),
        center=regressor(10.0, 0.01),
        ensemble=regressor(9.0, 0.09, seconds=0.3),
    )
    assert_advice(
        metrics,
        Advice.DONT,
        "ensemble",
        "does not rank",
        "An ensemble of 3 is more accurate",
        "9 against 10",
    )
    assert "ranks the errors" not in decide(metrics).text


def test_classes_found_better_by_the_spread():
    metrics = classification(
        plain=classifier(0.9, 0.3, 0.7, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.7, 0.85),
        center=classifier(0.9, 0.3, 0.7, 0.85),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "ranks its errors better", "0.85 against 0.70")


def test_classes_with_better_probabilities_alone():
    metrics = classification(
        plain=classifier(0.9, 0.6, 0.8, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.8, 0.75),
        center=classifier(0.9, 0.6, 0.8, 0.75),
    )
    assert_advice(metrics, Advice.ANCHORING, "anchored", "log loss 0.3 against 0.6", "about as well as")


def test_classes_where_accuracy_is_lost_for_better_probabilities():
    metrics = classification(
        plain=classifier(0.9, 0.6, 0.7, seconds=0.1),
        anchored=classifier(0.8, 0.3, 0.85, 0.8),
        center=classifier(0.9, 0.6, 0.7, 0.8),
    )
    assert_advice(metrics, Advice.SIGMA_ONLY, "center", "less accurate", "accuracy 80.0% against 90.0%")


def test_classes_where_the_plain_model_knows_as_much():
    metrics = classification(
        plain=classifier(0.9, None, 0.8, seconds=0.1),
        anchored=classifier(0.9, 0.3, 0.8, 0.75),
        center=classifier(0.9, None, 0.8, 0.75),
    )
    assert_advice(metrics, Advice.DONT, "plain", "as well as the plain model", "use the plain model.")


def test_a_spread_that_may_find_mistakes_better_is_not_called_useless():
    plain = classifier(0.9, 0.3, 0.7, seconds=0.1)
    ours = classifier(0.9, 0.3, 0.7, 0.8)
    ours["auroc_spread"] = 0.8 + 0.3 * NOISE
    metrics = classification(plain=plain, anchored=ours, center=ours)
    assert_advice(metrics, Advice.DONT, "plain", "ranks its errors", "not significant over 5 folds")


def test_a_doubtful_loss_of_accuracy_is_measured_by_the_error_rate():
    plain = classifier(0.99, 0.3, 0.7, seconds=0.1, noise=0.0)
    anchored = classifier(0.99, 0.3, 0.7, 0.85, noise=0.0)
    center = {**anchored}
    anchored["accuracy"] = np.array([0.99, 0.99, 0.99, 0.99, 0.79])
    metrics = classification(plain=plain, anchored=anchored, center=center)
    assert_advice(metrics, Advice.SIGMA_ONLY, "center", "may be less accurate", "95.0% against 99.0%")
    # Less than one point, though many times the error rate: no matter.
    anchored["accuracy"] = np.array([0.99, 0.99, 0.99, 0.99, 0.95])
    assert decide(metrics).advice is Advice.ANCHORING


def test_a_classifier_without_mistakes_is_left_alone():
    perfect = classifier(1.0, 0.01, np.nan, np.nan, noise=0.0)
    metrics = classification(plain=perfect, anchored=perfect, center=perfect)
    assert_advice(metrics, Advice.DONT, "plain", "no mistakes to rank")


def test_folds_of_one_row_cannot_measure_a_ranking():
    ours = regressor(10.0, None)
    metrics = replace(regression(anchored=ours, center=ours), rows_per_fold=1.0)
    assert_advice(metrics, Advice.DONT, "plain", "Folds of one row")


def test_a_gain_in_accuracy_with_the_same_sigma_everywhere():
    metrics = regression(anchored=regressor(8.0, None), center=regressor(10.0, None))
    assert_advice(metrics, Advice.ANCHORING, "anchored", "σ is the same for every row")
    assert "nan" not in decide(metrics).text


@given(st.data())
def test_no_sentence_has_a_number_that_is_none(data):
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
def test_without_overlap_a_difference_counts_where_a_t_test_says_so(gain, margin):
    gain = np.array(gain)
    if np.std(gain) < 1e-6:
        return
    p_value = ttest_1samp(gain, 0.0, alternative="greater").pvalue
    metrics = Metrics("regression", {}, overlap=0.0)
    assert metrics.exceeds(gain, margin) == (p_value < 0.05 and np.mean(gain) > margin)


def test_the_standard_error_knows_of_shared_rows():
    gain = np.array([1.0, 2.0, 3.0, np.nan])
    mean, error = Metrics("regression", {}, overlap=0.25).mean_and_error(gain)
    assert mean == 2.0
    np.testing.assert_allclose(error, np.sqrt(1 / 3 + 0.25))


def test_one_fold_decides_nothing():
    assert not Metrics("regression", {}, overlap=0.25).exceeds(np.array([np.nan, 9.0]), 0.0)


@given(st.floats(1e-6, 1e6))
def test_the_unit_of_the_target_does_not_matter(unit):
    def scaled(mae, *arguments, **keywords):
        return regressor(unit * mae, *arguments, width=unit * 10.0, **keywords)

    methods = {
        "plain": scaled(10.0, None, seconds=0.1),
        "anchored": scaled(15.0, 0.5),
        "center": scaled(10.0, 0.4),
        "baseline": scaled(20.0, None),
    }
    assert decide(Metrics("regression", methods, overlap=0.25)).advice is Advice.SIGMA_ONLY
