"""`Anchored`: uncertainty from a single PyTorch network."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from deltauq.core import AnchorPrior, Anchors, Encoding, Posterior, Target, get_encoding, get_target
from deltauq.core.posterior import LINKS
from deltauq.core.target import TARGETS
from deltauq.nn.anchors import PAIRINGS, AnchorStore, draw, get_train_anchors, reversal
from deltauq.nn.inference import (
    SHAPE_ERRORS,
    InferencePlan,
    antisymmetric,
    evaluation_mode,
    make_plan,
    mean_over_anchors,
    posterior_over_anchors,
    targets_like,
)
from deltauq.nn.inputs import Inputs
from deltauq.nn.layer import AnchorContribution, AnchoredLayer, LayerReached, TupleAnchors
from deltauq.nn.wrapping import INITS, anchor_layer, check_calls, join_names, recorded_calls

KEYWORDS = ("anchors", "anchor_targets", "masked", "link", "keep_samples", "memory_budget", "autocast")
CHECKED_ROWS = 8
"""Inputs that show whether additional ones change what enters the anchored layer."""


class Anchored(AnchorStore):
    """A network whose input X is replaced by [R, X - R], R being an anchor.

    The spread of its outputs over anchors estimates its uncertainty. It replaces the network in any training
    loop. In ``train()`` every input is paired with another input of its batch, and the last inputs are
    stored. In ``eval()`` every input is paired with the same K stored anchors, and the output is the mean
    over them; `posterior` returns mean and variance.

    The tensor that enters one layer is anchored: the layer that takes the input, which is widened, or the one
    called `at`. All layers before it are applied to both inputs and anchors.

    Parameters
    ----------
    module : Module
        A network whose first input is a tensor of shape (n, ...). It is changed in place: pass a copy to keep
        it.
    n_anchors : int, default=10
        K, the number of stored anchors.
    target : {"value", "difference"} or Target, default="value"
        What the network learns: the target y, as in the paper; or y - y_R, its difference from the target of
        the anchor (labelled anchors). The prediction is then
        ``y_R + (g(R, X - R) - g(X, R - X)) / 2``, with the outputs g of the network, and is y_R for an input
        that is the anchor. Training needs the targets of the batch, as in ``net(x, y)``. For regression.
    encoding : {"difference", "full", "identity", "two-anchor"} or Encoding
        How an input and its anchors form a tuple; one anchor in each with ``target="difference"``.
    at : str, optional
        Name of a layer, as in ``module.named_modules()``. The tensor that enters it is anchored, through a
        projection that begins as the identity in X; only what follows is evaluated K times. For embeddings,
        heads of a backbone, and layers other than Linear and Conv.
    stem : str, optional
        Name of the Linear or Conv layer that takes the input and is widened; by default the first one that
        is registered. At most one of `at` and `stem` may be given.
    init : {"random", "pretrained"}
        Weights of the widened layer: new ones, or those it had, so that the network computes the same as
        before.
    output : str or int, optional
        Key or index of the output to predict, if the network returns a dict or a tuple. It may be set after
        training; until then all outputs are returned.
    mask : float, default=0
        Probability of masked anchors, [0, X - R], in training.
    mask_rows : bool, default=False
        Whether anchors of single rows are masked instead of those of whole batches.
    average_masked : bool, default=False
        Whether outputs in ``eval()`` are averaged over [R, X - R] and the masked [0, X - R], for a network
        that was trained with a mask. It may be set after training; calibrate again then.
    train_anchors : {"derangement", "reverse"}, prior name, AnchorPrior, Anchors or tensor
        Where anchors come from in training: from the batch, in random order or in reverse order as in the
        paper; or drawn from a prior P(R), given the batch.

    Attributes
    ----------
    anchors : tensor of shape (K, ...), or (0,) before there are any
        Stored inputs, on the device of the network and part of its state_dict.
    anchor_targets : tensor of shape (K, ...), or (0,)
        Their targets, with ``target="difference"``; also part of the state_dict.
    masked : bool tensor of shape (), or (n,)
        Whether the last training batch was masked, or which of its rows.

    Notes
    -----
    Additional inputs come after y, as in ``net(x, y, mask)``, or by keyword, as in ``net(x, mask=mask)``, and
    are passed on to the network. With ``target="difference"``, those of a row are the same where the row and
    its anchor change places. A tensor whose first dimension is the batch size is row-wise: it is repeated and
    cut along with the rows of x. Anything else is passed unchanged. A tensor that all rows share must not
    have the batch size as its first dimension, unless that is 1: make it a buffer of the network. Row-wise
    inputs may not change what enters the anchored layer, since stored anchors have none.

    In evaluation, several threads may use one network. The contribution of the anchors is computed once per
    call: few calls with many rows are faster. ``torch.manual_seed`` makes initialisation and training
    repeatable. A batch that is too small to contain an input's anchors takes them from the stored ones, or,
    if there are none, is paired with itself.
    """

    def __init__(
        self,
        module: nn.Module,
        n_anchors: int = 10,
        *,
        target: str | Target = "value",
        encoding: str | Encoding = "difference",
        at: str | None = None,
        stem: str | None = None,
        init: str = "random",
        output: str | int | None = None,
        mask: float = 0.0,
        mask_rows: bool = False,
        average_masked: bool = False,
        train_anchors: str | AnchorPrior | Anchors | Tensor = "derangement",
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
        like = next(module.parameters(), torch.empty(0))
        super().__init__(n_anchors, get_target(target), like)
        if type(self.target) not in TARGETS.values():
            raise ValueError(f"target must be one of {sorted(TARGETS)}, got {self.target}.")
        if init not in INITS:
            raise ValueError(f"init must be one of {list(INITS)}, got {init!r}.")
        if at is not None and stem is not None:
            raise ValueError("at and stem name two layers to anchor: give one of them.")
        if isinstance(output, bool) or not isinstance(output, str | int | None):
            raise TypeError(f"output must be a str or an int, got {output!r}.")
        if not isinstance(module, Anchored):
            _check_keywords(module)
        self._positional = _positional_inputs(module)
        self.masked = torch.zeros((), dtype=torch.bool, device=like.device)
        self.mask, self.mask_rows, self.average_masked = mask, mask_rows, average_masked
        self.encoding = get_encoding(encoding)
        if self.target.needs_labels and self.encoding.anchors_per_tuple > 1:
            raise ValueError(
                f'target="difference" exchanges an input and its anchor, and {self.encoding} has '
                f"{self.encoding.anchors_per_tuple} anchors in a tuple: choose an encoding with one."
            )
        self.train_anchors = get_train_anchors(train_anchors)
        self.at, self.init, self.output = at, init, output
        self.module, self.layer_name = anchor_layer(module, self.encoding, at=at, stem=stem, init=init)
        self.training = module.training
        self._copies = 1
        self._checked = False
        self._plans: dict[tuple[Any, ...], InferencePlan] = {}

    @property
    def anchored_layer(self) -> AnchoredLayer:
        """The anchored layer."""
        return cast("AnchoredLayer", self.module.get_submodule(self.layer_name))

    @property
    def mask(self) -> float:
        """Probability of masked anchors in training."""
        return self._mask

    @mask.setter
    def mask(self, mask: float) -> None:
        if not 0.0 <= mask < 1.0:
            raise ValueError(f"mask must be a probability below 1, got {mask}.")
        self._mask = float(mask)  # NumPy and PyTorch have numbers that a file cannot contain
        if not mask:
            self.masked = torch.zeros((), dtype=torch.bool, device=self.masked.device)

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        *args: Any,
        anchors: Tensor | None = None,
        anchor_targets: Tensor | None = None,
        masked: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return outputs under one anchor per input in ``train()``, their mean over anchors in ``eval()``.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Inputs.
        y : tensor of shape (n, ...), optional
            Targets of the inputs, which are those of the anchors that are drawn from them. Needed in
            ``train()`` with ``target="difference"``, and ignored otherwise.
        *args, **kwargs
            Additional inputs of the network, passed through; see the notes of the class.
        anchors : int tensor of shape (e, n), or tensor of shape (e, n, ...), optional
            The e anchors of each input's tuple, as rows of this batch or as inputs. Outputs are then those
            under these anchors, in either mode, and nothing is stored.
        anchor_targets : tensor of shape (e, n, ...), optional
            With `anchors` and ``target="difference"``: the targets of these anchors. For rows of this batch,
            they are by default those in y.
        masked : bool tensor of shape () or (n,), optional
            With `anchors`: whether they are masked, all of them or row by row.

        Returns
        -------
        outputs : tensor of shape (n, ...)
        """
        if torch.compiler.is_exporting():
            raise RuntimeError(
                "torch.export cannot trace an Anchored network: export deltauq.nn.AnchorPredictor(net), "
                "which returns mean and standard deviation, or write ONNX by deltauq.export.export_onnx."
            )
        self._check_rows(x, "inputs")
        if y is not None and not self.target.needs_labels:
            self._check_no_input_forgotten(args, kwargs)
        inputs = Inputs(x, args, kwargs)
        if anchors is not None:
            return self._outputs(inputs, *self._given_anchors(x, y, anchors, anchor_targets), masked)
        if self.training:
            if self.target.needs_labels:
                y = self._checked_targets(
                    y, len(x), 'target="difference" needs the targets of a training batch: call net(x, y).'
                )
            outputs = self._outputs(inputs, *self._draw_anchors(x, y), self._draw_mask(x))
            last = x.shape[0] // self._copies
            self._store_last(x[:last], y[:last] if y is not None and self.target.needs_labels else None)
            return outputs
        stored, targets = self._stored(x)
        return mean_over_anchors(self._passes(inputs, stored, targets), len(stored))

    def posterior(
        self,
        x: Tensor,
        *args: Any,
        link: str | None = None,
        keep_samples: bool = False,
        memory_budget: int | None = None,
        autocast: torch.dtype | None = None,
        **kwargs: Any,
    ) -> Posterior:
        """Return mean and variance of the outputs over the stored anchors.

        Layers are in evaluation mode, whatever the mode of the network. Gradients flow to x if it requires
        them.

        Parameters
        ----------
        x : tensor of shape (n, ...)
            Inputs.
        *args, **kwargs
            Additional inputs of the network, passed through; see the notes of the class.
        link : {"sigmoid", "softmax"}, optional
            Also return mean and variance of ``link(output)``.
        keep_samples : bool, default=False
            Also return the output under every anchor, of shape (K, n, ...).
        memory_budget : int, optional
            Bytes of activations in one pass: by default 64 MiB on a CPU, 2 GiB elsewhere.
        autocast : torch.dtype, optional
            Lower precision for the passes, such as ``torch.bfloat16``; moments are computed in float32.

        Returns
        -------
        posterior : Posterior
        """
        if self.anchors.numel() == 0:
            raise ValueError("there are no anchors yet: train the network or call set_anchors.")
        self._check_rows(x, "inputs")
        if memory_budget is not None and (not isinstance(memory_budget, int) or memory_budget < 1):
            raise ValueError(f"memory_budget must be a whole number of bytes, got {memory_budget!r}.")
        for value in args:
            if isinstance(value, str) and value in LINKS:
                raise TypeError(f"link is a keyword: write link={value!r}.")
        if self.anchors.shape[0] < 2:
            raise ValueError("one anchor has no variance: store at least two; eval() returns the mean alone.")
        precision = nullcontext() if autocast is None else torch.autocast(x.device.type, autocast)
        graph = torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad)
        with evaluation_mode(self), graph, precision:
            stored, targets = self._stored(x)
            passes = self._passes(Inputs(x, args, kwargs), stored, targets, memory_budget)
            return posterior_over_anchors(passes, len(stored), link, keep_samples)

    @torch.no_grad()
    def check(self, x: Tensor, *args: Any, **kwargs: Any) -> None:
        """Check on some inputs whether the right layer is anchored, by a pass that changes nothing.

        The first pass of a network does so anyway, uncompiled. Call this before a compiled training step.
        """
        self._check_rows(x, "inputs")
        if not self._checked:
            rows = reversal(x.shape[0], self.encoding.anchors_per_tuple, x.device)
            with evaluation_mode(self.module, _NormBase):
                self._call_module(Inputs(x, args, kwargs), TupleAnchors(rows))

    @contextmanager
    def repeated_batches(self, copies: int) -> Iterator[None]:
        """Expect training batches that are repeated, one copy after the other.

        Copies of an input are then paired with different anchors, and one copy of the batch is stored.
        """
        self._copies = copies
        try:
            yield
        finally:
            self._copies = 1

    def save(self, path: str | PathLike[str]) -> None:
        """Write weights, buffers, anchors and options to a safetensors file, replacing it if it exists.

        The file does not contain the code of the network: `deltauq.nn.load` rebuilds the networks of
        `deltauq.nn`; for others, construct the network and call `Anchored.load`.
        """
        from deltauq.nn.files import save

        save(self, path)

    def load(self, path: str | PathLike[str]) -> None:
        """Load weights, buffers and anchors that a network of the same architecture has saved.

        Construct the network as before, with the same `target`, `encoding` and `at` or `stem`. A file of
        another architecture raises an error, and leaves this network as it was. The other options are not
        loaded: give them again. A different `average_masked` raises a warning. Tensors are moved to this
        network's device, and its mode stays: call ``eval()`` to predict.
        """
        from deltauq.nn.files import load_into

        load_into(self, path)

    def extra_repr(self) -> str:
        """Return the options of this network."""
        place = f"at={self.at!r}" if self.at is not None else f"stem={self.layer_name!r}"
        output = "" if self.output is None else f", output={self.output!r}"
        mask = ""
        if self.mask or self.average_masked:
            mask = f", mask={self.mask}, mask_rows={self.mask_rows}, average_masked={self.average_masked}"
        target = ", target='difference'" if self.target.needs_labels else ""
        return f"n_anchors={self.n_anchors}{target}, encoding={self.encoding}, {place}{output}{mask}"

    def _check_no_input_forgotten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Raise an error if y may be meant for another input of the network."""
        names = self._positional[len(args) :]
        if any(name not in kwargs for name in names):
            raise TypeError(
                "the second argument of an anchored network is y, and this one also takes "
                f"{join_names([repr(name) for name in self._positional])}: write net(x, None, ...), or pass "
                "additional inputs by keyword."
            )

    def _given_anchors(
        self, x: Tensor, y: Tensor | None, anchors: Tensor, anchor_targets: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the anchors that the caller passed, and their targets if they are needed."""
        n, per_tuple = x.shape[0], self.encoding.anchors_per_tuple
        if anchors.ndim == 0 or anchors.shape[0] != per_tuple:
            raise ValueError(
                f"{self.encoding} takes {per_tuple} anchor(s) a tuple, "
                f"got anchors of shape {tuple(anchors.shape)}."
            )
        is_rows = anchors.ndim == 2
        is_index = not (anchors.is_floating_point() or anchors.dtype == torch.bool)
        if anchors.shape[1:] != ((n,) if is_rows else x.shape) or (is_rows and not is_index):
            raise ValueError(
                f"anchors must be rows of the batch, integers of shape (e, {n}), or inputs of shape "
                f"(e, {', '.join(map(str, x.shape))}), got {anchors.dtype} of shape {tuple(anchors.shape)}."
            )
        if not self.target.needs_labels:
            return anchors, None
        if is_rows and anchor_targets is None:
            y = self._checked_targets(y, n, "anchors that are rows of the batch need its targets: pass y.")
            return anchors, y[anchors[0]]
        if anchor_targets is not None and anchor_targets.shape[:1] != (1,):
            raise ValueError(
                f"anchor_targets must have shape (1, {n}, ...), got {tuple(anchor_targets.shape)}."
            )
        targets = self._checked_targets(
            None if anchor_targets is None else anchor_targets[0],
            n,
            "anchors that are inputs need their targets: pass anchor_targets.",
        )
        return anchors, targets

    def _draw_anchors(self, x: Tensor, y: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the anchors of a training batch, as in `forward`, and their targets if they are needed."""
        n, per_tuple = x.shape[0], self.encoding.anchors_per_tuple
        y = y if self.target.needs_labels else None
        if isinstance(self.train_anchors, AnchorPrior):
            rng = np.random.default_rng(int(torch.randint(2**62, ())))
            batch = Anchors(x.detach(), y)
            drawn = [draw(self.train_anchors, batch, n, rng) for _ in range(per_tuple)]
            return torch.stack([anchors for anchors, _ in drawn]), drawn[0][1]
        if n // self._copies <= per_tuple and self.anchors.shape[1:] == x.shape[1:]:
            rows = torch.randint(self.anchors.shape[0], (per_tuple, n), device=x.device)
            return self.anchors[rows], None if y is None else self.anchor_targets[rows[0]]
        copies = self._copies if n % self._copies == 0 else 1
        rows = torch.stack(PAIRINGS[self.train_anchors](n, per_tuple, x.device, copies))
        return rows, None if y is None else y[rows[0]]

    def _draw_mask(self, x: Tensor) -> Tensor | None:
        """Return whether the anchors of a training batch are masked; None without a mask."""
        if not self.mask:
            return None
        self.masked = torch.rand((x.shape[0],) if self.mask_rows else (), device=x.device) < self.mask
        return self.masked

    def _outputs(
        self, inputs: Inputs, anchors: Tensor, targets: Tensor | None, masked: Tensor | None
    ) -> Tensor:
        """Return the outputs for inputs under one tuple each; see `forward`."""
        n = inputs.x.shape[0]
        if masked is not None and not (
            isinstance(masked, Tensor) and masked.dtype == torch.bool and masked.shape in ((), (n,))
        ):
            raise ValueError(f"masked must be a bool tensor of shape () or ({n},), got {masked!r:.60}.")
        if targets is None:
            each = anchors.unbind()
            if anchors.ndim > 2:
                each = self._layer_inputs(inputs, each)
            return self._call_module(inputs, TupleAnchors(each, masked))
        if n == 1:
            inputs = inputs.with_rows_of_one()
        outputs = self._both_directions(
            inputs, inputs.x[anchors[0]] if anchors.ndim == 2 else anchors[0], masked
        )
        correction = antisymmetric(*outputs.chunk(2))
        return targets_like(targets, correction) + correction

    def _both_directions(self, inputs: Inputs, anchors: Tensor, masked: Tensor | None) -> Tensor:
        """Return g(R, X - R) of all n pairs, then g(X, R - X), of shape (2 * n, ...).

        The anchors are inputs of the network as well, so that what it carries past the anchored layer is also
        exchanged. Additional inputs stay those of the row.
        """
        n = inputs.x.shape[0]
        both = replace(inputs.repeat(2, x_too=False), x=torch.cat([inputs.x, anchors]))
        swapped = torch.arange(2 * n, device=anchors.device).roll(n)
        masked = masked.repeat(2) if masked is not None and masked.ndim else masked
        outputs = self._call_module(both, TupleAnchors((swapped,), masked))
        check_tensor(outputs, 'target="difference"')
        self._check_n_outputs(outputs, 2 * n)
        return outputs

    def _passes(
        self, inputs: Inputs, anchors: Tensor, targets: Tensor | None, memory_budget: int | None = None
    ) -> Iterator[tuple[int, Tensor, AnchorContribution]]:
        """Yield, for blocks of anchors and blocks of rows, the number of the block of rows and the outputs.

        Anchors are the outer loop, so that each contribution is computed once and only one is in memory. All
        anchors are in one block if they fit, so that what precedes the anchored layer is computed once per
        input.
        """
        plan = self._plan(inputs, anchors, targets)
        inputs = replace(inputs, row_wise=plan.row_wise)
        pairs = plan.batch_pairs(memory_budget, anchors.device)
        rows = inputs.split(max(1, pairs // len(anchors)))
        at_most = min(len(anchors), pairs)
        for contribution in self._contributions(inputs, anchors, targets, at_most, plan.repeated):
            for block, part in enumerate(rows):
                yield block, self.outputs_under(part, contribution), contribution

    @torch.compiler.disable
    def _plan(self, inputs: Inputs, anchors: Tensor, targets: Tensor | None) -> InferencePlan:
        """Return how to evaluate the network with these anchors."""
        # One input, or one anchor, works where several do not: such a plan is valid for no other case.
        several = inputs.x.shape[0] > 1
        key = (inputs.signature(), several, anchors.shape[0] > 1, self.average_masked, self.output)
        if key not in self._plans:
            self._check_additional_inputs(inputs)
            try:
                plan = self._make_plan(inputs, anchors, targets)
            except SHAPE_ERRORS:
                single = inputs.with_rows_of_one()
                if several or not single.row_wise:
                    raise
                plan = self._make_plan(single, anchors, targets)  # this network does not broadcast
            self._plans[key] = plan
        return self._plans[key]

    def _make_plan(self, inputs: Inputs, anchors: Tensor, targets: Tensor | None) -> InferencePlan:
        targets = None if targets is None else targets[:2]
        # Rounding would make the two ways of evaluation differ.
        with torch.autocast(inputs.x.device.type, enabled=False):
            contribution = next(self._contributions(inputs, anchors[:2], targets, 2))
            return make_plan(self.outputs_under, self.module, inputs, contribution)

    def _contributions(
        self, inputs: Inputs, anchors: Tensor, targets: Tensor | None, at_most: int, repeated: bool = False
    ) -> Iterator[AnchorContribution]:
        """Yield what the anchors contribute to the anchored layer, at most this many at a time."""
        if self.average_masked and not self.mask:
            raise ValueError(
                "average_masked=True masks anchors, and this network has no mask: if it was trained with "
                "one, set it, as in net.mask = 0.25."
            )
        blocks = self.encoding.tuples(anchors)
        for k, part in enumerate(zip(*(block.split(at_most) for block in blocks), strict=True)):
            contribution = self._contribution(inputs, part, targets is not None)
            if targets is not None:
                own = targets[k * at_most : (k + 1) * at_most]
                contribution = replace(contribution, anchors=part[0], targets=own)
            yield replace(contribution, repeated=repeated)

    @torch.compiler.disable
    def _contribution(
        self, inputs: Inputs, anchors: tuple[Tensor, ...], swapped_too: bool
    ) -> AnchorContribution:
        return self.anchored_layer.contribution(
            self._layer_inputs(inputs, anchors), masked_too=self.average_masked, swapped_too=swapped_too
        )

    def anchor_contribution(self, inputs: Inputs) -> AnchorContribution:
        """Return what the stored anchors contribute to the anchored layer, for inputs like these."""
        anchors, targets = self._stored(inputs.x)
        plan = self._plan(inputs, anchors, targets)
        return next(self._contributions(inputs, anchors, targets, len(anchors), plan.repeated))

    def _layer_inputs(self, inputs: Inputs, anchors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """Return anchors as they enter the anchored layer, without the additional inputs of any row."""
        return tuple(self._layer_input(inputs.for_anchors(each)) for each in anchors)

    def _layer_input(self, inputs: Inputs) -> Tensor:
        """Return inputs as they enter the anchored layer; norms do not learn from them."""
        try:
            with evaluation_mode(self.module, _NormBase), self.anchored_layer.use_anchors("stop"):
                self.module(inputs.x, *inputs.args, **inputs.kwargs)
        except LayerReached as reached:
            (entering,) = reached.args
            return entering
        raise ValueError(
            f"the pass ended without reaching the anchored layer {self.layer_name!r}: "
            "name another by stem= or at=."
        )

    def _check_additional_inputs(self, inputs: Inputs) -> None:
        """Raise an error if row-wise additional inputs change what enters the anchored layer."""
        if not inputs.row_wise:
            return
        inputs = inputs.rows(0, CHECKED_ROWS)
        others = inputs.replace(inputs.x, lambda tensor: (tensor == 0).to(tensor.dtype))
        with torch.no_grad(), evaluation_mode(self):
            entering, changed = self._layer_input(inputs), self._layer_input(others)
        if entering.shape != changed.shape or not torch.allclose(entering, changed, equal_nan=True):
            raise ValueError(
                f"additional inputs change what enters the anchored layer {self.layer_name!r}, and stored "
                "anchors have none: name the layer that the first input enters by stem= or at=, or make them "
                "part of the first input."
            )

    def outputs_under(self, inputs: Inputs, contribution: AnchorContribution) -> Tensor:
        """Return the outputs for all pairs of inputs and anchors, of shape (n_variants * k * n, ...)."""
        k, n = len(contribution), inputs.x.shape[0]
        n_outputs = contribution.n_variants * k * n
        if contribution.repeated and contribution.anchors is not None:
            pairs = torch.arange(n_outputs // 2, device=inputs.x.device)
            rows = inputs.repeat(contribution.n_variants // 2 * k)
            # Those behind the first k * n are masked.
            outputs = self._both_directions(rows, contribution.anchors[pairs // n % k], pairs >= k * n)
        else:
            rows = inputs.repeat(contribution.n_variants * k, x_too=contribution.repeated)
            outputs = self._call_module(rows, contribution)
        check_tensor(outputs, "the mean over anchors")
        self._check_n_outputs(outputs, n_outputs)
        return outputs

    def _check_n_outputs(self, outputs: Tensor, n: int) -> None:
        if outputs.ndim == 0 or outputs.shape[0] != n:
            raise ValueError(
                f"the network returned shape {tuple(outputs.shape)} for {n} rows of inputs under "
                "anchors: its first axis must be theirs."
            )

    def _call_module(self, inputs: Inputs, anchors: TupleAnchors | AnchorContribution) -> Tensor:
        """Return the outputs of the network with these anchors at the anchored layer."""
        if not self._checked:
            return self._checked_call(inputs, anchors)
        with self.anchored_layer.use_anchors(anchors):
            outputs = self.module(inputs.x, *inputs.args, **inputs.kwargs)
        return outputs if self.output is None else _selected(outputs, self.output)

    @torch.compiler.disable
    def _checked_call(self, inputs: Inputs, anchors: TupleAnchors | AnchorContribution) -> Tensor:
        """Call the network, and check once whether the right layer is anchored."""
        self._checked = True
        try:
            with recorded_calls(self.module) as calls:
                outputs = self._call_module(inputs, anchors)
            check_calls(calls, self.layer_name, inputs.x.shape[0])
            self._check_additional_inputs(inputs)
        except BaseException:
            self._checked = False
            raise
        return outputs


def _selected(outputs: Any, name: str | int) -> Tensor:
    """Return one of several outputs."""
    if isinstance(outputs, Tensor):
        raise ValueError(f"the network returns one tensor: leave out output={name!r}.")
    try:
        selected = outputs[name]
    except (LookupError, TypeError):
        raise ValueError(f"output={name!r} names no output of the network: {_names_of(outputs)}.") from None
    if not isinstance(selected, Tensor):
        raise TypeError(f"output={name!r} must name a tensor, got {type(selected).__name__}.")
    return selected


def check_tensor(outputs: Any, where: str) -> None:
    """Raise an error for several outputs where one tensor is needed."""
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"{where} needs a network that returns a tensor, got {type(outputs).__name__}. "
            f"Name one of its outputs by output=: {_names_of(outputs)}."
        )


def _check_keywords(module: nn.Module) -> None:
    """Raise an error for a network that has an input with the name of a keyword of `Anchored`."""
    for name in list(inspect.signature(module.forward).parameters)[1:]:
        if name in KEYWORDS:
            raise ValueError(f"{name!r} is a keyword of Anchored: rename this input of the network.")


def _positional_inputs(module: nn.Module) -> list[str]:
    """Return the names of the positional inputs of a network after its first."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(module.forward).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind in kinds][1:]


def _names_of(outputs: Any) -> str:
    """Return the names of the outputs of a network, as one line."""
    if isinstance(outputs, tuple | list):
        outputs = range(len(outputs))
    return join_names([repr(name) for name in outputs] if isinstance(outputs, Mapping | range) else [])
