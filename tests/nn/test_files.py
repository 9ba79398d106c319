"""Files: equal after save and load, safe, and clear about what they cannot do."""

import copy
import json
import pickle

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from deltauq.core import SetPrior
from deltauq.nn import MLP, Anchored, ResNet20, UnusableFileError, load, save
from tests.nn.helpers import TARGETS, random_targets


def anchored(make, shape, **options):
    net, x = Anchored(make(), n_anchors=4, **options), torch.randn(12, *shape)
    net(x, random_targets(net, x))
    return net


CASES = {
    "perceptron": (lambda: MLP(5, 2, (8, 8), n_frequencies=4), (5,), {"mask": 0.1, "mask_rows": True}),
    "averaged over masked anchors": (lambda: MLP(5, 2, (8,)), (5,), {"mask": 0.1, "average_masked": True}),
    "two anchors": (lambda: MLP(5, 2, (8,), dropout=0.1), (5,), {"encoding": "two-anchor"}),
    "residual": (ResNet20, (3, 8, 8), {"train_anchors": "reverse"}),
    "at a hidden layer": (ResNet20, (3, 8, 8), {"at": "stages.1"}),
    "labelled": (lambda: MLP(5, 2, (8, 8), n_frequencies=4), (5,), {"target": "difference"}),
    "labelled, full, averaged over masked anchors": (
        lambda: MLP(5, 1, (8,)),
        (5,),
        {"target": "difference", "encoding": "full", "mask": 0.1, "average_masked": True},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_library_networks_are_rebuilt_from_the_file(case, tmp_path):
    make, shape, options = CASES[case]
    net, path = anchored(make, shape, **options), tmp_path / "net.safetensors"
    save(net, path)
    again = load(path)
    assert not again.training
    assert (again.mask_rows, again.average_masked) == (net.mask_rows, net.average_masked)
    assert again.target == net.target and torch.equal(again.anchor_targets, net.anchor_targets)
    assert (again.n_anchors, again.mask, again.encoding, again.at, again.train_anchors) == (
        net.n_anchors, net.mask, net.encoding, net.at, net.train_anchors
    )  # fmt: skip
    x = torch.randn(6, *shape)
    expected, actual = net.posterior(x), again.posterior(x)
    assert torch.equal(actual.mean, expected.mean)
    assert torch.equal(actual.var, expected.var)


def test_own_networks_load_into_what_the_user_constructs(conv_net, tmp_path, images):
    net, path = Anchored(copy.deepcopy(conv_net), n_anchors=4), tmp_path / "net.safetensors"
    net.set_anchors(images)
    net.save(path)
    with pytest.raises(
        UnusableFileError,
        match=r"SmallConvNet, which.*Anchored\(network, target='value', encoding='difference', "
        r"stem='stem'\).*net.load",
    ):
        load(path)
    again = Anchored(copy.deepcopy(conv_net), n_anchors=9)
    again.load(path)
    assert torch.equal(again.posterior(images).var, net.posterior(images).var)
    assert again.anchors_are_set
    again.train()(torch.randn(12, 3, 8, 8))
    assert torch.equal(again.anchors, net.anchors)


def test_network_with_a_custom_prior(tmp_path):
    net = Anchored(MLP(5, 2, (8,)), train_anchors=SetPrior(torch.randn(3, 5)))
    net(torch.randn(4, 5))
    net.save(tmp_path / "net")
    with pytest.raises(UnusableFileError, match="an encoding or prior of your own"):
        load(tmp_path / "net")


def test_tied_and_transposed_weights_are_written(tmp_path):
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    network[2].weight = network[1].weight
    network[0].weight = nn.Parameter(network[0].weight.detach().T)
    net = Anchored(network, init="pretrained")
    net.set_anchors(torch.randn(3, 4))
    net.save(tmp_path / "net")
    other = copy.deepcopy(net)
    nn.init.zeros_(other.module[1].weight)
    other.load(tmp_path / "net")
    assert other.module[1].weight is other.module[2].weight
    assert torch.equal(other.module[1].weight, net.module[1].weight)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: MLP(5, 2, (8, 9)), r"'module.layers.2.bias' is \(8,\) .* there and \(9,\) .* here"),
        (
            lambda: MLP(5, 2, (8, 8), activation="tanh", dropout=0.1),
            "'module.layers.2.bias' is .* absent here",
        ),
        (ResNet20, "is absent there and"),
    ],
)
def test_another_architecture(network, message, tmp_path):
    anchored(lambda: MLP(5, 2, (8, 8), n_frequencies=0), (5,)).save(tmp_path / "net")
    net = Anchored(network())
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(UnusableFileError, match=message):
        net.load(tmp_path / "net")
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_altered_files_raise(tmp_path):
    path = tmp_path / "net"
    anchored(lambda: MLP(5, 2, (8,)), (5,)).save(path)
    whole = path.read_bytes()
    for position in (len(whole) - 5, len(whole) - 100):  # among the weights
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(UnusableFileError, match="was altered after it was written"):
            load(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnusableFileError, match="is not a complete safetensors file"):
        load(path)
    path.write_bytes(whole.replace(b'\\"n_anchors\\": 4', b'\\"n_anchors\\": 5'))
    with pytest.raises(UnusableFileError, match="was altered"):
        load(path)


def test_other_files_raise_and_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    path = tmp_path / "file"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UnusableFileError, match="is not a complete safetensors file"):
        load(path)
    torch.save({"weight": torch.ones(3)}, path)
    with pytest.raises(UnusableFileError, match="is not a complete safetensors file"):
        load(path)
    save_file({"weight": torch.ones(3)}, path)
    with pytest.raises(UnusableFileError, match="is not a file of an anchored network"):
        load(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "nowhere")


def test_a_file_cannot_name_code_to_run(tmp_path):
    """Even a file with a fitting hash builds nothing but our networks."""
    from deltauq.nn.files import FORMAT, _digest

    path = tmp_path / "net"
    anchored(lambda: MLP(5, 2, (8,)), (5,)).save(path)
    tensors = load_file(path)
    content = {"anchored": {}, "network": {"name": "os.system", "config": {"command": "true"}}}
    description = json.dumps(content)
    header = {"format": FORMAT, "description": description, "sha256": _digest(description, tensors)}
    save_file(tensors, path, metadata=header)
    with pytest.raises(UnusableFileError, match="only its own code can build"):
        load(path)


@pytest.mark.parametrize("target", TARGETS)
def test_state_dict_carries_the_anchors(mlp, target):
    net = Anchored(copy.deepcopy(mlp), n_anchors=4, target=target)
    x = torch.randn(9, 5)
    net(x, torch.randn(9, 2))
    fresh = Anchored(copy.deepcopy(mlp), n_anchors=4, target=target)
    fresh.load_state_dict(net.state_dict())
    assert torch.equal(fresh.posterior(x).mean, net.posterior(x).mean)
    assert torch.equal(fresh.posterior(x).var, net.posterior(x).var)
    assert not fresh.anchors_are_set
    fresh.load_state_dict(Anchored(copy.deepcopy(mlp), target=target).state_dict())
    assert fresh.anchors.numel() == fresh.anchor_targets.numel() == 0


@pytest.mark.parametrize("target", TARGETS)
def test_copies_are_equal_and_independent(conv_net, images, target):
    net = Anchored(conv_net, n_anchors=4, target=target)
    net(images, torch.randn(12, 4))
    twin, before = copy.deepcopy(net), net.posterior(images).mean
    assert torch.equal(twin.posterior(images).var, net.posterior(images).var)
    with torch.no_grad():
        twin.anchored_layer.wide.weight.zero_()
        twin.anchors.zero_()
        twin.anchor_targets.zero_()
    assert torch.equal(net.posterior(images).mean, before) and net.posterior(images).var.max() > 0
    unpickled = pickle.loads(pickle.dumps(net))
    assert torch.equal(unpickled.posterior(images).var, net.posterior(images).var)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_precision_survives(dtype, target, tmp_path):
    x = torch.randn(6, 5).to(dtype)
    net = Anchored(MLP(5, 2, (8,)).to(dtype), n_anchors=4, target=target)
    net(x, torch.randn(6, 2, dtype=torch.float64))
    net.save(tmp_path / "net")
    again = load(tmp_path / "net")
    assert all(p.dtype == dtype for p in again.parameters())
    assert torch.equal(again.posterior(x).mean, net.posterior(x).mean)
    assert again.anchor_targets.dtype == net.anchor_targets.dtype
    with pytest.raises(UnusableFileError, match=r"precision: .* there and .* torch.float32 here"):
        Anchored(MLP(5, 2, (8,)), target=target).load(tmp_path / "net")


def rewritten(path, change):
    """Rewrite a file with another description or other tensors, and a valid hash."""
    from deltauq.nn.files import FORMAT, _digest

    with safe_open(path, framework="pt") as file:
        description = json.loads(file.metadata()["description"])
    tensors = load_file(path)
    description = change(description, tensors) or description
    description = json.dumps(description)
    header = {"format": FORMAT, "description": description, "sha256": _digest(description, tensors)}
    save_file(tensors, path, metadata=header)


CHANGES = {
    "no network": lambda description, _: description.pop("network") and None,
    "no name": lambda description, _: description["network"].pop("name") and None,
    "a list": lambda description, _: [1, 2],
    "strange option": lambda description, _: description["anchored"].update(speed=3),
    "strange argument": lambda description, _: description["network"]["config"].update(depth=3),
    "arguments are a number": lambda description, _: description["network"].update(config=3),
    "bad width": lambda description, _: description["network"]["config"].update(hidden=["a"]),
    "bad dtype": lambda description, _: description["network"].update(dtype="save"),
    "dtype is no name": lambda description, _: description["network"].update(dtype=3),
    "no anchors": lambda _, tensors: tensors.pop("anchors") is None or None,
    "anchors of one axis": lambda _, tensors: tensors.update(anchors=torch.ones(3)),
    "anchors of another width": lambda _, tensors: tensors.update(anchors=torch.ones(3, 9)),
    "unknown target": lambda description, _: description["anchored"].update(target="ratio"),
    "no targets": lambda _, tensors: tensors.pop("anchor_targets") is None or None,
    "targets of other anchors": lambda _, tensors: tensors.update(anchor_targets=torch.ones(3, 2)),
    "targets of another width": lambda _, tensors: tensors.update(anchor_targets=torch.ones(4, 3)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_hash_fits_but_not_its_content(change, tmp_path):
    path = tmp_path / "net"
    net = anchored(lambda: MLP(5, 2, (8,)), (5,), target="difference")
    net.save(path)
    rewritten(path, CHANGES[change])
    with pytest.raises(UnusableFileError):
        load(path)


def test_files_of_versions_without_targets(tmp_path):
    def older(description, tensors):
        del description["anchored"]["target"], tensors["anchor_targets"]

    path = tmp_path / "net"
    net = anchored(lambda: MLP(5, 2, (8,)), (5,))
    net.save(path)
    rewritten(path, older)
    x, own = torch.randn(6, 5), Anchored(MLP(5, 2, (8,)))
    own.load(path)
    for again in (load(path), own):
        assert torch.equal(again.posterior(x).var, net.posterior(x).var)
    with pytest.raises(UnusableFileError, match="is of target='value', and this network has 'difference'"):
        Anchored(MLP(5, 2, (8,)), target="difference").load(path)


def test_different_average_masked_raises_a_warning(tmp_path):
    net = Anchored(MLP(5, 2, (8,)), mask=0.1, average_masked=True)
    net(torch.randn(8, 5))
    net.save(tmp_path / "net")
    with pytest.warns(UserWarning, match="was saved with average_masked=True, and this one has False"):
        Anchored(MLP(5, 2, (8,))).load(tmp_path / "net")
    Anchored(MLP(5, 2, (8,)), mask=0.3, average_masked=True).load(tmp_path / "net")


def test_what_cannot_be_written_raises(mlp, tmp_path):
    class Remembers(nn.Linear):
        def get_extra_state(self):
            return {"step": 3}

        def set_extra_state(self, state):
            pass

    with pytest.raises(TypeError, match=r"state 'module.1._extra_state' is a dict, and files contain"):
        Anchored(nn.Sequential(nn.Linear(5, 4), Remembers(4, 2))).save(tmp_path / "net")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent to write net\.safetensors to"):
        Anchored(mlp).save(tmp_path / "absent" / "net.safetensors")
    with pytest.raises(IsADirectoryError, match="is a folder: name a file"):
        Anchored(nn.Linear(5, 2)).save(tmp_path)


def test_a_state_without_extra_state_can_be_loaded(mlp):
    net = Anchored(copy.deepcopy(mlp), n_anchors=4)
    net.set_anchors(torch.randn(4, 5))
    state = {name: value for name, value in net.state_dict().items() if "extra" not in name}
    for wrap in (lambda n: n, nn.Sequential):
        fresh = wrap(Anchored(copy.deepcopy(mlp)))
        prefix = "0." if isinstance(fresh, nn.Sequential) else ""
        fresh.load_state_dict({prefix + name: value for name, value in state.items()})
        assert torch.equal(fresh.state_dict()[prefix + "anchors"], net.anchors)


def test_a_file_of_another_encoding_raises(tmp_path):
    net = Anchored(MLP(5, 2, (8,)))
    net(torch.randn(8, 5))
    net.save(tmp_path / "net")
    other = Anchored(MLP(5, 2, (8,)), encoding="identity")
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(
        UnusableFileError, match="is of encoding='difference', and this network has 'identity'"
    ):
        other.load(tmp_path / "net")
    assert all(torch.equal(value, before[name]) for name, value in other.state_dict().items())


@pytest.mark.parametrize("mask", [np.float32(0.25), torch.tensor(0.25)])
def test_a_mask_of_numpy_or_pytorch_can_be_saved(mask, tmp_path):
    net = Anchored(MLP(5, 2, (8,)), mask=mask)
    net(torch.randn(8, 5))
    net.save(tmp_path / "net")
    assert load(tmp_path / "net").mask == 0.25
