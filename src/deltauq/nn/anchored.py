"""`Anchored`: uncertainty from a single PyTorch network."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deltauq.core import AnchorPrior, Encoding, Posterior, get_encoding
from deltauq.core.posterior import LINKS
from deltauq.nn._inference import (
    MISFITS,
    Plan,
    Shares,
    check_budget,
    evaluating,
    make_plan,
    mean_over_anchors,
    norms_evaluating,
    posterior_over_anchors,
)
from deltauq.nn._inputs import Inputs
from deltauq.nn._masking import Masking
from deltauq.nn._pairing import (
    IN_BATCH,
    AnchorShare,
    Pairing,
    Reached,
    StopHere,
    WithEvery,
    WithGiven,
    WithinBatch,
    get_train_anchors,
    reversal,
)
from deltauq.nn._site import Site
from deltauq.nn._store import AnchorStore
from deltauq.nn._surgery import INITS, anchor_entry, anchor_stem, some
from deltauq.nn._trace import check_calls, recorded_calls

CHECKED_ROWS = 8
"""Inputs that show whether further ones change what enters the anchored layer."""


class Anchored(Masking, AnchorStore):
    """A network that sees [R, X - R] instead of X, and says how far its outputs depend on the anchor R.

    It stands in any training loop where the network stood. In ``train()`` every input meets one anchor,
    another input of its batch, and the last inputs are kept. In ``eval()`` every input meets the same K
    stored anchors, and the output is the mean over them; `posterior` gives mean and variance.

    What is anchored is the tensor that enters one layer: the layer that takes the input, which is widened, or
    the one called `at`, which gets a projection in front of it. Whatever the network does before that layer
    (flattening, scaling, Fourier features, a frozen backbone) is done to inputs and anchors alike.

    Parameters
    ----------
    module : Module
        A network whose first input is a tensor of shape (n, ...). It is changed in place: give a copy to keep
        it.
    n_anchors : int, default=10
        K, the anchors that are kept.
    encoding : {"difference", "identity", "two-anchor"} or Encoding
    at : str, optional
        Name of a layer, as in ``module.named_modules()``: anchor the tensor that enters it, through a
        projection in front of it that begins as the identity in X. Inference then takes K passes only of what
        follows. For embeddings, heads of a backbone, and layers other than Linear and Conv.
    stem : str, optional
        Name of the Linear or Conv layer that takes the input and is widened, where it is not the first one
        registered in ``__init__``. At most one of `at` and `stem` may be given.
    init : {"random", "pretrained"}
        Weights of the widened layer: new ones, or those it had, in every block, so that the network
        computes what it computed before.
    output : str or int, optional
        Key or index of the output to predict, where the network returns a dict or a tuple; the Anchored
        network then returns this one alone. It may be set after training, which sees all of them until then.
    mask : float, default=0
        Probability of [0, X - R] in training, the anchors hidden.
    mask_by : {"batch", "row"}
        Hide the anchors of whole batches, or those of single rows.
    reading : {"shown", "both"}
        How a tuple is read in ``eval()``: as [R, X - R]; or also with its anchor hidden, which a network that
        was trained with a mask has learnt, and the outputs are the means of the two. It may be set after
        training; what was fitted to outputs of one reading does not hold for the other.
    train_anchors : {"derangement", "reverse"}, prior name, AnchorPrior or tensor
        Where anchors come from in training: from the batch, in random order without meeting themselves, or in
        reverse order as in the paper; or drawn from a prior P(R), given the batch.

    Attributes
    ----------
    anchors : tensor of shape (K, ...), or (0,) before there are any
        Stored inputs, on the device of the network and part of its state_dict.
    masked : bool tensor of shape (), or (n,)
        Whether the last training batch was masked, or which of its rows.

    Notes
    -----
    Further inputs, as in ``net(x, mask)`` or ``net(x, mask=mask)``, are passed on to the network; only x is
    anchored. A tensor whose first dimension is the batch size is row-wise: it is repeated and cut along with
    the rows of x. Anything else is passed unchanged. A tensor that all rows share must not have the batch
    size as its first dimension, unless that is 1: make it a buffer of the network. Stored anchors are first
    inputs alone, so row-wise inputs may not change what enters the anchored layer.

    Once in evaluation, a network may be used by several threads. What the anchors contribute to the anchored
    layer is computed anew in every call, once for all of its inputs: few calls with many rows are cheaper.

    Randomness is PyTorch's: ``torch.manual_seed`` makes initialisation and training repeatable. A batch too
    small to hold an input's anchors takes them from the stored ones, or, if there are none, meets itself.
    """

    def __init__(
        self,
        module: nn.Module,
        n_anchors: int = 10,
        *,
        encoding: str | Encoding = "difference",
        at: str | None = None,
        stem: str | None = None,
        init: str = "random",
        output: str | int | None = None,
        mask: float = 0.0,
        mask_by: str = "batch",
        reading: str = "shown",
        train_anchors: str | AnchorPrior | Tensor = "derangement",
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}.")
        like = next(module.parameters(), torch.empty(0))
        super().__init__(n_anchors, like)
        if init not in INITS:
            raise ValueError(f"init must be one of {list(INITS)}, got {init!r}.")
        if at is not None and stem is not None:
            raise ValueError("at and stem name two places to anchor: give one of them.")
        if isinstance(output, bool) or not isinstance(output, str | int | None):
            raise TypeError(f"output must be a str or an int, got {output!r}.")
        if not isinstance(module, Anchored):
            _check_keywords(module)
        self.mask, self.mask_by, self.reading = mask, mask_by, reading
        self.encoding = get_encoding(encoding)
        self.train_anchors = get_train_anchors(train_anchors)
        self.at, self.init, self.output = at, init, output
        if at is None:
            self.module, self.site_name = anchor_stem(module, self.encoding, stem, init)
        else:
            self.module, self.site_name = anchor_entry(module, self.encoding, at)
        self.training = module.training
        self.masked = torch.zeros((), dtype=torch.bool, device=like.device)
        self._copies = 1
        self._checked = False
        self._plans: dict[tuple[Any, ...], Plan] = {}

    @property
    def site(self) -> Site:
        """The anchored layer."""
        site = self.module.get_submodule(self.site_name)
        assert isinstance(site, Site)
        return site

    def forward(
        self,
        x: Tensor,
        *args: Any,
        anchors: Tensor | None = None,
        masked: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Return outputs under one anchor per input in ``train()``, their mean over anchors in ``eval()``.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        *args, **kwargs
            Further inputs of the network, passed through; see the notes of the class.
        anchors : int tensor of shape (e, n), or tensor of shape (e, n, ...), optional
            The e anchors of each input's tuple, for those who pair inputs themselves: as rows of this batch,
            or as inputs. In either mode outputs are then those under these anchors, and nothing is
            remembered.
        masked : bool tensor of shape () or (n,), optional
            With `anchors`: whether they are hidden, all of them or row by row.

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
        inputs = Inputs(x, args, kwargs)
        if anchors is not None:
            return self._through(inputs, self._given_pairing(inputs, anchors, masked))
        if self.training:
            outputs = self._through(inputs, self._train_pairing(inputs))
            self._remember(x[: x.shape[0] // self._copies])
            return outputs
        anchors = self._stored(x)
        plan = self._plan(inputs, anchors)
        inputs = replace(inputs, row_wise=plan.row_wise)
        shares = self._shares(inputs, anchors)
        return mean_over_anchors(self._run, plan, inputs, len(anchors), shares, plan.pairs(None, x.device))

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

        Layers are in evaluation mode, whatever the mode of the network. Gradients flow to x where it requires
        them; otherwise none are kept.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        *args, **kwargs
            Further inputs of the network, passed through; see the notes of the class.
        link : {"sigmoid", "softmax"}, optional
            Also return the moments behind this link.
        keep_samples : bool, default=False
            Also return the output under every anchor, of shape (K, n, ...).
        memory_budget : int, optional
            Bytes of activations in one pass: by default 64 MiB on a CPU, 2 GiB elsewhere.
        autocast : torch.dtype, optional
            Lower precision for the passes, such as ``torch.bfloat16``; moments are taken in float32.

        Returns
        -------
        posterior : Posterior
        """
        if self.anchors.numel() == 0:
            raise ValueError("there are no anchors yet: train the network, or give some to set_anchors.")
        self._check_rows(x, "inputs")
        check_budget(memory_budget)
        for value in args:
            if isinstance(value, str) and value in LINKS:
                raise TypeError(f"link is a keyword: write link={value!r}.")
        if self.anchors.shape[0] < 2:
            raise ValueError(
                "one anchor has no variance: keep at least two; the mean alone is what eval() gives."
            )
        lower = nullcontext() if autocast is None else torch.autocast(x.device.type, autocast)
        graph = torch.set_grad_enabled(torch.is_grad_enabled() and x.requires_grad)
        with evaluating(self), graph, lower:
            inputs, anchors = Inputs(x, args, kwargs), self._stored(x)
            plan = self._plan(inputs, anchors)
            inputs = replace(inputs, row_wise=plan.row_wise)
            shares = self._shares(inputs, anchors)
            pairs = plan.pairs(memory_budget, x.device)
            return posterior_over_anchors(
                self._run, plan, inputs, len(anchors), shares, pairs, link=link, keep_samples=keep_samples
            )

    @torch.no_grad()
    def check(self, x: Tensor, *args: Any, **kwargs: Any) -> None:
        """See whether the right layer is anchored, by a pass that learns nothing.

        The first pass of a network does so anyway, and a compiler has to leave that one alone. Those who
        compile their training step may want it to be over before.

        Parameters
        ----------
        x : tensor of shape (n, ...)
        *args, **kwargs
            Further inputs of the network.
        """
        self._check_rows(x, "inputs")
        if not self._checked:
            with norms_evaluating(self.module):
                self._through(
                    Inputs(x, args, kwargs),
                    WithinBatch(reversal(x.shape[0], self.encoding.n_anchors, x.device)),
                )

    @contextmanager
    def seeing_copies(self, copies: int) -> Iterator[None]:
        """Say that training batches come this many times over, one copy after the other.

        Copies of an input then meet different anchors, and one copy of the batch is remembered.
        """
        self._copies = copies
        try:
            yield
        finally:
            self._copies = 1

    def save(self, path: str | PathLike[str]) -> None:
        """Write weights, buffers and anchors to a safetensors file, with the options of this network.

        The code of the network is not in it: `deltauq.nn.load` rebuilds the networks of `deltauq.nn`, and
        `Anchored.load` reads the file into a network that you have constructed.

        Parameters
        ----------
        path : path
            Written anew if it exists.
        """
        from deltauq.nn.files import save

        save(self, path)

    def load(self, path: str | PathLike[str]) -> None:
        """Read weights, buffers and anchors that a network of the same architecture has saved.

        Construct the network as it was constructed before: the same module, wrapped with the same `encoding`
        and the same `at` or `stem`. What differs is refused, and leaves this network as it was. All other
        options (`output`, `mask`, `mask_by`, `reading`, `train_anchors`, `n_anchors`) are not read: give them
        again. Another `reading` than the file's is warned of.

        Tensors are moved to this network's device, and its mode stays: call ``eval()`` to predict. Nothing is
        unpickled, and the file's own hash is checked.

        Parameters
        ----------
        path : path
            Of a file that `save` has written.
        """
        from deltauq.nn.files import load_into

        load_into(self, path)

    def extra_repr(self) -> str:
        """Name what sets this network apart."""
        place = f"at={self.at!r}" if self.at is not None else f"stem={self.site_name!r}"
        output = "" if self.output is None else f", output={self.output!r}"
        masks = bool(self.mask) or self.reading != "shown"
        mask = f", mask={self.mask}, mask_by={self.mask_by!r}, reading={self.reading!r}" if masks else ""
        return f"n_anchors={self.n_anchors}, encoding={self.encoding}, {place}{output}{mask}"

    def _given_pairing(self, inputs: Inputs, anchors: Tensor, masked: Tensor | None) -> Pairing:
        """Return the pairing that the caller asks for."""
        n = inputs.x.shape[0]
        if anchors.ndim == 0 or anchors.shape[0] != self.encoding.n_anchors:
            raise ValueError(
                f"{self.encoding} takes {self.encoding.n_anchors} anchor(s) a tuple, "
                f"got anchors of shape {tuple(anchors.shape)}."
            )
        if masked is not None and not (
            isinstance(masked, Tensor) and masked.dtype == torch.bool and masked.shape in ((), (n,))
        ):
            raise ValueError(f"masked must be a bool tensor of shape () or ({n},), got {masked!r:.60}.")
        if anchors.ndim > 2:
            return WithGiven(self._all_reaching(inputs, anchors.unbind()), masked)
        if anchors.is_floating_point() or anchors.dtype == torch.bool or anchors.shape[1:] != (n,):
            raise ValueError(
                f"anchors must be rows of the batch, integers of shape (e, {n}), or inputs, e for each "
                f"row, got {anchors.dtype} of shape {tuple(anchors.shape)}."
            )
        return WithinBatch(anchors.unbind(), masked)

    def _train_pairing(self, inputs: Inputs) -> Pairing:
        """Return which anchors a training batch meets."""
        x = inputs.x
        n, n_sources = x.shape[0], self.encoding.n_anchors
        masked = self._draw_mask(n, x.device)
        if isinstance(self.train_anchors, AnchorPrior):
            rng = np.random.default_rng(int(torch.randint(2**62, ())))
            priors = [self.train_anchors] * n_sources
            # A prior may hold tensors of its own, of another device or precision.
            drawn = tuple(torch.as_tensor(prior.draw(x.detach(), n, rng)).to(x) for prior in priors)
        elif n // self._copies <= n_sources and self.anchors.shape[1:] == x.shape[1:]:
            rows = torch.randint(self.anchors.shape[0], (n_sources, n), device=x.device)
            drawn = tuple(self.anchors[k] for k in rows)
        else:
            copies = self._copies if n % self._copies == 0 else 1
            return WithinBatch(IN_BATCH[self.train_anchors](n, n_sources, x.device, copies), masked)
        return WithGiven(self._all_reaching(inputs, drawn), masked)

    @torch.compiler.disable
    def _plan(self, inputs: Inputs, anchors: Tensor) -> Plan:
        """Return how to run the network with these anchors."""
        # One input, or one anchor, bears what several do not: a plan made for it is good for no other.
        several = inputs.x.shape[0] > 1
        key = (inputs.signature(), several, anchors.shape[0] > 1, self.reading, self.output)
        if key not in self._plans:
            self._check_further_inputs(inputs)
            try:
                plan = self._tried(inputs, anchors)
            except MISFITS:
                of_one = inputs.with_rows_of_one()
                if several or not of_one.has_row_wise():
                    raise
                plan = self._tried(of_one, anchors)  # not broadcast by this network
            self._plans[key] = plan
        return self._plans[key]

    def _tried(self, inputs: Inputs, anchors: Tensor) -> Plan:
        """Return how to run the network, from passes of a few inputs with one anchor or two."""
        two = next(self._shares(inputs, anchors[:2])(2))
        return make_plan(self._run, self.module, inputs, two)

    def _shares(self, inputs: Inputs, anchors: Tensor) -> Shares:
        """Return a way to compute what the anchors contribute to the anchored layer, some at a time."""
        blocks, hidden_too = self.encoding.tuples(anchors), self._reads_hidden()

        def shares(at_most: int) -> Iterator[AnchorShare]:
            for part in zip(*(block.split(at_most) for block in blocks), strict=True):
                yield self._share(inputs, part, hidden_too)

        return shares

    @torch.compiler.disable
    def _share(self, inputs: Inputs, blocks: tuple[Tensor, ...], hidden_too: bool) -> AnchorShare:
        """Return what some tuples of anchors contribute to the anchored layer."""
        return self.site.anchor_share(self._all_reaching(inputs, blocks), hidden_too)

    def _all_reaching(self, inputs: Inputs, blocks: Iterable[Tensor]) -> tuple[Tensor, ...]:
        """Return anchors as they reach the anchored layer, without the further inputs of any row."""
        return tuple(self._reaching(inputs.for_anchors(block)) for block in blocks)

    def _reaching(self, inputs: Inputs) -> Tensor:
        """Return inputs as they reach the anchored layer; normalisations learn nothing from them."""
        current = self.site.current
        current.pairing = StopHere()
        try:
            with norms_evaluating(self.module):
                self.module(inputs.x, *inputs.args, **inputs.kwargs)
        except Reached as reached:
            return reached.tensor
        finally:
            current.pairing = None
        raise ValueError(
            f"the pass ended without reaching the anchored layer {self.site_name!r}: "
            "name another by stem= or at=."
        )

    def _check_further_inputs(self, inputs: Inputs) -> None:
        """Refuse row-wise further inputs that change what enters the anchored layer: anchors have none."""
        if not inputs.has_row_wise():
            return
        inputs = inputs.rows(0, CHECKED_ROWS)
        others = inputs.replace(inputs.x, lambda tensor: (tensor == 0).to(tensor.dtype))
        with torch.no_grad(), evaluating(self):
            entering, changed = self._reaching(inputs), self._reaching(others)
        if entering.shape != changed.shape or not torch.allclose(entering, changed, equal_nan=True):
            raise ValueError(
                f"further inputs change what enters the anchored layer {self.site_name!r}, and stored "
                "anchors have none: name the layer that the first input enters by stem= or at=, or make them "
                "part of the first input."
            )

    def _run(self, inputs: Inputs, share: AnchorShare, repeated: bool) -> Tensor:
        """Return the outputs for all pairs of inputs and anchors, of shape (n_readings * k * n, ...)."""
        k, n = share.part.shape[0], inputs.x.shape[0]
        outputs = self._through(inputs.repeat(k, x_too=repeated), WithEvery(share, repeated))
        check_tensor(outputs, "the mean over anchors")
        if outputs.ndim == 0 or outputs.shape[0] != k * n:
            raise ValueError(
                f"the network returned shape {tuple(outputs.shape)} for {k * n} rows of inputs under "
                "anchors: its first axis must be theirs."
            )
        return outputs

    def _through(self, inputs: Inputs, pairing: Pairing) -> Tensor:
        """Run the network with this pairing at the anchored layer."""
        if not self._checked:
            return self._through_checked(inputs, pairing)
        current = self.site.current
        current.pairing = pairing
        try:
            outputs = self.module(inputs.x, *inputs.args, **inputs.kwargs)
        finally:
            current.pairing = None
        return outputs if self.output is None else _selected(outputs, self.output)

    @torch.compiler.disable
    def _through_checked(self, inputs: Inputs, pairing: Pairing) -> Tensor:
        """Run the network, and see for once whether the right layer is anchored."""
        self._checked = True
        try:
            with recorded_calls(self.module) as calls:
                outputs = self._through(inputs, pairing)
            check_calls(calls, self.site_name, inputs.x.shape[0])
            self._check_further_inputs(inputs)
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
    """Refuse several outputs where one tensor is needed."""
    if not isinstance(outputs, Tensor):
        raise TypeError(
            f"{where} needs a network that returns a tensor, got {type(outputs).__name__}. "
            f"Name one of its outputs by output=: {_names_of(outputs)}."
        )


def _check_keywords(module: nn.Module) -> None:
    """Refuse a network with a further input of the name of a keyword of `Anchored`, which would hide it."""
    own = [
        p.name
        for method in (Anchored.forward, Anchored.posterior)
        for p in inspect.signature(method).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    ]
    for name in list(inspect.signature(module.forward).parameters)[1:]:
        if name in own:
            raise ValueError(f"{name!r} is a keyword of Anchored: rename this input of the network.")


def _names_of(outputs: Any) -> str:
    """Return what the outputs of a network are called, as one line."""
    if isinstance(outputs, Mapping):
        return some([repr(name) for name in outputs])
    if isinstance(outputs, tuple | list):
        return some([str(k) for k in range(len(outputs))])
    return f"none in a {type(outputs).__name__}, which is no dict, tuple or list"
