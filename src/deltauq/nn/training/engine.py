"""Trains one network: on a CPU, a GPU or several of either, resumable, with a step that wastes little."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from deltauq.core import AnchorPrior
from deltauq.nn.anchored import Anchored, check_tensor
from deltauq.nn.inputs import check_one_input
from deltauq.nn.losses import squared_error
from deltauq.nn.pairing import PAIRINGS
from deltauq.nn.training.loader import Batch, Epochs, Objective, derive_seed
from deltauq.nn.training.recipe import Recipe, set_rate
from deltauq.nn.training.steps import GraphedStep, PairingWatch, Step

CHECKED_ROWS = 8
"""Inputs that show whether the right layer of a network is anchored."""


@dataclass
class History:
    """What a run went through.

    Attributes
    ----------
    losses : list of float
        Mean loss of every epoch.
    seconds : list of float
        Time of every epoch; those before a checkpoint that was resumed included.
    """

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


def supervised(criterion: Callable[[Tensor, Tensor], Tensor]) -> Objective:
    """Return the plain objective: a criterion between outputs and targets.

    An anchored network meets the anchors of the batch as `Batch` says, so that a run does not depend on how
    many devices it is spread over.
    """

    def objective(net: nn.Module, batch: Batch) -> Tensor:
        if batch.anchors is None:
            return criterion(net(batch.x), batch.y)
        return criterion(net(batch.x, anchors=batch.anchors, masked=batch.masked), batch.y)

    return objective


def criterion_for(y: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the criterion of these targets: cross-entropy for integers, squared error for floats."""
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
    normalise: tuple[Tensor, Tensor] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 1,
    after_step: Callable[[Batch], None] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> History:
    """Train a network in place.

    Parameters
    ----------
    net : Module
        Of one input; a network of several needs a training loop of your own. Moved to Fabric's device. An
        `Anchored` one keeps inputs of the training data as its anchors in the
        end, unless `set_anchors` was called; its own mask counts where the recipe has none.
    x : tensor of shape (n, ...)
        See `Epochs`. Copied to the device once, and kept there for the length of the run.
    y : tensor of shape (n, ...)
    recipe : Recipe
    objective : callable, optional
        Cross-entropy for integer targets, squared error otherwise. A GPU records a step once and replays it,
        unless the objective lets an anchored network draw its own anchors instead of the batch's.
    fabric : Fabric, optional
        For several devices or another strategy; its own precision then counts. By default one device: a GPU
        where there is one.
    normalise : (mean, std), tensors of shape (channels,), optional
    checkpoint : path, optional
        Written after every `checkpoint_every` epochs. A file of the same recipe, data and network is resumed
        from; any other is refused.
    after_step : callable, optional
        Told the batch after each step: for statistics that are no parameters. Such runs are not graphed.
    progress : callable, optional
        Told the number of finished epochs and the loss of the last one.

    Returns
    -------
    history : History
    """
    y = check_data(x, y)
    if objective is None or isinstance(net, Anchored):
        check_one_input(net, "the training engine")
    if objective is None:
        check_labels(y)
        objective = supervised(criterion_for(y))
    if not (isinstance(checkpoint_every, int) and checkpoint_every >= 1):
        raise ValueError(f"checkpoint_every must be an integer of at least 1, got {checkpoint_every!r}.")
    recipe = replace(recipe, mask=mask_of(net, recipe))
    fabric = fabric or Fabric(accelerator="auto", devices=1, precision=recipe.precision)  # type: ignore[arg-type]
    device = fabric.device
    if recipe.channels_last:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    net.to(device)
    graphed = device.type == "cuda" and fabric.world_size == 1 and after_step is None
    graphed = graphed and can_be_graphed(net, recipe)
    optimizer = recipe.make_optimizer(net.parameters(), graphed=graphed)
    compiled: Any = torch.compile(net) if recipe.compile else net
    module, optimizer = fabric.setup(compiled, optimizer)
    epochs = _epochs_for(net, x.to(device), y.to(device), recipe, normalise)
    drop_last = recipe.drop_last or graphed or fabric.world_size > 1
    history = History()
    state = {"net": module, "optimizer": optimizer}
    about: dict[str, Any] = {}
    if checkpoint is not None:
        about = {
            "recipe": {**asdict(recipe), **pairing_words(net)},
            "data": fingerprint(x, y, *(normalise or ())),
        }
        history = _resume(fabric, Path(checkpoint), state, about, net)

    step: Any = Step(fabric, module, optimizer, objective)
    if graphed:
        step = GraphedStep(step, PairingWatch(module) if isinstance(net, Anchored) else None)
    with _own_randomness(device), _masking(net, recipe.mask):
        if isinstance(net, Anchored) and fabric.world_size == 1:
            module.train()
            _check_ahead(net, epochs.inputs(CHECKED_ROWS))
        for epoch in range(len(history.losses), recipe.epochs):
            started = time.perf_counter()
            torch.manual_seed(derive_seed(recipe.seed, epoch))
            module.train()
            loss = _run_epoch(step, epochs, epoch, optimizer, recipe, drop_last, fabric, after_step)
            history.losses.append(loss)
            history.seconds.append(time.perf_counter() - started)
            if checkpoint is not None and ((epoch + 1) % checkpoint_every == 0 or epoch + 1 == recipe.epochs):
                _save(fabric, Path(checkpoint), {**state, **about, "history": asdict(history)})
            if progress is not None:
                progress(epoch + 1, loss)
    if isinstance(net, Anchored):
        keep_anchors(net, epochs.inputs(), recipe.seed)
    net.eval()
    return history


def check_data(x: Tensor, y: Tensor) -> Tensor:
    """Refuse what is no training data, and return the targets: floats as they are, classes as int64."""
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(value).__name__}.")
        if value.ndim == 0:
            raise ValueError(f"{name} must have rows, got a single number.")
    if y.dtype == torch.bool or y.is_complex():
        raise ValueError(f"y must be floats, or integers that name classes, got {y.dtype}.")
    return y if y.is_floating_point() else y.long()


def check_labels(y: Tensor) -> None:
    """Refuse integers that cross-entropy does not take for classes."""
    if y.is_floating_point() or y.numel() == 0:
        return
    if y.ndim == 2:
        raise ValueError(f"integers that name classes must have shape (n,), got {tuple(y.shape)}.")
    if int(y.min()) < 0:
        raise ValueError(f"integers that name classes must not be negative, got {int(y.min())}.")


def mask_of(net: nn.Module, recipe: Recipe) -> float:
    """Return the probability of hidden anchors, which the recipe or the network says."""
    if not isinstance(net, Anchored) or not net.mask:
        return recipe.mask
    if recipe.mask not in (0.0, net.mask):
        raise ValueError(f"the recipe has mask={recipe.mask}, but the network mask={net.mask}: give one.")
    return net.mask


def pairing_words(net: nn.Module) -> dict[str, str]:
    """Return what an anchored network says about its training that its weights do not show."""
    if not isinstance(net, Anchored):
        return {}
    anchors = net.train_anchors
    return {
        "mask_by": net.mask_by,
        "train_anchors": anchors if isinstance(anchors, str) else type(anchors).__name__,
    }


def can_be_graphed(net: nn.Module, recipe: Recipe) -> bool:
    """Tell whether a step may be recorded: not with a prior, which draws with NumPy in every step anew."""
    return recipe.graph and not isinstance(getattr(net, "train_anchors", None), AnchorPrior)


def keep_anchors(net: Anchored, inputs: Tensor, seed: int) -> None:
    """Give a trained network anchors out of its training inputs of shape (n, ...), unless it has some set.

    The next training replaces them.
    """
    if not net.anchors_are_set:
        net.set_anchors(inputs, random_state=seed, fixed=False)


def _check_ahead(net: Anchored, inputs: Tensor) -> None:
    """See before the first step whether the right layer is anchored.

    In the step itself it would be seen by other code than all later steps run, and round otherwise.
    """
    dtype = next(net.anchored_layer.parameters()).dtype
    net.check(inputs.to(dtype) if inputs.is_floating_point() else inputs)


def _run_epoch(
    step: Any,
    epochs: Epochs,
    epoch: int,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    drop_last: bool,
    fabric: Fabric,
    after_step: Callable[[Batch], None] | None,
) -> float:
    """Take the steps of an epoch and return its mean loss."""
    n_steps = epochs.steps(drop_last=drop_last)
    # Summed on the device: asking for the loss of every step would make the CPU wait for each of them.
    exact = torch.float32 if fabric.device.type == "mps" else torch.float64
    total, rows = torch.zeros((), device=fabric.device, dtype=exact), 0
    for k, batch in enumerate(epochs.batches(epoch, drop_last=drop_last)):
        set_rate(optimizer, recipe.rate(epoch + k / n_steps))
        n = len(batch.x)
        total += n * step(share_of(batch, fabric.global_rank, fabric.world_size))
        rows += n
        if after_step is not None:
            after_step(batch)
    mean = fabric.all_reduce(total / rows, reduce_op="mean")
    assert isinstance(mean, Tensor)
    return float(mean)


def share_of(batch: Batch, rank: int, world_size: int) -> Batch:
    """Return one device's equal share of a batch; its anchors may be rows of another's.

    Every device prepares the whole batch, so that the anchors can be looked up where they are needed: the
    pairs of a step are the same however many devices there are.
    """
    if world_size == 1:
        return batch
    n, left = divmod(len(batch.x), world_size)
    if left:
        raise ValueError(f"{len(batch.x)} rows of a batch cannot be shared equally by {world_size} devices.")
    mine = slice(rank * n, (rank + 1) * n)
    anchors = None if batch.anchors is None else batch.x[batch.anchors[:, mine]]
    masked = batch.masked[mine] if batch.masked.ndim else batch.masked
    return Batch(batch.x[mine], batch.y[mine], anchors, masked)


def _epochs_for(
    net: nn.Module, x: Tensor, y: Tensor, recipe: Recipe, normalise: tuple[Tensor, Tensor] | None
) -> Epochs:
    """Return the epochs, with anchors drawn for a network that takes them from its batch."""
    if isinstance(net, Anchored) and isinstance(net.train_anchors, str) and net.train_anchors in PAIRINGS:
        return Epochs(
            x,
            y,
            recipe,
            n_sources=net.encoding.n_anchors,
            reverse=net.train_anchors == "reverse",
            mask_rows=net.mask_by == "row",
            normalise=normalise,
        )
    return Epochs(x, y, recipe, n_sources=0, normalise=normalise)


@contextmanager
def _own_randomness(device: torch.device) -> Iterator[None]:
    """Leave the random state outside as it was."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def _masking(net: nn.Module, mask: float) -> Iterator[None]:
    """Let an anchored network mask this often where it pairs a batch by itself."""
    if not isinstance(net, Anchored):
        yield
        return
    before, net.mask = net.mask, mask
    try:
        yield
    finally:
        net.mask = before


def fingerprint(*tensors: Tensor) -> str:
    """Return a hash of the shapes, kinds and values of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _save(fabric: Fabric, path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint under another name first: a run killed while writing leaves the last one whole."""
    beside = path.with_name(path.name + ".new")
    fabric.save(beside, content)
    if fabric.is_global_zero:
        os.replace(beside, path)
    fabric.barrier()


def _resume(
    fabric: Fabric, path: Path, state: dict[str, Any], about: dict[str, Any], net: nn.Module
) -> History:
    """Load a checkpoint if there is one, and return the history up to it.

    A file that is refused has changed nothing.
    """
    if not path.exists():
        return History()
    unreadable = (OSError, EOFError, RuntimeError, LookupError, TypeError, ValueError, AttributeError)
    try:
        found = fabric.load(path, weights_only=True)
        recipe, data, history = found["recipe"], found["data"], History(**found["history"])
        shapes = _shapes(found["net"])
    except (*unreadable, pickle.UnpicklingError) as error:
        raise ValueError(f"{path} is no checkpoint of a training run, or a damaged one.") from error
    different = sorted(key for key, value in about["recipe"].items() if recipe.get(key) != value)
    if different:
        raise ValueError(f"{path} is a checkpoint of another recipe: {', '.join(different)} differ.")
    if data != about["data"]:
        raise ValueError(f"{path} is a checkpoint of a run on other data.")
    if shapes != _shapes(net.state_dict()):
        raise ValueError(f"{path} is a checkpoint of another network.")
    fabric.load(path, state, weights_only=True)
    for group in state["optimizer"].param_groups:
        if isinstance(group["lr"], Tensor):
            # It was loaded to the CPU: a CUDA graph would read it there once, and never see it change.
            group["lr"] = group["lr"].to(fabric.device)
    return history


def _shapes(weights: dict[str, Any]) -> dict[str, torch.Size | None]:
    """Return the shapes of what a network holds, but for anchors, which have one only once there are some."""
    return {
        name: getattr(value, "shape", None) for name, value in weights.items() if not name.endswith("anchors")
    }
