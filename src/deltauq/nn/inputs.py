"""The arguments of a network: the input that is anchored, and additional inputs that are passed through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of a network.

    An additional input is row-wise if it is a tensor whose first dimension is the batch size. It is repeated
    and cut along with the rows of x; everything else is passed unchanged. In a batch of one nothing is
    row-wise: additional inputs are broadcast.
    """

    x: Tensor
    """The input that is anchored, of shape (n, ...)."""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    row_wise: frozenset[int | str] | None = None
    """Positions and keywords of the row-wise ones. Decided once, for the whole batch."""

    def __post_init__(self) -> None:
        if self.row_wise is None:
            n = self.x.shape[0]
            object.__setattr__(self, "row_wise", self.of_length(n) if n > 1 else frozenset())

    def replace(self, x: Tensor, change: Callable[[Tensor], Tensor]) -> Inputs:
        """Return x in place of this one, with `change` applied to every row-wise additional input."""
        row_wise = self.row_wise or ()
        args = tuple(change(v) if k in row_wise else v for k, v in enumerate(self.args))
        kwargs = {k: change(v) if k in row_wise else v for k, v in self.kwargs.items()}
        return Inputs(x, args, kwargs, self.row_wise)

    def rows(self, start: int, stop: int) -> Inputs:
        """Return some of the rows."""
        return self.replace(self.x[start:stop], lambda tensor: tensor[start:stop])

    def split(self, size: int) -> list[Inputs]:
        """Return all rows, at most `size` at a time."""
        return [self.rows(start, start + size) for start in range(0, self.x.shape[0], size)]

    def repeat(self, k: int, *, x_too: bool = True) -> Inputs:
        """Return all rows k times over, one copy after the other; x itself only with `x_too`."""

        def repeated(tensor: Tensor) -> Tensor:
            return tensor.repeat(k, *[1] * (tensor.ndim - 1))

        return self.replace(repeated(self.x) if x_too else self.x, repeated)

    def for_anchors(self, anchors: Tensor) -> Inputs:
        """Return anchors in place of x: row-wise additional inputs are zero for them."""
        n = anchors.shape[0]
        return self.replace(anchors, lambda tensor: tensor.new_zeros(n, *tensor.shape[1:]))

    def of_length(self, n: int) -> frozenset[int | str]:
        """Return positions and keywords of the tensors whose first dimension is n."""
        return frozenset(
            key
            for key, value in self._further()
            if isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] == n
        )

    def with_rows_of_one(self) -> Inputs:
        """Return a batch of one whose additional inputs of one row are row-wise."""
        return replace(self, row_wise=self.of_length(1))

    def signature(self) -> tuple[Any, ...]:
        """Return the shapes and types that decide how a network can be run, without the number of rows."""

        def kind(key: int | str, value: Any) -> Any:
            if isinstance(value, Tensor):
                row_wise = key in (self.row_wise or ())
                return row_wise, value.shape[row_wise:], value.dtype
            return value if isinstance(value, bool | str | None) else type(value)

        return self.x.shape[1:], self.x.dtype, *[(key, kind(key, value)) for key, value in self._further()]

    def _further(self) -> list[tuple[int | str, Any]]:
        return [*enumerate(self.args), *self.kwargs.items()]
