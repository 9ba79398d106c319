"""An anchored network as one plain function; ONNX files made from it are tested in tests/io/test_onnx.py."""

import pytest
import torch

from deltauq.nn import MLP, Anchored
from deltauq.nn.predictor import AnchorPredictor
from tests.nn.helpers import TARGETS, random_targets
from tests.nn.test_inference import NETWORKS


@pytest.mark.parametrize("case", [name for name in NETWORKS if "two anchors" not in name])
def test_the_predictor_of_labelled_anchors_is_the_posterior(case):
    make, shape, options = NETWORKS[case]
    net, x = Anchored(make(), n_anchors=3, target="difference", **options), torch.randn(6, *shape)
    net.set_anchors(x, random_targets(net, x))
    posterior = net.posterior(x)
    mean, std = AnchorPredictor(net)(x)
    torch.testing.assert_close(mean, posterior.mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(std, posterior.std, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("average_masked", [False, True])
def test_half_precision_predictor_has_float32_moments(dtype, average_masked, target):
    net = Anchored(MLP(5, 2, (16,)), mask=0.5, average_masked=average_masked, target=target)
    net.set_anchors(torch.randn(10, 5), torch.randn(10, 2))
    x = torch.randn(7, 5).to(dtype)
    mean, std = AnchorPredictor(net.to(dtype), "softmax")(x)
    posterior = net.posterior(x, link="softmax")
    assert mean.dtype == std.dtype == posterior.mean.dtype == torch.float32
    torch.testing.assert_close(mean, posterior.link_mean, rtol=0, atol=1e-3)
    torch.testing.assert_close(std, posterior.link_var.sqrt(), rtol=0, atol=1e-3)


def test_a_network_without_anchors_raises():
    with pytest.raises(ValueError, match="there are no anchors yet"):
        AnchorPredictor(Anchored(MLP(5, 2, (16,))))
