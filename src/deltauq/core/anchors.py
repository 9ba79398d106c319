"""Anchor priors P(R), the distributions that anchors are drawn from.

Random numbers always come from NumPy, so that a seed gives the same anchors for every array library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array

from deltauq.core.encoding import Array, as_float

MAX_CLUSTERS = 512


def draw_rows(n_rows: int, n: int, rng: np.random.Generator, weights: np.ndarray | None = None) -> np.ndarray:
    """Draw row indices, each as often as any other up to one draw.

    Systematic sampling: n equally spaced positions on the cumulative weights, from a random start.
    A row is drawn floor or ceil of n * w_i / sum(w) times, so that a row of weight 2 is equivalent to two
    equal rows next to each other.

    Parameters
    ----------
    n_rows : int
        Number of rows to draw from.
    n : int
        Number of draws.
    rng : numpy.random.Generator
    weights : array of shape (n_rows,), optional
        Weights of the rows.

    Returns
    -------
    rows : int array of shape (n,), in random order
    """
    start = rng.random()
    order = rng.permutation(n)
    positions = (np.arange(n) + start) / n
    if weights is None:
        # Exact, unlike cumulative weights, which are rounded.
        rows = np.floor(positions * n_rows).astype(np.intp)
    else:
        cumulative = np.cumsum(weights, dtype=np.float64)
        rows = np.searchsorted(cumulative, positions * cumulative[-1], side="right")
    return np.minimum(rows, n_rows - 1)[order]


def take_rows(x: Array, rows: np.ndarray) -> Array:
    """Return the rows of x, of shape (len(rows), ...), on x's device."""
    xp = array_namespace(x)
    if is_numpy_array(x):
        return x[rows]
    return xp.take(x, xp.asarray(rows, device=device(x)), axis=0)


class AnchorPrior:
    """A distribution of anchors, which may depend on the training data."""

    def support(self, x: Array) -> int | None:
        """Return the largest number of different anchors, or None if it is infinite."""
        return None

    def draw(
        self,
        x: Array,
        n: int,
        rng: np.random.Generator,
        *,
        labels: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Array:
        """Draw n anchors.

        Parameters
        ----------
        x : array of shape (n_rows, ...)
            Training inputs.
        n : int
            Number of anchors.
        rng : numpy.random.Generator
        labels : array of shape (n_rows,), optional
            Class of each row, or a stratum of its target.
        weights : array of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        anchors : array of shape (n, ...)
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DataPrior(AnchorPrior):
    """Anchors are rows of the training data, P(R) = P(X), as in the paper."""

    def support(self, x: Array) -> int | None:
        """Return the number of training rows."""
        return int(x.shape[0])

    def draw(
        self, x: Array, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Array:
        """Draw n training rows; see `AnchorPrior.draw`."""
        return take_rows(x, draw_rows(x.shape[0], n, rng, weights))


class NormalPrior(AnchorPrior):
    """Anchors are normally distributed: N(mean, diag var) of the data, or N(0, I).

    Parameters
    ----------
    standard : bool, default=False
        Whether to draw from N(0, I), for example for normalised images.
    """

    def __init__(self, standard: bool = False) -> None:
        self.standard = standard

    def draw(
        self, x: Array, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Array:
        """Draw n normal anchors; see `AnchorPrior.draw`."""
        xp = array_namespace(x)
        x = as_float(x)
        noise = xp.asarray(rng.standard_normal((n, *x.shape[1:])), dtype=x.dtype, device=device(x))
        if self.standard:
            return noise
        if weights is None:
            weights = np.ones(x.shape[0])
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        w = xp.reshape(xp.asarray(weights / np.sum(weights), dtype=x.dtype, device=device(x)), shape)
        mean = xp.sum(w * x, axis=0)
        var = xp.sum(w * (x - mean) ** 2, axis=0)
        return mean + xp.sqrt(var) * noise

    def __repr__(self) -> str:
        return f"NormalPrior(standard={self.standard})"


class BalancedPrior(AnchorPrior):
    """Equally many training rows from every class, or from every stratum of the target."""

    def draw(
        self, x: Array, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Array:
        """Draw n balanced rows; `labels` are needed. See `AnchorPrior.draw`."""
        if labels is None:
            raise ValueError("balanced anchors need labels.")
        classes, members = np.unique(np.asarray(labels), return_inverse=True)
        # The remainder of n / classes goes to classes drawn at random.
        quota = np.bincount(draw_rows(len(classes), n, rng), minlength=len(classes))
        drawn = []
        for c, size in enumerate(quota):
            rows = np.flatnonzero(members == c)
            within = None if weights is None else np.asarray(weights)[rows]
            drawn.append(rows[draw_rows(len(rows), size, rng, within)])
        return take_rows(x, rng.permutation(np.concatenate(drawn)))


class KMeansPrior(AnchorPrior):
    """Anchors are centres of k-means clusters: averages of at least two training rows each.

    The centre of repeated rows may equal such a row. Centres repeat if there are fewer than n.
    """

    def draw(
        self, x: Array, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Array:
        """Draw n cluster centres; see `AnchorPrior.draw`."""
        from sklearn.cluster import MiniBatchKMeans  # slow, and needed by this prior only

        xp = array_namespace(x)
        x = as_float(x)
        flat = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x, dtype=np.float64)
        flat = flat.reshape(flat.shape[0], -1)
        n_clusters = max(1, min(n, MAX_CLUSTERS, len(np.unique(flat, axis=0)) // 2))
        kmeans = MiniBatchKMeans(n_clusters, n_init=3, random_state=int(rng.integers(2**31)))
        members = kmeans.fit_predict(flat, sample_weight=weights)
        sizes = np.bincount(members, minlength=n_clusters)
        # The centre of a cluster of one is a training row.
        kept = np.flatnonzero(sizes >= min(2, sizes.max()))
        w = np.ones(len(flat)) if weights is None else np.asarray(weights)
        centres = np.stack([np.average(flat[members == c], axis=0, weights=w[members == c]) for c in kept])
        centres = centres[draw_rows(len(kept), n, rng)].reshape(n, *x.shape[1:])
        return xp.asarray(centres, dtype=x.dtype, device=device(x))


class SetPrior(AnchorPrior):
    """Anchors are rows of a given array: another dataset, test inputs, a grid.

    Parameters
    ----------
    rows : array of shape (m, ...)
    """

    def __init__(self, rows: Array) -> None:
        rows = rows if is_array_api_obj(rows) else np.asarray(rows)
        if rows.ndim < 2 or rows.shape[0] == 0:
            raise ValueError(
                f"anchors must be an array with at least one row, got shape {tuple(rows.shape)}."
            )
        self.rows = rows

    def support(self, x: Array) -> int | None:
        """Return the number of rows."""
        return int(self.rows.shape[0])

    def draw(
        self, x: Array, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Array:
        """Draw n of the given rows; see `AnchorPrior.draw`."""
        shape, expected = tuple(self.rows.shape[1:]), tuple(x.shape[1:])
        if shape != expected:
            raise ValueError(f"anchors have shape {shape} each, but the inputs have {expected}.")
        return take_rows(self.rows, draw_rows(self.rows.shape[0], n, rng))

    def __repr__(self) -> str:
        return f"SetPrior(<{self.rows.shape[0]} rows>)"


PRIORS: dict[str, type[AnchorPrior]] = {
    "data": DataPrior,
    "normal": NormalPrior,
    "balanced": BalancedPrior,
    "kmeans": KMeansPrior,
}


def get_prior(anchors: str | AnchorPrior | Array) -> AnchorPrior:
    """Return the prior of that name, the prior itself, or a prior over the rows of an array."""
    if isinstance(anchors, AnchorPrior):
        return anchors
    if isinstance(anchors, str):
        if anchors in PRIORS:
            return PRIORS[anchors]()
        raise ValueError(
            f"anchors must be one of {sorted(PRIORS)}, an array or an AnchorPrior, got {anchors!r}."
        )
    return SetPrior(anchors)
