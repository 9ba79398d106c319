"""Encodings of an input and its anchors as one tuple, and their inverses.

Every encoding has the form ``[R_1, ..., R_e, X - O_1, ..., X - O_b]``, whose offsets O depend on the anchors
only. Fast prediction relies on it: for one anchor the first blocks and the offsets are constant.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace

from deltauq.utils.formatting import as_text

Array = Any
"""A NumPy or PyTorch array; anything the array API standard covers."""


class Encoding:
    """An encoding of an input relative to its anchors.

    Subclasses define the numbers of anchors and inputs in a tuple, and what is subtracted from the inputs.

    Attributes
    ----------
    anchors_per_tuple : int
        Anchors in one tuple.
    inputs_per_tuple : int
        How often a tuple contains the input: the number of offsets.
    """

    anchors_per_tuple: int = 1
    inputs_per_tuple: int = 1

    @property
    def width(self) -> int:
        """Width of a tuple, in widths of the input."""
        return self.anchors_per_tuple + self.inputs_per_tuple

    def offsets(self, *anchors: Array) -> tuple[Array, ...]:
        """Return what is subtracted from the input in each block of it, of the anchors' shape."""
        raise NotImplementedError

    def tuples(self, anchors: Array) -> list[Array]:
        """Return the anchors of one tuple per anchor: each anchor with those that follow it, cyclically.

        Parameters
        ----------
        anchors : array of shape (K, ...)

        Returns
        -------
        blocks : list of `anchors_per_tuple` arrays of shape (K, ...)
        """
        xp = array_namespace(anchors)
        return [anchors] + [xp.roll(anchors, -k, axis=0) for k in range(1, self.anchors_per_tuple)]

    def encode(self, x: Array, *anchors: Array, axis: int = 1) -> Array:
        """Join anchors and input into tuples.

        Parameters
        ----------
        x : array of shape (n, d) or (n, channels, ...)
            Inputs; integers and booleans are cast to the default float first.
        *anchors : arrays that broadcast to the shape of `x`
            `anchors_per_tuple` of them.
        axis : int, default=1
            The axis of concatenation: features of vectors, channels of images.

        Returns
        -------
        tuples : array of shape (n, width * d) or (n, width * channels, ...)
        """
        if len(anchors) != self.anchors_per_tuple:
            n = self.anchors_per_tuple
            raise ValueError(f"{type(self).__name__} takes {n} anchor(s), got {len(anchors)}.")
        xp = array_namespace(x, *anchors)
        x, *rs = _as_common_float(xp, x, *anchors)
        blocks = [xp.broadcast_to(r, x.shape) for r in rs]
        return xp.concat([*blocks, *(x - offset for offset in self.offsets(*rs))], axis=axis)

    def decode(self, tuples: Array, axis: int = 1) -> Array:
        """Return the input from its tuples, up to rounding.

        Parameters
        ----------
        tuples : array of shape (n, width * d) or (n, width * channels, ...)
        axis : int, default=1

        Returns
        -------
        x : array of shape (n, d) or (n, channels, ...)
        """
        if tuples.shape[axis] % self.width:
            raise ValueError(
                f"axis {axis} has {tuples.shape[axis]} entries, which is not a multiple of {self.width}."
            )
        d = tuples.shape[axis] // self.width
        index: list[Any] = [slice(None)] * tuples.ndim
        blocks = []
        for k in range(self.width):
            index[axis] = slice(k * d, (k + 1) * d)
            blocks.append(tuples[tuple(index)])
        anchors = blocks[: self.anchors_per_tuple]
        return blocks[-1] + self.offsets(*anchors)[-1]

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class Difference(Encoding):
    """``[R, X - R]``, the encoding of the paper."""

    def offsets(self, *anchors: Array) -> tuple[Array, ...]:
        """Return R."""
        return (anchors[0],)


class Full(Encoding):
    """``[R, X, X - R]``, for models that split on single columns: they need not form X from R and X - R."""

    inputs_per_tuple = 2

    def offsets(self, *anchors: Array) -> tuple[Array, ...]:
        """Return zeros and R."""
        return array_namespace(anchors[0]).zeros_like(anchors[0]), anchors[0]


class Identity(Encoding):
    """``[R, X]``, a baseline in which the anchor adds no information to X."""

    def offsets(self, *anchors: Array) -> tuple[Array, ...]:
        """Return zeros."""
        return (array_namespace(anchors[0]).zeros_like(anchors[0]),)


class TwoAnchor(Encoding):
    """``[R1, R2, X - R1 - R2]``, with a larger spread and less accuracy than one anchor."""

    anchors_per_tuple = 2

    def offsets(self, *anchors: Array) -> tuple[Array, ...]:
        """Return R1 + R2."""
        return (anchors[0] + anchors[1],)


ENCODINGS: dict[str, type[Encoding]] = {
    "difference": Difference,
    "full": Full,
    "identity": Identity,
    "two-anchor": TwoAnchor,
}


def get_encoding(encoding: str | Encoding) -> Encoding:
    """Return the encoding of that name, or the object itself."""
    if isinstance(encoding, Encoding):
        return encoding
    if isinstance(encoding, str) and encoding in ENCODINGS:
        return ENCODINGS[encoding]()
    raise ValueError(f"encoding must be one of {sorted(ENCODINGS)} or an Encoding, got {as_text(encoding)}.")


def as_float(x: Array) -> Array:
    """Cast integers and booleans to the namespace's default float, so that differences do not overflow."""
    xp = array_namespace(x)
    if xp.isdtype(x.dtype, "real floating"):
        return x
    return xp.astype(x, xp.asarray(0.0).dtype)


def _as_common_float(xp: Any, *arrays: Array) -> list[Array]:
    """Cast arrays to one floating dtype that represents them all."""
    floats = [as_float(a) for a in arrays]
    dtype = xp.result_type(*floats)
    return [xp.astype(a, dtype, copy=False) for a in floats]
