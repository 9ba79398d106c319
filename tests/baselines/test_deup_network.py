"""DEUP for networks, on errors whose size is known."""

import pytest
import torch
from torch import nn

from deltauq.baselines import DEUPNetwork
from deltauq.baselines.deup_network import error_nll, expected_square
from deltauq.nn import MLP
from deltauq.nn.training import Recipe


def make():
    return MLP(1, 1, (32,))


def heteroscedastic(n):
    """A line whose noise grows from a tenth on the left to one on the right."""
    x = torch.rand(n, 1)
    return x, 3 * x + (0.1 + 0.9 * x) * torch.randn(n, 1)


def test_predicted_error_equals_the_noise():
    x, y = heteroscedastic(2000)
    model = DEUPNetwork(make, 3).fit(x, y, Recipe(epochs=25, batch_size=100, lr=5e-3, schedule="linear"))
    grid = torch.tensor([[0.1], [0.5], [0.9]])
    posterior = model.posterior(grid)
    torch.testing.assert_close(posterior.std, 0.1 + 0.9 * grid, rtol=0.2, atol=0)
    torch.testing.assert_close(posterior.mean, 3 * grid, rtol=0, atol=0.2)


def test_errors_are_out_of_fold():
    # Every row has a feature of its own, so that nothing is learned about rows that were not seen.
    x, y = torch.eye(60), torch.randn(60, 1)
    model = DEUPNetwork(lambda: nn.Linear(60, 1), 4).fit(x, y, Recipe(epochs=150, batch_size=60, lr=0.1))
    assert (model.posterior(x).mean - y).abs().max() < 0.05
    assert abs(float(model.scale_) - float(y.std())) < 0.25


def test_folds_trained_together_or_separately(tmp_path):
    x, y = heteroscedastic(62)
    recipe = Recipe(epochs=3, batch_size=16, lr=1e-2)
    together = DEUPNetwork(make, 3).fit(x, y, recipe)
    one_by_one = DEUPNetwork(make, 3).fit(x, y, recipe, checkpoint=tmp_path / "run.ckpt")
    torch.testing.assert_close(together.posterior(x).std, one_by_one.posterior(x).std, rtol=1e-4, atol=1e-5)
    names = sorted(path.stem for path in tmp_path.iterdir())
    assert names == ["run-0-0", "run-0-1", "run-0-2", "run-1", "run-2"]


def test_likelihood_is_maximal_at_the_mean_square():
    squares = torch.rand(500, 1).double() ** 2
    output = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([output], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = error_nll(output.expand(500, 1), squares)
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.testing.assert_close(expected_square(output).squeeze(), squares.mean(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_errors_have_the_units_of_the_targets(unit):
    x, y = heteroscedastic(300)
    model = DEUPNetwork(make).fit(x, unit * y, Recipe(epochs=5, batch_size=100, lr=1e-2))
    torch.testing.assert_close(model.posterior(x).var.mean().sqrt(), model.scale_[0], rtol=0.3, atol=0)
    assert (model.posterior(100 * x).var > 0).all()


def test_progress_counts_to_the_epochs_of_the_recipe():
    data, epochs = heteroscedastic(20), []
    DEUPNetwork(make, 2).fit(*data, Recipe(epochs=6), progress=lambda epoch, loss: epochs.append(epoch))
    assert epochs == sorted(epochs) and epochs[-1] == 6


def test_invalid_input_raises():
    x, y = heteroscedastic(4)
    with pytest.raises(ValueError, match="DEUP is for regression"):
        DEUPNetwork(make).fit(x, torch.arange(4), Recipe())
    with pytest.raises(ValueError, match="5 folds need as many rows, got 4"):
        DEUPNetwork(make).fit(x, y, Recipe())
    with pytest.raises(ValueError, match="n_folds must be at least 2, got 1"):
        DEUPNetwork(make, 1)
    with pytest.raises(ValueError, match="has no link, got 'softmax'"):
        DEUPNetwork(make).posterior(x, "softmax")
