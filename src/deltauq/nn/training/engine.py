"""Trains one network, on a CPU, a GPU or several of either. Runs can be resumed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from deltauq.core import AnchorPrior, ValueTarget
from deltauq.nn.anchored import CHECKED_ROWS, Anchored, check_tensor
from deltauq.nn.losses import squared_error
from deltauq.nn.training.loader import Batch, BatchPairing, Epochs, Objective, derive_seed
from deltauq.nn.training.recipe import Recipe, set_rate
from deltauq.nn.training.steps import AnchorMonitor, GraphedStep


@dataclass
class History:
    """Mean loss and seconds of every epoch of a run, including those before a checkpoint."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def supervised(criterion: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """Return the plain objective: a criterion between outputs and targets.

    An anchored network gets the anchors of the batch, so that a run does not depend on the number of devices.
    """

    def objective(net: nn.Module, batch: Batch) -> Tensor:
        args = (batch.x, batch.y) if batch.labelled else (batch.x,)
        if batch.anchors is None:
            return criterion(net(*args), batch.y)
        keywords = {"anchor_targets": batch.anchor_targets} if batch.labelled else {}
        return criterion(net(*args, anchors=batch.anchors, masked=batch.masked, **keywords), batch.y)

    return objective


def criterion_for(y: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the criterion for these targets: cross-entropy for integers, squared error for floats."""
    if not y.is_floating_point() and y.numel():
        if y.ndim == 2:
            raise ValueError(f"integers that name classes must have shape (n,), got {tuple(y.shape)}.")
        if int(y.min()) < 0:
            raise ValueError(f"integers that name classes must not be negative, got {int(y.min())}.")
    loss = squared_error if y.is_floating_point() else nn.functional.cross_entropy

    def criterion(outputs: Tensor, targets: Tensor) -> Tensor:
        check_tensor(outputs, "the training engine")
        return loss(outputs, targets)

    return criterion


def fit(
    net: nn.Module,
    x: Tensor,
    y: Tensor,
    recipe: Recipe,
    objective: Objective | None = None,
    *,
    fabric: Fabric | None = None,
    normalize: tuple[Tensor, Tensor] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> History:
    """Train a network in place.

    Parameters
    ----------
    net : Module
        A network of one input; write your own training loop for one of several. It is moved to Fabric's
        device. An `Anchored` one stores inputs of the training data as its anchors in the end, unless
        `set_anchors` was called. Its own mask is used if the recipe has none.
    x : tensor of shape (n, ...)
        Inputs: floats, or uint8 images, which are divided by 255. Copied to the device once.
    y : tensor of shape (n, ...)
        Targets: floats, or integers that name classes.
    recipe : Recipe
        How to train.
    objective : callable, optional
        Cross-entropy for integer targets, squared error otherwise. A GPU records a step once and replays it,
        unless the objective lets an anchored network draw its own anchors instead of the batch's.
    fabric : Fabric, optional
        Several devices or another strategy; its own precision is then used. By default one device: a GPU
        where there is one.
    normalize : (mean, std), tensors of shape (channels,), optional
        Mean and standard deviation by which x is standardised.
    checkpoint : path, optional
        File that is written after every `checkpoint_every` epochs. If it exists, the run is resumed from it;
        a file of another recipe, dataset or network raises an error.
    checkpoint_every : int, default=1
        Epochs between checkpoints.
    progress : callable, optional
        Called with the number of finished epochs and the loss of the last one.

    Returns
    -------
    history : History
    """
    y = check_data(x, y)
    if objective is None:
        objective = supervised(criterion_for(y))
    if not (isinstance(checkpoint_every, int) and checkpoint_every >= 1):
        raise ValueError(f"checkpoint_every must be an integer of at least 1, got {checkpoint_every!r}.")
    recipe = replace(recipe, mask=_mask_of(net, recipe))
    fabric = fabric or Fabric(accelerator="auto", devices=1, precision=recipe.precision)  # type: ignore[arg-type]
    device = fabric.device
    if recipe.channels_last:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.to(device)
    graphed = device.type == "cuda" and fabric.world_size == 1 and can_be_graphed(net, recipe)
    optimizer = recipe.make_optimizer(net.parameters(), graphed=graphed)
    compiled: Any = torch.compile(net) if recipe.compile else net
    module, optimizer = fabric.setup(compiled, optimizer)
    epochs = Epochs(x.to(device), y.to(device), recipe, BatchPairing.from_network(net), normalize)
    drop_last = recipe.drop_last or graphed or fabric.world_size > 1
    history = History()
    state = {"net": module, "optimizer": optimizer}
    description: dict[str, Any] = {}
    if checkpoint is not None:
        options = asdict(recipe)
        if isinstance(net, Anchored):
            options.update(mask_rows=net.mask_rows, train_anchors=repr(net.train_anchors))
            options.update(target=repr(net.target))
        description = {"recipe": options, "data": _hash_of(x, y, *(normalize or ()))}
        history = _resume(fabric, Path(checkpoint), state, description, net)

    def step(batch: Batch) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = objective(module, batch)
        fabric.backward(loss)
        optimizer.step()
        return loss.detach()

    run_step: Callable[[Batch], Tensor] = step
    if graphed:
        run_step = GraphedStep(step, AnchorMonitor(module) if isinstance(net, Anchored) else None)
    # The random state outside stays as it was.
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []), ExitStack() as stack:
        if isinstance(net, Anchored):
            # For objectives that let the network draw its own anchors.
            stack.callback(setattr, net, "mask", net.mask)
            net.mask = recipe.mask
        if isinstance(net, Anchored) and fabric.world_size == 1:
            # In the first step itself, the check would run other code than later steps, and round otherwise.
            module.train()
            inputs, dtype = epochs.inputs(CHECKED_ROWS), net.anchored_layer.wide.weight.dtype
            net.check(inputs.to(dtype) if inputs.is_floating_point() else inputs)
        for epoch in range(len(history.losses), recipe.epochs):
            started = time.perf_counter()
            torch.manual_seed(derive_seed(recipe.seed, epoch))
            module.train()
            batches = epochs.batches(epoch, drop_last=drop_last)
            # Summed on the device: reading the loss of every step would make the CPU wait for each of them.
            exact = torch.float32 if device.type == "mps" else torch.float64
            total, rows = torch.zeros((), device=device, dtype=exact), 0
            for k, batch in enumerate(batches):
                set_rate(optimizer, recipe.rate(epoch + k / len(batches)))
                n = len(batch.x)
                total += n * run_step(share_of(batch, fabric.global_rank, fabric.world_size))
                rows += n
            loss = float(fabric.all_reduce(total / rows, reduce_op="mean"))  # type: ignore[arg-type]
            history.losses.append(loss)
            history.seconds.append(time.perf_counter() - started)
            if checkpoint is not None and ((epoch + 1) % checkpoint_every == 0 or epoch + 1 == recipe.epochs):
                _save(fabric, Path(checkpoint), {**state, **description, "history": asdict(history)})
            if progress is not None:
                progress(epoch + 1, loss)
    finish(net, epochs.inputs(), epochs.y, recipe.seed)
    return history


def check_data(x: Tensor, y: Tensor) -> Tensor:
    """Raise an error unless x and y are training data, and return y: floats as they are, classes as int64."""
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(value).__name__}.")
    if len(x) != len(y) or len(x) == 0:
        raise ValueError(f"x and y must have equally many rows, at least one, got {len(x)} and {len(y)}.")
    if y.dtype == torch.bool or y.is_complex():
        raise ValueError(f"y must be floats, or integers that name classes, got {y.dtype}.")
    return y if y.is_floating_point() else y.long()


def can_be_graphed(net: nn.Module, recipe: Recipe) -> bool:
    """Return whether a step may be recorded: not with a prior, which draws anchors by NumPy in each step."""
    return recipe.graph and not isinstance(getattr(net, "train_anchors", None), AnchorPrior)


def finish(net: nn.Module, inputs: Tensor, targets: Tensor, seed: int) -> None:
    """Set a trained network to evaluation, and store anchors in an anchored one unless some were set.

    They are drawn from the training inputs and targets, of shape (n, ...). The next training replaces them.
    """
    if isinstance(net, Anchored) and not net.anchors_are_set:
        net.set_anchors(inputs, targets, random_state=seed)
        net.anchors_are_set = False
    net.eval()


def share_of(batch: Batch, rank: int, world_size: int) -> Batch:
    """Return one device's equal share of a batch.

    Every device prepares the whole batch, so that anchors may be rows of another's share: the pairs of a step
    are the same for any number of devices.
    """
    if world_size == 1:
        return batch
    n, left = divmod(len(batch.x), world_size)
    if left:
        raise ValueError(f"{len(batch.x)} rows of a batch cannot be shared equally by {world_size} devices.")
    own = slice(rank * n, (rank + 1) * n)
    anchors, targets = None, None
    if batch.anchors is not None:
        anchors = batch.x[batch.anchors[:, own]]
        targets = batch.y[batch.anchors[:, own]] if batch.labelled else None
    masked = batch.masked[own] if batch.masked.ndim else batch.masked
    return Batch(batch.x[own], batch.y[own], anchors, masked, targets, batch.labelled)


def _mask_of(net: nn.Module, recipe: Recipe) -> float:
    """Return the probability of masked anchors, given by the recipe or the network."""
    if not isinstance(net, Anchored) or not net.mask:
        return recipe.mask
    if recipe.mask not in (0.0, net.mask):
        raise ValueError(f"the recipe has mask={recipe.mask}, but the network mask={net.mask}: give one.")
    return net.mask


def _hash_of(*tensors: Tensor) -> str:
    """Return a hash of the shapes, dtypes and values of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _save(fabric: Fabric, path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint under another name first: a run killed while writing keeps the last complete one."""
    temporary = path.with_name(path.name + ".new")
    fabric.save(temporary, content)
    if fabric.is_global_zero:
        os.replace(temporary, path)
    fabric.barrier()


def _resume(
    fabric: Fabric, path: Path, state: dict[str, Any], description: dict[str, Any], net: nn.Module
) -> History:
    """Load a checkpoint if there is one, and return the history up to it; errors change nothing."""
    if not path.exists():
        return History()
    try:
        content = fabric.load(path, weights_only=True)
    except Exception as error:  # PyTorch raises almost anything at a damaged file
        raise ValueError(f"{path} is not a valid checkpoint.") from error
    try:
        # Checkpoints of versions without labelled anchors have no target.
        recipe = {"target": repr(ValueTarget()), **content["recipe"]}
        data, history = content["data"], History(**content["history"])
        shapes = _shapes(content["net"])
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a valid checkpoint.") from error
    different = sorted(key for key, value in description["recipe"].items() if recipe.get(key) != value)
    if different:
        raise ValueError(f"{path} is a checkpoint of another recipe: {', '.join(different)} differ.")
    if data != description["data"]:
        raise ValueError(f"{path} is a checkpoint of a run on other data.")
    if shapes != _shapes(net.state_dict()):
        raise ValueError(f"{path} is a checkpoint of another network.")
    fabric.load(path, state, weights_only=True)
    for group in state["optimizer"].param_groups:
        if isinstance(group["lr"], Tensor):
            # Loaded to the CPU: a CUDA graph would read it there once, and never see it change.
            group["lr"] = group["lr"].to(fabric.device)
    return history


def _shapes(weights: dict[str, Any]) -> dict[str, torch.Size | None]:
    """Return the shapes of a state_dict, except those of anchors, which any network may have."""
    return {
        name: getattr(value, "shape", None)
        for name, value in weights.items()
        if not name.endswith(("anchors", "anchor_targets"))
    }
