"""The methods of `figure5`: networks, and what is made of their logits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from experiments.data.corruptions import CORRUPTIONS, FIGURE5, SEVERITIES
from experiments.image_kinds import READ_TWICE, TRAINING_IMAGES, Anchors, Kind
from experiments.scoring import (
    Fit,
    Judge,
    fitted_spread,
    fitted_temperature,
    mean_logits,
    mean_probabilities,
    spread_scaled,
)
from experiments.table5 import DROPOUT, MASK

HELD_OUT = ("validation",)
"""The images that are left out of training where something is fitted."""
SHIFTED = HELD_OUT + tuple(
    f"validation/{name}/{severity}" for name in CORRUPTIONS if name not in FIGURE5 for severity in SEVERITIES
)
"""The same, also under the corruptions that figure5 does not measure."""

PLAIN = Kind("ResNet20", raw=True)
ANCHORED = replace(PLAIN, anchored=True)
MASKED = replace(ANCHORED, mask=MASK)
MASKED_ROWS = replace(MASKED, mask_rows=True)


@dataclass(frozen=True)
class Method:
    """Networks and what is done with their logits.

    Attributes
    ----------
    judge : Judge or None
        What makes probabilities of logits.
    kind : Kind
    members : int
        Networks, of seeds that follow each other, the first after the last.
    fit : Fit or None
        In place of a judge: what fits one on 5,000 images that are left out of training.
    fit_on : tuple of str
        Sets of these images.
    anchors : Anchors
        For anchored networks.
    """

    judge: Judge | None = None
    kind: Kind = PLAIN
    members: int = 1
    fit: Fit | None = None
    fit_on: tuple[str, ...] = HELD_OUT
    anchors: Anchors = TRAINING_IMAGES

    @property
    def held_out(self) -> bool:
        """Whether images are left out of training."""
        return self.fit is not None

    def same_networks(self, other: Method) -> bool:
        """Tell whether two methods are made from the same trainings."""
        mine, theirs = ((m.kind, m.members, m.held_out) for m in (self, other))
        return mine == theirs

    def same_logits(self, other: Method) -> bool:
        """Tell whether two methods differ only in what they make of their networks' logits."""
        return self.same_networks(other) and self.anchors == other.anchors


METHODS = {
    "plain": Method(mean_logits(1.0)),
    "delta-uq": Method(spread_scaled, ANCHORED),
    "delta-masked": Method(spread_scaled, MASKED),
    "delta-masked-rows": Method(spread_scaled, MASKED_ROWS),
    "temperature": Method(fit=fitted_temperature),
    "mc-dropout": Method(mean_probabilities, replace(PLAIN, dropout=DROPOUT)),
    "svi": Method(mean_probabilities, replace(PLAIN, variational=True)),
    "delta-masked-rows-temperature": Method(kind=MASKED_ROWS, fit=fitted_temperature),
    "scaled": Method(mean_logits(0.5)),
    "delta-mean": Method(mean_logits(1.0), ANCHORED),
    "delta-mean-scaled": Method(mean_logits(0.5), ANCHORED),
    "delta-masked-mean": Method(mean_logits(1.0), MASKED),
    "delta-masked-rows-mean": Method(mean_logits(1.0), MASKED_ROWS),
    "delta-masked-both": Method(mean_probabilities, MASKED, anchors=READ_TWICE),
    "delta-masked-rows-both": Method(mean_probabilities, MASKED_ROWS, anchors=READ_TWICE),
    "temperature-shifted": Method(fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-temperature-shifted": Method(kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED),
    "delta-masked-rows-both-temperature-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_temperature, fit_on=SHIFTED, anchors=READ_TWICE
    ),
    "delta-masked-rows-both-fitted-shifted": Method(
        kind=MASKED_ROWS, fit=fitted_spread, fit_on=SHIFTED, anchors=READ_TWICE
    ),
    "ensemble": Method(mean_probabilities, members=3),
    "ensemble-5": Method(mean_probabilities, members=5),
}


def companions(name: str) -> list[str]:
    """Return all methods on the same logits, in their order."""
    return [other for other, method in METHODS.items() if method.same_logits(METHODS[name])]


def trains(name: str) -> bool:
    """Tell whether a method is the first to ask for a training of its own."""
    first = next(other for other, method in METHODS.items() if method.same_networks(METHODS[name]))
    return METHODS[name].members == 1 and first == name
