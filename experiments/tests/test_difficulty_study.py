"""Measures of uncertainty of several models."""

import numpy as np
import pytest

from experiments import difficulty_study
from experiments.difficulty_study import METHODS


def parts(n=600):
    """Rows whose errors have the size of the second variance."""
    rng = np.random.default_rng(0)
    X, variances = rng.random((n, 2)), rng.random((n, 3)) ** 2
    y = np.sqrt(variances[:, 1]) * rng.normal(size=n)
    rows = np.array_split(np.arange(n), 2)
    return tuple((X[part], y[part], np.zeros(len(part)), variances[part]) for part in rows)


@pytest.mark.parametrize("method", METHODS)
def test_sizes_follow_the_errors(method):
    learned, new = parts()
    old, sizes = METHODS[method](learned, new, 0)
    assert old.shape == learned[1].shape and sizes.shape == new[1].shape
    assert np.all(old > 0) and np.all(sizes > 0)
    correlation = np.corrcoef(sizes, np.sqrt(new[3][:, 1]))[0, 1] if np.ptp(sizes) else 0.0
    assert (correlation > 0.9) == (method in ("trees", "weighted", "both"))


@pytest.mark.slow
def test_a_real_table(data_dir):
    scores = {
        method: difficulty_study.run(
            {"n_train": 200, "dataset": "yacht", "method": method, "seed": 0}, "quick"
        ).metrics["interval_score"]
        for method in ("constant", "both")
    }
    assert scores["both"] < scores["constant"]
