"""Deep ensembles: one architecture trained from several random initialisations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

from torch import Tensor, nn

from deltauq.baselines.network import MakeNetwork, SampledBaseline, Training, no_new_network


class DeepEnsemble(SampledBaseline):
    """Mean and variance over M networks that differ only in their seeds.

    Members that can be stacked are trained all at once, unless `fit` uses a checkpoint, a Fabric, lower
    precision, augmentation or compilation. The result is the same up to rounding.

    Parameters
    ----------
    make_network : callable
        Returns a new network.
    n_members : int, default=5
        M. Member k has the seed of the recipe + k, for its initial weights and the order of rows.

    Attributes
    ----------
    members_ : ModuleList of M networks
    """

    fitted_module = "members_"
    members_: nn.ModuleList

    def __init__(self, make_network: MakeNetwork, n_members: int = 5) -> None:
        super().__init__(make_network)
        if n_members < 1:
            raise ValueError(f"n_members must be at least 1, got {n_members}.")
        self.n_members = n_members

    @classmethod
    def from_members(cls, members: Sequence[nn.Module]) -> Self:
        """Return an ensemble of trained networks, which are set to evaluation mode."""
        ensemble = cls(no_new_network, len(members))
        ensemble.members_ = nn.ModuleList(members).eval()
        return ensemble

    def _fit(self, x: Tensor, y: Tensor, training: Training) -> None:
        seeds = [training.recipe.seed + k for k in range(self.n_members)]
        members = [self.new_network(seed) for seed in seeds]
        training.run_many(members, x, y, seeds)
        self.members_ = nn.ModuleList(members)

    def functions(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """Yield the members."""
        # children() would skip a network that is in the ensemble twice.
        yield from self._fitted()
