"""Files of anchored networks: safetensors with the architecture as JSON in the header, never a pickle."""

from __future__ import annotations

import hashlib
import json
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from deltauq.core.encoding import ENCODINGS
from deltauq.nn.anchored import IN_BATCH, Anchored
from deltauq.nn.networks import NETWORKS

FORMAT = "deltauq.nn/1"


class UnusableFileError(ValueError):
    """The file is no whole file of an anchored network, or is one of another architecture."""


def save(net: Anchored, path: str | PathLike[str]) -> None:
    """Write the weights and anchors of a network, with what is needed to rebuild it if it is one of ours.

    Parameters
    ----------
    net : Anchored
    path : path
        Written anew if it exists.
    """
    # Copies: tensors that share memory cannot be written.
    tensors = {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}
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
    """Rebuild a network from its file.

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
    if network["name"] not in NETWORKS or network["config"] is None:
        raise UnusableFileError(
            f"{path} holds a {network['name']}, which only its own code can build: construct it, wrap it in "
            "Anchored, and call net.load(path)."
        )
    anchored = description["anchored"]
    if not all(isinstance(anchored[word], str) for word in ("encoding", "train_anchors")):
        raise UnusableFileError(
            f"{path} holds an encoding or prior of your own: construct the network and call net.load(path)."
        )
    net = Anchored(NETWORKS[network["name"]](**network["config"]), **anchored)
    _fill(net, tensors, path, description)
    return net.to(map_location).eval()


def load_into(net: Anchored, path: str | PathLike[str]) -> None:
    """Read weights and anchors into a network of the same architecture, on the network's device."""
    description, tensors = _read(path)
    _fill(net, tensors, path, description)


def _describe(net: Anchored) -> dict[str, Any]:
    """Return, as plain values, how the network was constructed; what has no name is left out."""
    encodings = {kind: name for name, kind in ENCODINGS.items()}
    own = type(net.module) in NETWORKS.values()
    return {
        "anchored": {
            "n_anchors": net.n_anchors,
            "encoding": encodings.get(type(net.encoding)),
            "at": net.at,
            "stem": None if net.at is not None else net.site_name,
            "mask": net.mask,
            "train_anchors": net.train_anchors if net.train_anchors in IN_BATCH else None,
        },
        "network": {
            "name": type(net.module).__name__,
            "config": net.module.config if own else None,
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
    return json.loads(header["description"]), tensors


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
    missing, further = names - tensors.keys(), tensors.keys() - own.keys()
    reshaped = {name for name in names & tensors.keys() if own[name].shape != tensors[name].shape}
    if missing or further or reshaped:
        first = min(missing | further | reshaped)
        ours = tuple(own[first].shape) if first in own else "absent"
        theirs = tuple(tensors[first].shape) if first in tensors else "absent"
        raise UnusableFileError(
            f"{path} holds a {description['network']['name']} of another architecture: "
            f"{first!r} is {theirs} there and {ours} here."
        )
    net.load_state_dict(tensors)
