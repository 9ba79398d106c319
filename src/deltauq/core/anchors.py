"""Anchors, and anchor priors P(R), the distributions that they are drawn from.

Random numbers always come from NumPy, so that a seed gives the same anchors for every array library.
"""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False, repr=False)
class Anchors:
    """Inputs that others are compared with, and their targets where they are known (labelled anchors).

    Attributes
    ----------
    X : array of shape (k, ...)
        Inputs.
    y : array of shape (k, ...) or None
        Their targets.
    """

    X: Array
    y: Array | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            value = getattr(self, name)
            if value is not None and not is_array_api_obj(value):
                object.__setattr__(self, name, np.asarray(value))
        if self.X.ndim < 2 or self.X.shape[0] == 0:
            raise ValueError(
                f"anchors must be an array with at least one row, got shape {tuple(self.X.shape)}."
            )
        if self.y is not None and tuple(self.y.shape[:1]) != tuple(self.X.shape[:1]):
            raise ValueError(
                f"anchors need one target each: X has shape {tuple(self.X.shape)} "
                f"and y {tuple(self.y.shape)}."
            )

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: np.ndarray) -> Anchors:
        """Return the given rows."""
        return Anchors(take_rows(self.X, rows), None if self.y is None else take_rows(self.y, rows))

    def __repr__(self) -> str:
        return f"Anchors(<{len(self)} rows>{'' if self.y is None else ', with targets'})"


class AnchorPrior:
    """A distribution of anchors, which may depend on the training data."""

    def support(self, rows: Anchors) -> int | None:
        """Return the largest number of different anchors, or None if it is infinite."""
        return None

    def draw(
        self,
        rows: Anchors,
        n: int,
        rng: np.random.Generator,
        *,
        labels: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Anchors:
        """Draw n anchors.

        Parameters
        ----------
        rows : Anchors
            Training rows, with their targets if the anchors need theirs.
        n : int
            Number of anchors.
        rng : numpy.random.Generator
        labels : array of shape (n_rows,), optional
            Class of each row, or a stratum of its target.
        weights : array of shape (n_rows,), optional
            Weights of the rows.

        Returns
        -------
        anchors : Anchors
            n anchors, with targets if `rows` has some.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DataPrior(AnchorPrior):
    """Anchors are rows of the training data, P(R) = P(X), as in the paper."""

    def support(self, rows: Anchors) -> int | None:
        """Return the number of training rows."""
        return len(rows)

    def draw(
        self, rows: Anchors, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Anchors:
        """Draw n training rows; see `AnchorPrior.draw`."""
        return rows.take(draw_rows(len(rows), n, rng, weights))


class NormalPrior(AnchorPrior):
    """Anchors are normally distributed: N(mean, diag var) of the data, or N(0, I). They have no targets.

    Parameters
    ----------
    standard : bool, default=False
        Whether to draw from N(0, I), for example for normalised images.
    """

    def __init__(self, standard: bool = False) -> None:
        self.standard = standard

    def draw(
        self, rows: Anchors, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Anchors:
        """Draw n normal anchors; see `AnchorPrior.draw`."""
        if rows.y is not None:
            raise ValueError("normally distributed anchors have no targets: use target='value'.")
        xp = array_namespace(rows.X)
        x = as_float(rows.X)
        noise = xp.asarray(rng.standard_normal((n, *x.shape[1:])), dtype=x.dtype, device=device(x))
        if self.standard:
            return Anchors(noise)
        if weights is None:
            weights = np.ones(x.shape[0])
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        w = xp.reshape(xp.asarray(weights / np.sum(weights), dtype=x.dtype, device=device(x)), shape)
        mean = xp.sum(w * x, axis=0)
        var = xp.sum(w * (x - mean) ** 2, axis=0)
        return Anchors(mean + xp.sqrt(var) * noise)

    def __repr__(self) -> str:
        return f"NormalPrior(standard={self.standard})"


class BalancedPrior(AnchorPrior):
    """Equally many training rows from every class, or from every stratum of the target."""

    def draw(
        self, rows: Anchors, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Anchors:
        """Draw n balanced rows; `labels` are needed. See `AnchorPrior.draw`."""
        if labels is None:
            raise ValueError("balanced anchors need labels.")
        classes, members = np.unique(np.asarray(labels), return_inverse=True)
        # The remainder of n / classes goes to classes drawn at random.
        quota = np.bincount(draw_rows(len(classes), n, rng), minlength=len(classes))
        drawn = []
        for c, size in enumerate(quota):
            own = np.flatnonzero(members == c)
            within = None if weights is None else np.asarray(weights)[own]
            drawn.append(own[draw_rows(len(own), size, rng, within)])
        return rows.take(rng.permutation(np.concatenate(drawn)))


class KMeansPrior(AnchorPrior):
    """Anchors are centres of k-means clusters: averages of at least two training rows each.

    The target of a centre is the mean target of its cluster. The centre of repeated rows may equal such a
    row. Centres repeat if there are fewer than n.
    """

    def draw(
        self, rows: Anchors, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Anchors:
        """Draw n cluster centres; see `AnchorPrior.draw`."""
        from sklearn.cluster import MiniBatchKMeans  # slow, and needed by this prior only

        flat = _flat(rows.X)
        n_clusters = max(1, min(n, MAX_CLUSTERS, len(np.unique(flat, axis=0)) // 2))
        kmeans = MiniBatchKMeans(n_clusters, n_init=3, random_state=int(rng.integers(2**31)))
        members = kmeans.fit_predict(flat, sample_weight=weights)
        sizes = np.bincount(members, minlength=n_clusters)
        # The centre of a cluster of one is a training row.
        kept = np.flatnonzero(sizes >= min(2, sizes.max()))
        w = np.ones(len(flat)) if weights is None else np.asarray(weights)
        drawn = kept[draw_rows(len(kept), n, rng)]

        def means(values: Array) -> Array:
            columns = _flat(values)
            by_cluster = {c: np.average(columns[members == c], axis=0, weights=w[members == c]) for c in kept}
            shape = (n, *values.shape[1:])
            xp, dtype = array_namespace(values), as_float(values).dtype
            return xp.asarray(
                np.stack([by_cluster[c] for c in drawn]).reshape(shape), dtype=dtype, device=device(values)
            )

        return Anchors(means(rows.X), None if rows.y is None else means(rows.y))


def _flat(values: Array) -> np.ndarray:
    """Return float64 rows, of shape (n, -1), on the CPU."""
    values = values.detach().cpu() if hasattr(values, "detach") else values
    return np.asarray(values, dtype=np.float64).reshape(values.shape[0], -1)


class SetPrior(AnchorPrior):
    """Anchors are given: rows of another dataset, test inputs, a grid.

    Parameters
    ----------
    anchors : Anchors, or array of shape (m, ...) of inputs without targets
    """

    def __init__(self, anchors: Anchors | Array) -> None:
        self.anchors = anchors if isinstance(anchors, Anchors) else Anchors(anchors)

    def support(self, rows: Anchors) -> int | None:
        """Return the number of given anchors."""
        return len(self.anchors)

    def draw(
        self, rows: Anchors, n: int, rng: np.random.Generator, *, labels: Any = None, weights: Any = None
    ) -> Anchors:
        """Draw n of the given anchors; see `AnchorPrior.draw`."""
        shape, expected = tuple(self.anchors.X.shape[1:]), tuple(rows.X.shape[1:])
        if shape != expected:
            raise ValueError(f"anchors have shape {shape} each, but the inputs have {expected}.")
        anchors = self.anchors
        if rows.y is None:
            anchors = Anchors(anchors.X)
        elif anchors.y is None:
            raise ValueError("the given anchors have no targets: give Anchors(X, y), or use target='value'.")
        elif tuple(anchors.y.shape[1:]) != tuple(rows.y.shape[1:]):
            raise ValueError(
                f"targets of anchors have shape {tuple(anchors.y.shape[1:])} each, but those of the rows "
                f"have {tuple(rows.y.shape[1:])}."
            )
        return anchors.take(draw_rows(len(anchors), n, rng))

    def __repr__(self) -> str:
        return f"SetPrior({self.anchors!r})"


PRIORS: dict[str, type[AnchorPrior]] = {
    "data": DataPrior,
    "normal": NormalPrior,
    "balanced": BalancedPrior,
    "kmeans": KMeansPrior,
}


def get_prior(anchors: str | AnchorPrior | Anchors | Array) -> AnchorPrior:
    """Return the prior of that name, the prior itself, or a prior over given anchors."""
    if isinstance(anchors, AnchorPrior):
        return anchors
    if isinstance(anchors, str):
        if anchors in PRIORS:
            return PRIORS[anchors]()
        raise ValueError(
            f"anchors must be one of {sorted(PRIORS)}, an array, Anchors or an AnchorPrior, got {anchors!r}."
        )
    return SetPrior(anchors)
