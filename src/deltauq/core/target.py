"""What a model learns of the target, given the anchor of a pair, and how its output becomes a prediction."""

from __future__ import annotations

from deltauq.core.encoding import Array, as_float
from deltauq.utils.formatting import as_text


class Target:
    """The form of the target that a model learns; the counterpart of `Encoding` for its output.

    Attributes
    ----------
    needs_labels : bool
        Whether anchors need their own targets.
    """

    needs_labels: bool = False

    def encode(self, y: Array, *anchor_targets: Array) -> Array:
        """Return what the model learns.

        Parameters
        ----------
        y : array of shape (n, ...)
            Targets of the inputs.
        *anchor_targets : arrays that broadcast to the shape of `y`
            The targets of the anchors of each tuple.
        """
        raise NotImplementedError

    def decode(self, output: Array, *anchor_targets: Array) -> Array:
        """Return the prediction of y; the inverse of `encode`.

        Parameters
        ----------
        output : array of shape (n, ...)
            Outputs of the model.
        *anchor_targets : arrays that broadcast to the shape of `output`
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ValueTarget(Target):
    """The model learns y itself, as in the paper."""

    def encode(self, y: Array, *anchor_targets: Array) -> Array:
        """Return y."""
        return y

    def decode(self, output: Array, *anchor_targets: Array) -> Array:
        """Return the output."""
        return output


class DifferenceTarget(Target):
    """The model learns y - y_R, and the anchor's target y_R is added back: labelled anchors.

    With several anchors in a tuple, y_R is the mean of their targets.
    """

    needs_labels = True

    def encode(self, y: Array, *anchor_targets: Array) -> Array:
        """Return y - y_R, of floats."""
        return as_float(y) - _mean(anchor_targets)

    def decode(self, output: Array, *anchor_targets: Array) -> Array:
        """Return the output plus y_R."""
        return output + _mean(anchor_targets)


def _mean(anchor_targets: tuple[Array, ...]) -> Array:
    first, *others = map(as_float, anchor_targets)
    return sum(others, first) / len(anchor_targets) if others else first


TARGETS: dict[str, type[Target]] = {"value": ValueTarget, "difference": DifferenceTarget}


def get_target(target: str | Target) -> Target:
    """Return the target of that name, or the object itself."""
    if isinstance(target, Target):
        return target
    if isinstance(target, str) and target in TARGETS:
        return TARGETS[target]()
    raise ValueError(f"target must be one of {sorted(TARGETS)} or a Target, got {as_text(target)}.")
