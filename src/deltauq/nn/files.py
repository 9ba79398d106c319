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
from deltauq.nn.inputs import Inputs
from deltauq.nn.networks import NETWORKS
from deltauq.nn.pairing import PAIRINGS
from deltauq.utils.errors import InputError

FORMAT = "deltauq.nn/1"


class UnusableFileError(InputError):
    """The file is no whole file of an anchored network, or is one of another architecture."""


def save(net: Anchored, path: str | PathLike[str]) -> None:
    """Write the weights and anchors of a network, with what is needed to rebuild it if it is one of ours.

    Parameters
    ----------
    net : Anchored
    path : path
        Written anew if it exists.
    """
    state = net.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(
                f"the network's state {name!r} is a {type(value).__name__}, and files hold tensors only: "
                "return a tensor from get_extra_state."
            )
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write {Path(path).name} to.")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file.")
    # Copies: tensors that share memory cannot be written.
    tensors = {name: value.detach().cpu().clone() for name, value in state.items()}
    description = json.dumps(_describe(net), sort_keys=True)
    save_file(
        {name: value.contiguous() for name, value in tensors.items()},
        path,
        metadata={
            "format": FORMAT,
            "description": description,
            "sha256": _digest(description, tensors),
        },
    )


def load(path: str | PathLike[str], map_location: str | torch.device = "cpu") -> Anchored:
    """Rebuild one of the networks of `deltauq.nn` from its file.

    For a network of your own, construct it, wrap it in `Anchored` and call `Anchored.load`.

    Parameters
    ----------
    path : path
    map_location : device, default="cpu"
        Where the network is put.

    Returns
    -------
    net : Anchored
        In ``eval()``.
    """
    description, tensors = _read(path)
    network = description["network"]
    anchored = description["anchored"]
    if network["name"] not in NETWORKS or network.get("config") is None:
        options = [
            f"{name}={anchored[name]!r:.80}"
            for name in ("encoding", "at", "stem")
            if isinstance(anchored.get(name), str)
        ]
        raise UnusableFileError(
            f"{path} holds a {network['name']}, which only its own code can build: construct it, wrap it by "
            f"net = Anchored(network, {', '.join(options)}), and call net.load(path)."
        )
    if not all(isinstance(anchored.get(word), str) for word in ("encoding", "train_anchors")):
        raise UnusableFileError(
            f"{path} holds an encoding or prior of your own: construct the network and call net.load(path)."
        )
    try:
        built = NETWORKS[network["name"]](**network["config"]).to(_dtype(network.get("dtype", "float32")))
        net = Anchored(built, **anchored)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UnusableFileError(f"{path} describes no network that can be built: {error}") from None
    _fill(net, tensors, path, description)
    net.eval()
    try:
        if net.anchors.numel():
            net._layer_input(Inputs(net.anchors[:1]))
    except (TypeError, ValueError, RuntimeError, IndexError):
        shape = tuple(net.anchors.shape)
        raise UnusableFileError(
            f"{path} holds anchors of shape {shape}, which its network cannot take."
        ) from None
    return net.to(map_location)


def load_into(net: Anchored, path: str | PathLike[str]) -> None:
    """Read weights and anchors into a network of the same architecture, on the network's device."""
    description, tensors = _read(path)
    encoding = description["anchored"].get("encoding")
    mine = _describe(net)["anchored"]["encoding"]
    if encoding != mine and None not in (encoding, mine):  # None: one without a name
        raise UnusableFileError(f"{path} is of encoding={encoding!r}, and this network has {mine!r}.")
    _fill(net, tensors, path, description)
    saved = description["anchored"].get("average_masked", net.average_masked)
    if saved != net.average_masked:
        warnings.warn(
            f"the network of {path} was saved with average_masked={saved}, and this one has "
            f"{net.average_masked}.",
            stacklevel=3,
        )


def _describe(net: Anchored) -> dict[str, Any]:
    """Return, as plain values, how the network was constructed; what has no name is left out."""
    encodings = {kind: name for name, kind in ENCODINGS.items()}
    own = type(net.module) in NETWORKS.values()
    return {
        "anchored": {
            "n_anchors": net.n_anchors,
            "encoding": encodings.get(type(net.encoding)),
            "at": net.at,
            "stem": None if net.at is not None else net.layer_name,
            "mask": net.mask,
            "mask_by": net.mask_by,
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
        raise UnusableFileError(f"{path} is no safetensors file, or not all of one: {error}.") from None
    if header.get("format") != FORMAT:
        raise UnusableFileError(f"{path} is not a file of an anchored network ({FORMAT}).")
    if header.get("sha256") != _digest(header.get("description", ""), tensors):
        raise UnusableFileError(f"{path} was altered after it was written: its hash does not fit.")
    description = json.loads(header["description"])
    for part in ("network", "anchored"):
        if not isinstance(description, dict) or not isinstance(description.get(part), dict):
            raise UnusableFileError(f"{path} does not describe its {part} part.")
    if not isinstance(description["network"].get("name"), str):
        raise UnusableFileError(f"{path} does not name its network.")
    return description, tensors


def _dtype(name: str) -> torch.dtype:
    """Return the floating dtype of that name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"there is no floating dtype {name!r}.")
    return dtype


def _digest(description: str, tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the description and all tensors, in the order of their names."""
    digest = hashlib.sha256(description.encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _fill(
    net: Anchored, tensors: dict[str, Tensor], path: str | PathLike[str], description: dict[str, Any]
) -> None:
    """Load a state, or say in one line where it differs, leaving the network as it was."""
    own = net.state_dict()
    # Stored anchors may have any number and shape.
    names = own.keys() - {"anchors"}
    missing, further = own.keys() - tensors.keys(), tensors.keys() - own.keys()
    both = names & tensors.keys()
    reshaped = {name for name in both if own[name].shape != tensors[name].shape}
    if missing or further or reshaped:
        first = min(missing | further | reshaped)
        ours = tuple(own[first].shape) if first in own else "absent"
        theirs = tuple(tensors[first].shape) if first in tensors else "absent"
        raise UnusableFileError(
            f"{path} holds a {description['network']['name']} of another architecture: "
            f"{first!r} is {theirs} there and {ours} here."
        )
    for name in sorted(both):
        if own[name].dtype != tensors[name].dtype:
            raise UnusableFileError(
                f"{path} holds a network of another precision: {name!r} is {tensors[name].dtype} there and "
                f"{own[name].dtype} here: cast the network first."
            )
    anchors = tensors["anchors"]
    if anchors.numel() and anchors.ndim < 2:
        raise UnusableFileError(f"{path} holds anchors of shape {tuple(anchors.shape)}, which are no inputs.")
    net.load_state_dict(tensors)
