"""`choose_frequency`: an oracle, and functions that vary faster or slower."""

import numpy as np
import pytest
import torch

pytest.importorskip("botorch")

from scipy.stats import norm

from deltauq.bo.frequency import CANDIDATES, NOISE, choose_frequency


def test_equals_leaving_points_out_one_by_one():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, 2))
    y = np.sin(3 * x[:, 0]) + x[:, 1]

    def score(frequency):
        kernel = np.exp(-0.5 * frequency**2 * ((x[:, None] - x) ** 2).sum(-1)) + NOISE * np.eye(12)
        inverse = np.linalg.inv(kernel)
        centred = y - inverse.sum(0) @ y / inverse.sum()
        means, variances = [], []
        for k in range(12):
            others = np.arange(12) != k
            weights = np.linalg.solve(kernel[np.ix_(others, others)], kernel[others, k])
            means.append(weights @ centred[others])
            variances.append(kernel[k, k] - weights @ kernel[others, k])
        errors = centred - means
        scale = np.mean(errors**2 / variances)
        return norm.logpdf(errors, scale=np.sqrt(scale * np.array(variances))).sum()

    best = max(CANDIDATES, key=score)
    assert choose_frequency(torch.as_tensor(x), torch.as_tensor(y)[:, None]) == best


def test_faster_functions_have_higher_frequencies():
    x = torch.linspace(-1.7, 1.7, 40)[:, None]
    slow, fast = (choose_frequency(x, torch.sin(factor * x)) for factor in (1.0, 12.0))
    assert fast > 4 * slow


@pytest.mark.parametrize("y", [torch.zeros(6, 1), torch.rand(6, 2)], ids=["constant", "two outputs"])
def test_any_outcomes(y):
    x = torch.rand(3, 2).repeat(2, 1)  # duplicates
    assert choose_frequency(x, y) in CANDIDATES
