"""How advice names options: as parameters in Python, or as options on the command line."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Terms:
    """What to write where advice names an option.

    Attributes
    ----------
    center : str
        Plain predictions with the spread over anchors.
    calibrate : str
        How to get calibrated intervals, after "so".
    more_folds : str
    train_anchors, default_train_anchors : str
        Training anchors, and how many there are by default; each with a place for a number.
    """

    center: str
    calibrate: str
    more_folds: str
    train_anchors: str
    default_train_anchors: str


PYTHON = Terms(
    center='center="estimator"',
    calibrate='set calibrate="cv"',
    more_folds="n_repeats=5",
    train_anchors="n_train_anchors={}",
    default_train_anchors="the default trains with {:,}",
)
COMMAND_LINE = Terms(
    center="deltauq fit --center estimator",
    calibrate="take those of deltauq fit, which calibrates them",
    more_folds="--repeats 5",
    train_anchors="--train-anchors {}",
    default_train_anchors="--train-anchors auto trains with {:,}",
)
