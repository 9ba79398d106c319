"""What a network is called with: the input that is anchored, and further inputs that are passed through."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of a network.

    A further input is row-wise if it is a tensor whose first dimension is the batch size: it follows the rows
    of x. Everything else is passed unchanged, and so are further inputs of a batch of one, which are
    broadcast. It is decided once, for the whole batch: blocks and copies of its rows keep that.

    Attributes
    ----------
    x : tensor of shape (n, ...)
        The input that is anchored.
    args : tuple
        Further inputs by position.
    kwargs : dict
        Further inputs by keyword.
    row_wise : frozenset of int and str, optional
        Places and keywords of the row-wise ones; by default those of this batch.
    """

    x: Tensor
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    row_wise: frozenset[int | str] | None = None

    def __post_init__(self) -> None:
        if self.row_wise is None:
            n = self.x.shape[0]
            object.__setattr__(self, "row_wise", self.of_length(n) if n > 1 else frozenset())

    def replace(self, x: Tensor, change: Callable[[Tensor], Tensor]) -> Inputs:
        """Return x in place of this one, with `change` applied to every row-wise further input."""
        further = {
            key: change(value) if self._is_row_wise(key) else value for key, value in self._further().items()
        }
        args = tuple(further.pop(k) for k in range(len(self.args)))
        return Inputs(x, args, {str(key): value for key, value in further.items()}, self.row_wise)

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
        """Return what takes anchors to the anchored layer: row-wise further inputs are zero for them."""
        n = anchors.shape[0]
        return self.replace(anchors, lambda tensor: tensor.new_zeros(n, *tensor.shape[1:]))

    def has_row_wise(self) -> bool:
        """Whether any further input is row-wise."""
        return bool(self.row_wise)

    def of_length(self, n: int) -> frozenset[int | str]:
        """Return places and keywords of the tensors whose first dimension is n."""
        return frozenset(
            key
            for key, value in self._further().items()
            if isinstance(value, Tensor) and value.ndim > 0 and value.shape[0] == n
        )

    def with_rows_of_one(self) -> Inputs:
        """Return a batch of one whose further inputs of one row are row-wise."""
        return replace(self, row_wise=self.of_length(1))

    def signature(self) -> tuple[Any, ...]:
        """Return the shapes and types that decide how a network can be run, without the number of rows."""

        def kind(key: int | str, value: Any) -> Any:
            if isinstance(value, Tensor):
                row_wise = self._is_row_wise(key)
                return row_wise, value.shape[row_wise:], value.dtype
            return value if isinstance(value, bool | str | None) else type(value)

        further = [(key, kind(key, value)) for key, value in self._further().items()]
        return self.x.shape[1:], self.x.dtype, *further

    def _further(self) -> dict[int | str, Any]:
        """Return further inputs by place or keyword."""
        return dict((*enumerate(self.args), *self.kwargs.items()))

    def _is_row_wise(self, key: int | str) -> bool:
        return key in (self.row_wise or ())


def check_one_input(net: nn.Module, where: str) -> None:
    """Refuse a network that cannot be called with one input, where no further ones can be given."""
    network: Any = getattr(net, "module", net)  # of an anchored one
    parameters = list(inspect.signature(network.forward).parameters.values())[1:]
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    if needed:
        raise ValueError(f"{where} gives a network one input, and this one also needs {', '.join(needed)}.")
