"""Files of anchored networks: safetensors with the architecture as JSON in the header, never a pickle."""

from __future__ import annotations

import hashlib
import json
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from deltauq.core.encoding import ENCODINGS
from deltauq.core.target import TARGETS
from deltauq.nn.anchored import Anchored
from deltauq.nn.anchors import PAIRINGS
from deltauq.nn.networks import NETWORKS
from deltauq.utils.errors import InputError

FORMAT = "deltauq.nn/1"


class UnusableFileError(InputError):
    """The file is not a complete file of an anchored network, or is one of another architecture."""


def save(net: Anchored, path: str | PathLike[str]) -> None:
    """Write the weights, anchors and options of a network; see `Anchored.save`."""
    state, path = net.state_dict(), Path(path)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"the network's state {name!r} is a {type(value).__name__}, and files contain tensors only: "
                "return a tensor from get_extra_state."
            )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file.")
    # Copies: tensors that share memory cannot be written.
    copies = {name: value.cpu().clone(memory_format=torch.contiguous_format) for name, value in state.items()}
    description = json.dumps(_describe(net), sort_keys=True)
    digest = _digest(description, copies)
    save_file(copies, path, metadata={"format": FORMAT, "description": description, "sha256": digest})


def load(path: str | PathLike[str], map_location: str | torch.device = "cpu") -> Anchored:
    """Rebuild one of the networks of `deltauq.nn` from its file.

    For a network of your own, construct it, wrap it in `Anchored` and call `Anchored.load`.

    Parameters
    ----------
    path : path
    map_location : device, default="cpu"
        Device of the network.

    Returns
    -------
    net : Anchored
        In ``eval()``.
    """
    network, options, tensors = _read(path)
    name = network["name"]
    if name not in NETWORKS or network.get("config") is None:
        known = [
            f"{key}={options[key]!r}" for key in ("target", "encoding", "at", "stem") if options.get(key)
        ]
        raise UnusableFileError(
            f"{path} contains a {name}, which only its own code can build: construct it, wrap it "
            f"by net = Anchored(network, {', '.join(known)}), and call net.load(path)."
        )
    if None in (options.get("encoding"), options.get("train_anchors")):
        raise UnusableFileError(
            f"{path} needs an encoding or prior of your own: construct the network and call net.load(path)."
        )
    try:
        module = NETWORKS[name](**network["config"]).to(getattr(torch, network.get("dtype", "float32")))
        net = Anchored(module, **options).eval()
        _load_state(net, tensors, path, name)
        if net.anchors.numel():
            net(net.anchors[:1])
    except (TypeError, ValueError, RuntimeError, AttributeError, LookupError) as error:
        raise UnusableFileError(f"{path} describes no network that can be built: {error}") from None
    return net.to(map_location)


def load_into(net: Anchored, path: str | PathLike[str]) -> None:
    """Load weights and anchors into a network of the same architecture, on the network's device."""
    network, options, tensors = _read(path)
    here = _describe(net)["anchored"]
    # Files of versions without labelled anchors have no target.
    for name, there in (("target", options.get("target", "value")), ("encoding", options.get("encoding"))):
        if there != here[name] and None not in (there, here[name]):  # None: one without a name
            raise UnusableFileError(f"{path} is of {name}={there!r}, and this network has {here[name]!r}.")
    _load_state(net, tensors, path, network["name"])
    saved = options.get("average_masked", net.average_masked)
    if saved != net.average_masked:
        warnings.warn(
            f"the network of {path} was saved with average_masked={saved}, and this one has "
            f"{net.average_masked}.",
            stacklevel=3,
        )


def _describe(net: Anchored) -> dict[str, Any]:
    """Return, as plain values, how the network was constructed; None for what has no name."""
    encodings = {kind: name for name, kind in ENCODINGS.items()}
    targets = {kind: name for name, kind in TARGETS.items()}
    own = type(net.module) in NETWORKS.values()
    return {
        "anchored": {
            "n_anchors": net.n_anchors,
            "target": targets[type(net.target)],
            "encoding": encodings.get(type(net.encoding)),
            "at": net.at,
            "stem": None if net.at is not None else net.layer_name,
            "mask": net.mask,
            "mask_rows": net.mask_rows,
            "average_masked": net.average_masked,
            "train_anchors": net.train_anchors if net.train_anchors in PAIRINGS else None,
        },
        "network": {
            "name": type(net.module).__name__,
            "config": net.module.config if own else None,
            "dtype": str(net.anchored_layer.wide.weight.dtype).removeprefix("torch."),
        },
    }


def _read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Return the network's description, its options, and the tensors on the CPU, checked against the hash."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UnusableFileError(f"{path} is not a complete safetensors file: {error}.") from None
    if header.get("format") != FORMAT:
        raise UnusableFileError(f"{path} is not a file of an anchored network ({FORMAT}).")
    if header.get("sha256") != _digest(header.get("description", ""), tensors):
        raise UnusableFileError(f"{path} was altered after it was written: its hash differs.")
    match json.loads(header["description"]):
        case {"network": {"name": str()} as network, "anchored": dict() as options}:
            return network, options, tensors
    raise UnusableFileError(f"{path} does not describe an anchored network.")


def _digest(description: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the description and all tensors, in the order of their names."""
    digest = hashlib.sha256(description.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _load_state(net: Anchored, tensors: dict[str, Tensor], path: str | PathLike[str], name: str) -> None:
    """Load a state, or raise an error that names the first difference and leaves the network as it was."""
    here, there = (
        {
            key: f"{tuple(value.shape)} {value.dtype}"
            for key, value in state.items()
            if key not in ("anchors", "anchor_targets")
        }
        for state in (net.state_dict(), tensors)
    )
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            raise UnusableFileError(
                f"{path} contains a {name} of another architecture or precision: "
                f"{key!r} is {there.get(key, 'absent')} there and {here.get(key, 'absent')} here."
            )
    net.load_state_dict(tensors)
