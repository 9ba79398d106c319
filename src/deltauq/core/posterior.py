"""Mean and variance over anchors, computed one anchor at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from deltauq.core.encoding import Array
from deltauq.utils.formatting import short_repr


def sigmoid(logits: Array) -> Array:
    """Return 1 / (1 + exp(-logits)), without overflow."""
    xp = array_namespace(logits)
    return 0.5 + 0.5 * xp.tanh(0.5 * logits)


def softmax(logits: Array) -> Array:
    """Return the softmax over the last axis."""
    xp = array_namespace(logits)
    exps = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    return exps / xp.sum(exps, axis=-1, keepdims=True)


LINKS: dict[str, Callable[[Array], Array]] = {"sigmoid": sigmoid, "softmax": softmax}


class Moments:
    """Streaming mean and population variance (Welford), elementwise over arrays of one shape.

    Values are added one at a time, so that the result does not depend on how they are divided into blocks.
    """

    def __init__(self) -> None:
        self.count = 0
        self._mean: Array = None
        self._m2: Array = None

    def update(self, value: Array, times: int = 1) -> None:
        """Add a value `times` times."""
        self.count += times
        if self._mean is None:
            xp = array_namespace(value)
            # A copy that gradients flow through.
            self._mean = 1 * value
            self._m2 = xp.zeros_like(value)
            return
        delta = value - self._mean
        self._mean = self._mean + times * delta / self.count
        self._m2 = self._m2 + times * delta * (value - self._mean)

    @property
    def mean(self) -> Array:
        """Mean of the values."""
        self._require_values()
        return self._mean

    @property
    def var(self) -> Array:
        """Population variance (1/K) of the values."""
        self._require_values()
        return self._m2 / self.count

    def _require_values(self) -> None:
        if self.count == 0:
            raise ValueError("no value was added: at least one anchor is needed.")


@dataclass(frozen=True)
class Posterior:
    """Mean and variance over K anchors of the outputs for n inputs.

    Attributes
    ----------
    mean : array of shape (n, ...)
        Mean over anchors of the raw outputs.
    var : array of shape (n, ...)
        Population variance (1/K) over anchors of the raw outputs.
    link_mean, link_var : arrays of shape (n, ...) or None
        The same moments of ``link(output)``, if a link was given.
    samples : array of shape (K, n, ...) or None
        The raw outputs, if they were kept.
    link : {"sigmoid", "softmax"} or None
    """

    mean: Array
    var: Array
    link_mean: Array | None = None
    link_var: Array | None = None
    samples: Array | None = None
    link: str | None = None

    __repr__ = short_repr

    @property
    def variance(self) -> Array:
        """The variance, as BoTorch and GPyTorch call it."""
        return self.var

    @property
    def std(self) -> Array:
        """Standard deviation over anchors, of shape (n, ...)."""
        xp: Any = array_namespace(self.var)
        return xp.sqrt(self.var)


class StreamingPosterior:
    """Computes a `Posterior` from the outputs under one anchor at a time.

    Parameters
    ----------
    link : {"sigmoid", "softmax"} or None
        Also compute the moments of this function of the outputs.
    keep_samples : bool, default=False
        Whether to keep every output; memory then grows with K.
    """

    def __init__(self, link: str | None = None, keep_samples: bool = False) -> None:
        if link is not None and link not in LINKS:
            raise ValueError(f"link must be one of {sorted(LINKS)} or None, got {link!r}.")
        self._link = link
        self._raw = Moments()
        self._linked = Moments()
        self._samples: list[Array] | None = [] if keep_samples else None

    def update(self, output: Array, times: int = 1) -> None:
        """Add the output under one anchor, of shape (n, ...), or under `times` equal ones."""
        self._raw.update(output, times)
        if self._link is not None:
            self._linked.update(LINKS[self._link](output), times)
        if self._samples is not None:
            self._samples.extend([output] * times)

    def posterior(self) -> Posterior:
        """Return the posterior over the anchors so far."""
        mean, var = self._raw.mean, self._raw.var
        samples = None
        if self._samples is not None:
            samples = array_namespace(mean).stack(self._samples)
        if self._link is None:
            return Posterior(mean, var, samples=samples)
        return Posterior(mean, var, self._linked.mean, self._linked.var, samples, self._link)
