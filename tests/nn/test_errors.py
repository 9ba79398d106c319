"""Bad input gets one clear line."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from deltauq.core import Target
from deltauq.nn import MLP, Anchored, anchored_loss
from deltauq.utils.install import install_command


@pytest.fixture
def net(mlp):
    net = Anchored(mlp, n_anchors=3)
    net.set_anchors(torch.randn(3, 5))
    return net


def test_wrong_number_of_channels(net, conv_net):
    with pytest.raises(ValueError, match=r"takes 5 channels on axis -1, got a tensor of shape \(4, 10\)\."):
        net(torch.randn(4, 10))
    with pytest.raises(
        ValueError, match=r"takes 3 channels on axis 1, got a tensor of shape \(4, 6, 8, 8\)\."
    ):
        Anchored(conv_net)(torch.randn(4, 6, 8, 8))


@pytest.mark.parametrize("x", [torch.randn(5), torch.randn(0, 5), torch.tensor(1.0)])
def test_inputs_that_are_no_batch(net, x):
    for call in (net.train(), net.eval(), net.posterior):
        with pytest.raises(ValueError, match="inputs must have at least one row and one additional axis"):
            call(x)


def test_inputs_that_are_no_tensor(net):
    with pytest.raises(TypeError, match=r"inputs must be a tensor, got list\."):
        net([[1.0] * 5])
    with pytest.raises(TypeError, match=r"anchors must be a tensor, got list\."):
        net.set_anchors([[1.0] * 5])


def test_integer_inputs(net):
    with pytest.raises(TypeError, match=r"received torch.int64: cast the inputs to float.*at='name'"):
        net.train()(torch.ones(4, 5, dtype=torch.int64))


def test_anchors_of_another_shape_or_device(net):
    with pytest.raises(ValueError, match=r"anchors have shape \(5,\) each, but the inputs have \(2, 5\)\."):
        net.posterior(torch.randn(4, 2, 5))
    with pytest.raises(ValueError, match=r"anchors are on meta, but the network is on cpu"):
        net.set_anchors(torch.randn(4, 5, device="meta"))
    with pytest.raises(ValueError, match=r"inputs are on meta, but the network is on cpu"):
        net.posterior(torch.randn(4, 5, device="meta"))
    with pytest.raises(ValueError, match="anchors must have at least one row"):
        net.set_anchors(torch.randn(0, 5))
    with pytest.raises(ValueError, match=r"n_anchors must be at least 1, got 0\."):
        net.set_anchors(torch.randn(4, 5), n_anchors=0)
    with pytest.raises(ValueError, match="balanced anchors need labels"):
        net.set_anchors(torch.randn(4, 5), prior="balanced")


def test_a_variance_needs_two_anchors(net):
    net.set_anchors(torch.randn(1, 5))
    assert net.eval()(torch.randn(4, 5)).shape == (4, 2)
    with pytest.raises(ValueError, match="one anchor has no variance: store at least two"):
        net.posterior(torch.randn(4, 5))
    net.set_anchors(None)
    with pytest.raises(ValueError, match="there are no anchors yet"):
        net.posterior(torch.randn(4, 5))


def test_unknown_link(net):
    with pytest.raises(
        ValueError, match=r"link must be one of \['sigmoid', 'softmax'\] or None, got 'probit'\."
    ):
        net.posterior(torch.randn(4, 5), link="probit")


def test_outputs_that_are_no_tensor_or_have_other_rows():
    class Pair(nn.Module):
        def __init__(self, several):
            super().__init__()
            self.layer, self.several = nn.Linear(5, 2), several

        def forward(self, x):
            out = self.layer(x)
            return (out, out) if self.several else out.mean(0)

    net = Anchored(Pair(True))
    assert len(net(torch.randn(4, 5))) == 2  # training may use whatever the network returns
    with pytest.raises(TypeError, match=r"needs a network that returns a tensor, got tuple\."):
        net.eval()(torch.randn(4, 5))
    net = Anchored(Pair(False))
    net.set_anchors(torch.randn(3, 5))
    with pytest.raises(ValueError, match=r"returned shape \(2,\) for 4 rows of inputs under anchors"):
        net.posterior(torch.randn(4, 5))


@pytest.mark.parametrize(
    ("option", "value"),
    [("mask", 1.0), ("mask", None), ("mask", "a")],
)
def test_masks_set_later_are_checked(option, value, net):
    before = getattr(net, option)
    with pytest.raises((TypeError, ValueError)):
        setattr(net, option, value)
    assert getattr(net, option) == before


@pytest.mark.parametrize("mask_rows", [False, True])
def test_without_a_mask_masked_is_false(mask_rows):
    net = Anchored(nn.Linear(5, 2), mask=0.9, mask_rows=mask_rows)
    while not net.masked.any():
        net(torch.randn(8, 5))
    net.mask = 0.0
    net(torch.randn(8, 5))
    assert net.masked.shape == () and not net.masked


def test_the_network_inside_is_not_called_alone(net):
    with pytest.raises(RuntimeError, match="call the Anchored module, not the network inside it"):
        net.module(torch.randn(4, 5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_anchors": 0}, "n_anchors must be at least 1, got 0."),
        ({"encoding": "ratio"}, "encoding must be one of"),
        ({"init": "zeros"}, r"init must be one of \['pretrained', 'random'\], got 'zeros'."),
        ({"mask": 1.0}, "mask must be a probability below 1, got 1.0."),
        ({"mask": -0.1}, "mask must be a probability below 1"),
        ({"at": "0", "stem": "0"}, "at and stem name two layers"),
        (
            {"at": "fc"},
            r"at='fc' names no layer of the network: its children are 0, 1, 2; layers with parameters: 0",
        ),
        ({"stem": "fc"}, "stem='fc' names no layer"),
        ({"stem": "1"}, "layer '1' is a ReLU, and only Linear, Conv1d, Conv2d, Conv3d can be widened"),
        ({"at": "1"}, r"channels that enter layer '1' \(ReLU\) is not known"),
        (
            {"train_anchors": "shuffle"},
            r"train_anchors must be one of \['derangement', 'reverse'\], or a prior",
        ),
    ],
)
def test_bad_options(mlp, options, message):
    with pytest.raises(ValueError, match=message):
        Anchored(mlp, **options)


def test_networks_without_a_layer_to_widen():
    with pytest.raises(ValueError, match=r"no Linear, Conv1d.* at=; layers with parameters: itself \(GRU\)"):
        Anchored(nn.GRU(3, 4))
    with pytest.raises(ValueError, match=r"layers with parameters: none\."):
        Anchored(nn.ReLU())
    with pytest.raises(TypeError, match=r"module must be a torch.nn.Module, got int\."):
        Anchored(3)
    with pytest.raises(ValueError, match="begins with an embedding of integers"):
        Anchored(nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 1)), at="0")


def test_shared_and_computed_weights_raise():
    tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    tied[1].weight = tied[0].weight
    with pytest.raises(ValueError, match=r"weight of layer '0' is shared with another layer.*at='0'"):
        Anchored(tied)
    for bound in (spectral_norm(nn.Linear(4, 4)), weight_norm(nn.Linear(4, 4, bias=False))):
        with pytest.raises(ValueError, match=r"weight of layer '0' is computed from other.*at='0'"):
            Anchored(nn.Sequential(bound, nn.Linear(4, 4)))  # the second layer is not widened instead
    # Behind another in the order of registration, the first pass raises the error.
    network = nn.ModuleDict({"last": nn.Linear(4, 4), "first": weight_norm(nn.Linear(4, 4, bias=False))})
    network.forward = lambda x: network["last"](network["first"](x))
    with pytest.raises(ValueError, match=r"first reaches 'first' \(ParametrizedLinear\)"):
        Anchored(network)(torch.randn(3, 4))
    with pytest.raises(ValueError, match=r"layer '0' \(LazyLinear\) is lazy and has no shape yet: run one"):
        Anchored(nn.Sequential(nn.LazyLinear(4)))
    with pytest.warns(DeprecationWarning):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4)))
    with pytest.raises(ValueError, match="'itself' is scripted"):
        Anchored(scripted)
    with pytest.warns(FutureWarning, match="weight_norm"):
        normed = nn.utils.weight_norm(nn.Linear(4, 4))
    with pytest.raises(ValueError, match=r"weight of layer '' is computed from other parameters"):
        Anchored(normed)
    with pytest.raises(ValueError, match=r"is anchored already, at 'layers\.0'"):
        Anchored(Anchored(MLP(3, n_frequencies=0)).module)


def test_bad_loss_options(net):
    x, y = torch.randn(4, 5), torch.randn(4, 2)
    for options, message in [
        ({"anchors_per_step": 0}, "anchors_per_step must be at least 1, got 0."),
        ({"consistency": 1.0}, "anchors_per_step must be at least 2"),
        (
            {"anchors_per_step": 2, "anchors": torch.rand(1, 4, 5)},
            r"integers of shape \(e, 4\), got torch.float32",
        ),
        (
            {"anchors": torch.tensor([[1, 0]])},
            r"got torch.int64 of shape \(1, 2\)",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            anchored_loss(net, nn.functional.mse_loss, x, y, **options)
    for masked in (torch.zeros(4, 1, dtype=torch.bool), torch.tensor(1), True):
        with pytest.raises(ValueError, match=r"masked must be a bool tensor of shape \(\) or \(4,\), got"):
            net(x, anchors=torch.tensor([[1, 0, 3, 2]]), masked=masked)
    with pytest.raises(TypeError, match="net must be an Anchored network or a wrapper of one, got Linear"):
        anchored_loss(nn.Linear(5, 2), nn.functional.mse_loss, x, y, anchors_per_step=2)


def test_bad_networks():
    with pytest.raises(ValueError, match=r"activation must be one of \['gelu', .*\], got 'sine'\."):
        MLP(3, activation="sine")


def test_without_torch_the_error_names_the_extra():
    program = "import sys; sys.modules['torch'] = None; import deltauq.nn"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ImportError: deltauq.nn needs PyTorch: {install_command('nn')}."


def test_bad_arguments_of_the_posterior(net):
    for budget in (0, -5, 1e6, "1"):
        with pytest.raises(ValueError, match="memory_budget must be"):
            net.posterior(torch.randn(4, 5), memory_budget=budget)
    with pytest.raises(TypeError, match=r"inputs must be a tensor, got ndarray\."):
        net.posterior(np.zeros((4, 5), dtype=np.float32))


@pytest.fixture
def labelled_net(mlp):
    return Anchored(mlp, n_anchors=3, target="difference")


def test_two_anchors_in_a_tuple_have_no_exchange(mlp):
    with pytest.raises(
        ValueError, match=r"TwoAnchor\(\) has 2 anchors in a tuple: choose an encoding with one"
    ):
        Anchored(mlp, target="difference", encoding="two-anchor")


@pytest.mark.parametrize("target", ["ratio", 3, Target()])
def test_unknown_targets(mlp, target):
    with pytest.raises(ValueError, match=r"target must be one of \['difference', 'value'\].*, got"):
        Anchored(mlp, target=target)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"needs the targets of a training batch: call net\(x, y\)\."),
        (torch.randn(5, 2), r"y must be a tensor with one target for each of 4 inputs, got shape \(5, 2\)\."),
        (torch.tensor(1.0), r"one target for each of 4 inputs, got shape \(\)\."),
        ([1.0] * 4, r"one target for each of 4 inputs, got list\."),
        (torch.randn(4), r"targets of anchors have shape \(\) each, but the outputs of the network \(2,\)\."),
        (
            torch.randn(4, 3),
            r"targets of anchors have shape \(3,\) each, but the outputs of the network \(2,\)",
        ),
    ],
)
def test_targets_of_a_training_batch(labelled_net, y, message):
    with pytest.raises(ValueError, match=message):
        labelled_net(torch.randn(4, 5), y)
    assert labelled_net.anchors.numel() == 0


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"labelled anchors need their targets: call set_anchors\(x, y\)\."),
        (torch.randn(5, 2), r"one target for each of 4 inputs, got shape \(5, 2\)"),
        (np.zeros((4, 2)), r"one target for each of 4 inputs, got ndarray"),
    ],
)
def test_targets_of_stored_anchors(labelled_net, y, message):
    with pytest.raises(ValueError, match=message):
        labelled_net.set_anchors(torch.randn(4, 5), y)
    assert labelled_net.anchors.numel() == 0


def test_stored_targets_of_another_shape_or_number(labelled_net):
    x = torch.randn(4, 5)
    for call in (labelled_net.eval(), labelled_net.posterior):
        with pytest.raises(
            ValueError, match="there are no anchors yet: train the network or call set_anchors"
        ):
            call(x)
    labelled_net.set_anchors(x, torch.randn(4, 3))
    for call in (labelled_net, labelled_net.posterior):
        with pytest.raises(
            ValueError, match=r"have shape \(3,\) each, but the outputs of the network \(2,\)\."
        ):
            call(x)
    labelled_net.anchor_targets = torch.randn(2, 2)
    with pytest.raises(ValueError, match=r"3 anchors are stored, with targets of shape \(2, 2\): call set_"):
        labelled_net(x)


def test_targets_of_passed_anchors(labelled_net):
    x, y, rows = torch.randn(4, 5), torch.randn(4, 2), torch.tensor([[1, 0, 3, 2]])
    with pytest.raises(ValueError, match="anchors that are rows of the batch need its targets: pass y"):
        labelled_net(x, anchors=rows)
    with pytest.raises(ValueError, match="anchors that are inputs need their targets: pass anchor_targets"):
        labelled_net(x, y, anchors=x[rows])
    with pytest.raises(ValueError, match=r"anchor_targets must have shape \(1, 4, ...\), got \(4, 2\)"):
        labelled_net(x, anchors=x[rows], anchor_targets=y)
    with pytest.raises(ValueError, match=r"one target for each of 4 inputs, got shape \(3, 2\)"):
        labelled_net(x, anchors=x[rows], anchor_targets=y[None, :3])
    for given_anchors in (x[rows][:, :3], torch.randn(1, 4, 6)):
        for net in (labelled_net, Anchored(nn.Linear(5, 2))):
            with pytest.raises(
                ValueError, match=r"or inputs of shape \(e, 4, 5\), got torch.float32 of shape"
            ):
                net(x, y, anchors=given_anchors, anchor_targets=y[None])


def test_labelled_anchors_of_several_outputs():
    class Pair(nn.Linear):
        def forward(self, x):
            return (super().forward(x),) * 2

    net, x, y = (
        Anchored(nn.Sequential(nn.Linear(5, 3), Pair(3, 2)), target="difference"),
        torch.randn(4, 5),
        torch.randn(4, 2),
    )
    with pytest.raises(TypeError, match=r"tensor, got tuple\. Name one of its outputs by output=: 0, 1"):
        net(x, y)
    net.output = 1
    assert net(x, y).shape == (4, 2)
