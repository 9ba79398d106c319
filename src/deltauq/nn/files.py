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
from deltauq.nn.anchored import Anchored
from deltauq.nn.anchors import PAIRINGS
from deltauq.nn.networks import NETWORKS
from deltauq.utils.errors import InputError

FORMAT = "deltauq.nn/1"


class UnusableFileError(InputError):
    """The file is not a complete file of an anchored network, or is one of another architecture."""


def save(net: Anchored, path: str | PathLike[str]) -> None:
    """Write the weights, anchors and options of a network.

    Parameters
    ----------
    net : Anchored
    path : path
        Replaced if it exists.
    """
    state, path = net.state_dict(), Path(path)
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"the network's state {name!r} is a {type(value).__name__}, and files hold tensors only: "
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
    description, tensors = _read(path)
    network, options = description["network"], description["anchored"]
    if network["name"] not in NETWORKS or network.get("config") is None:
        known = [
            f"{name}={options[name]!r:.80}"
            for name in ("encoding", "at", "stem")
            if isinstance(options.get(name), str)
        ]
        raise UnusableFileError(
            f"{path} contains a {network['name']}, which only its own code can build: construct it, wrap it "
            f"by net = Anchored(network, {', '.join(known)}), and call net.load(path)."
        )
    if not all(isinstance(options.get(name), str) for name in ("encoding", "train_anchors")):
        raise UnusableFileError(
            f"{path} needs an encoding or prior of your own: construct the network and call net.load(path)."
        )
    try:
        dtype = getattr(torch, str(network.get("dtype", "float32")), None)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ValueError(f"there is no floating dtype {network['dtype']!r}.")
        net = Anchored(NETWORKS[network["name"]](**network["config"]).to(dtype), **options)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UnusableFileError(f"{path} describes no network that can be built: {error}") from None
    _load_state(net, tensors, path, network["name"])
    net.eval()
    try:
        if net.anchors.numel():
            net(net.anchors[:1])
    except (TypeError, ValueError, RuntimeError, IndexError):
        shape = tuple(net.anchors.shape)
        raise UnusableFileError(
            f"{path} contains anchors of shape {shape}, which its network cannot take."
        ) from None
    return net.to(map_location)


def load_into(net: Anchored, path: str | PathLike[str]) -> None:
    """Load weights and anchors into a network of the same architecture, on the network's device."""
    description, tensors = _read(path)
    options, own = description["anchored"], _describe(net)["anchored"]
    encoding = options.get("encoding")
    if encoding != own["encoding"] and None not in (encoding, own["encoding"]):  # None: one without a name
        raise UnusableFileError(
            f"{path} is of encoding={encoding!r}, and this network has {own['encoding']!r}."
        )
    _load_state(net, tensors, path, description["network"]["name"])
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
    own = type(net.module) in NETWORKS.values()
    return {
        "anchored": {
            "n_anchors": net.n_anchors,
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


def _read(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the description and the tensors of a file, on the CPU, checked against the file's own hash."""
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
    description = json.loads(header["description"])
    for part in ("network", "anchored"):
        if not isinstance(description, dict) or not isinstance(description.get(part), dict):
            raise UnusableFileError(f"{path} does not describe its {part} part.")
    if not isinstance(description["network"].get("name"), str):
        raise UnusableFileError(f"{path} does not name its network.")
    return description, tensors


def _digest(description: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the description and all tensors, in the order of their names."""
    digest = hashlib.sha256(description.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _load_state(net: Anchored, tensors: dict[str, Tensor], path: str | PathLike[str], name: str) -> None:
    """Load a state, or raise an error that names the first difference and leaves the network as it was."""
    own = net.state_dict()
    for key in sorted(own.keys() | tensors.keys()):
        here, there = own.get(key), tensors.get(key)
        # Stored anchors may have any number and shape.
        if here is None or there is None or (here.shape != there.shape and key != "anchors"):
            shapes = ["absent" if value is None else tuple(value.shape) for value in (there, here)]
            raise UnusableFileError(
                f"{path} contains a {name} of another architecture: "
                f"{key!r} is {shapes[0]} there and {shapes[1]} here."
            )
    for key in sorted(own.keys() - {"anchors"}):
        if own[key].dtype != tensors[key].dtype:
            raise UnusableFileError(
                f"{path} contains a network of another precision: {key!r} is {tensors[key].dtype} there and "
                f"{own[key].dtype} here: cast the network first."
            )
    anchors = tensors["anchors"]
    if anchors.numel() and anchors.ndim < 2:
        raise UnusableFileError(
            f"{path} contains anchors of shape {tuple(anchors.shape)}, which are not inputs."
        )
    net.load_state_dict(tensors)
