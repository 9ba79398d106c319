"""What all baselines for networks hold to, whatever they are."""

import re
import subprocess
import sys

import pytest
import torch
from lightning_fabric import Fabric
from torch import nn

import deltauq.baselines
from deltauq.baselines import SVI, DeepEnsemble, DEUPNetwork, MCDropout, TemperatureNetwork
from deltauq.core import Posterior
from deltauq.nn import MLP
from deltauq.nn.losses import squared_error
from deltauq.nn.training import Recipe
from deltauq.utils.install import install_command

RECIPE = Recipe(epochs=2, batch_size=32, lr=1e-2, seed=1)
SAMPLED = [DeepEnsemble, MCDropout, SVI]
REGRESSORS = [*SAMPLED, DEUPNetwork]
CLASSIFIERS = [*SAMPLED, TemperatureNetwork]


def make_regressor():
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))


def make_classifier():
    return nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture(
    params=[*((m, "numbers") for m in REGRESSORS), *((m, "classes") for m in CLASSIFIERS)],
    ids=lambda param: f"{param[0].__name__}-{param[1]}",
)
def case(request, wave, blobs):
    """A method with the function that makes its networks, and data."""
    method, kind = request.param
    if kind == "numbers":
        return method, make_regressor, *wave
    # Some labels are wrong, so that there is a best temperature.
    x, y = blobs
    return method, make_classifier, x, torch.where(torch.arange(len(y)) % 4 == 0, (y + 1) % 3, y)


def assert_same(ours, theirs, tolerance):
    for name in ("mean", "var", "link_mean", "link_var"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def link_of(y):
    return None if y.is_floating_point() else "softmax"


def test_rows_do_not_depend_on_their_batch(case):
    method, make, x, y = case
    model = method(make).fit(x, y, RECIPE)
    whole = model.posterior(x, link_of(y))
    assert isinstance(whole, Posterior)
    assert whole.mean.shape == whole.var.shape and len(whole.mean) == len(x)
    assert_same(model.posterior(x, link_of(y), batch_size=7), whole, 2e-6)
    flipped = model.posterior(x.flip(0), link_of(y))
    torch.testing.assert_close(flipped.mean.flip(0), whole.mean, rtol=2e-6, atol=2e-6)
    assert not whole.mean.requires_grad and not whole.var.requires_grad


def test_same_seed_gives_the_same_result(case):
    method, make, x, y = case
    state = torch.get_rng_state()
    first = method(make).fit(x, y, RECIPE).posterior(x, link_of(y))
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    assert_same(method(make).fit(x, y, RECIPE).posterior(x, link_of(y)), first, 0.0)


def test_resumed_run_equals_uninterrupted_run(case, tmp_path):
    method, make, x, y = case
    first = method(make).fit(x, y, RECIPE, checkpoint=tmp_path / "run.ckpt").posterior(x)
    epochs = []
    again = method(make).fit(
        x, y, RECIPE, checkpoint=tmp_path / "run.ckpt", progress=lambda epoch, loss: epochs.append(epoch)
    )
    assert not epochs
    assert_same(again.posterior(x), first, 0.0)


def test_low_precision_with_own_fabric(case):
    method, make, x, y = case
    fabric = Fabric(accelerator="cpu", devices=1, precision="bf16-mixed")
    posterior = method(make).fit(x, y, RECIPE, fabric=fabric).posterior(x)
    assert posterior.mean.dtype == torch.float32
    assert posterior.mean.isfinite().all() and posterior.var.isfinite().all() and (posterior.var >= 0).all()


@pytest.mark.parametrize("method", [*REGRESSORS, TemperatureNetwork])
def test_misuse_raises(method):
    with pytest.raises(TypeError, match="must be a function that returns a new network, got Linear"):
        method(nn.Linear(2, 1))
    with pytest.raises(ValueError, match=f"this {method.__name__} is not fitted yet"):
        method(make_regressor).posterior(torch.zeros(3, 2))


@pytest.mark.parametrize("method", [*REGRESSORS, TemperatureNetwork, deltauq.baselines.GaussianProcess])
def test_arrays_raise(method, wave):
    x, y = wave
    model = method() if method is deltauq.baselines.GaussianProcess else method(make_regressor)
    with pytest.raises(TypeError, match="y must be a tensor, got ndarray"):
        model.fit(x, y.numpy(), RECIPE)


@pytest.mark.parametrize("method", REGRESSORS)
def test_targets_are_not_broadcast(method, wave):
    x, y = wave
    with pytest.raises(ValueError, match=r"targets of shape \(.*\) do not fit outputs of shape"):
        method(make_regressor).fit(x, y[:, 0], RECIPE)


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_baselines_for_tables_do_not_load_torch():
    program = "import sys, deltauq.baselines as b; b.DEUPRegressor; print('torch' in sys.modules)"
    assert run(program).strip() == "False"


@pytest.mark.parametrize(
    ("library", "file", "name", "extra"),
    [("lightning_fabric", "network", "SVI", "nn"), ("botorch.fit", "gp", "GaussianProcess", "bo")],
)
def test_missing_library_error_names_the_extra(library, file, name, extra, monkeypatch):
    for module in (file, "svi"):
        monkeypatch.delitem(sys.modules, f"deltauq.baselines.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"^{name} needs: {re.escape(install_command(extra))}$"):
        getattr(deltauq.baselines, name)


def test_unknown_name_raises():
    assert "SVI" in dir(deltauq.baselines)
    with pytest.raises(AttributeError, match="no attribute 'SWAG'"):
        _ = deltauq.baselines.SWAG


@pytest.mark.parametrize("method", [DeepEnsemble, MCDropout, DEUPNetwork])
@pytest.mark.parametrize("stackable", [True, False])
def test_criterion_is_used(method, stackable, wave):
    x, y = wave

    def make():
        return MLP(2, 1, (8,)) if stackable else make_regressor()

    def absolute(outputs, targets):
        return (outputs - targets).abs().mean()

    ours, usual, same = (
        method(make).fit(x, y, RECIPE, criterion=c).posterior(x) for c in (absolute, None, squared_error)
    )
    assert torch.equal(same.mean, usual.mean)
    assert not torch.allclose(ours.mean, usual.mean)


@pytest.mark.parametrize("method", [SVI])
def test_criterion_raises_for_methods_with_own_loss(method, blobs):
    with pytest.raises(ValueError, match="has its own loss: omit criterion"):
        method(make_classifier).fit(*blobs, RECIPE, criterion=squared_error)
