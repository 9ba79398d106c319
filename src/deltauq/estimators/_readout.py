"""How a fitted base's answer to tuples becomes numbers whose moments mean something."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from deltauq.estimators.trees import packable, plain_outputs

Classes = list[np.ndarray]
"""The classes of each output, sorted."""


class Readout:
    """Turns a fitted base and tuples of shape (m, width * d) into outputs of shape (m, o)."""

    def reads_trees(self, estimator: BaseEstimator) -> bool:
        """Tell whether the outputs of packed trees are this readout."""
        return False

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the outputs for tuples of shape (m, width * d)."""
        raise NotImplementedError


class TargetReadout(Readout):
    """Predicted targets, of shape (m, o)."""

    def reads_trees(self, estimator: BaseEstimator) -> bool:
        """Tell whether the outputs of packed trees are this readout."""
        return True

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the targets predicted for tuples of shape (m, width * d)."""
        if packable(estimator):
            return plain_outputs(estimator, tuples)
        targets = np.asarray(estimator.predict(tuples), dtype=np.float64)
        return targets.reshape(len(tuples), -1)


class ProbabilityReadout(Readout):
    """Class probabilities of all outputs side by side, of shape (m, classes).

    Parameters
    ----------
    classes : list of arrays
        A class that a base did not see, as may happen in a fold, has probability zero.
    """

    def __init__(self, classes: Classes) -> None:
        self.classes = classes

    def reads_trees(self, estimator: BaseEstimator) -> bool:
        """Tell whether the outputs of packed trees are this readout."""
        return all(len(a) == len(b) for a, b in zip(_classes_seen(estimator), self.classes, strict=True))

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the probabilities for tuples of shape (m, width * d)."""
        if packable(estimator) and self.reads_trees(estimator):
            return plain_outputs(estimator, tuples)
        return align_probabilities(estimator, estimator.predict_proba(tuples), self.classes)


class ScoreReadout(Readout):
    """Probabilities from decision scores, by a map fitted on rows the base had not seen.

    Parameters
    ----------
    score_map : fitted LogisticRegression
    classes : list of one array
    """

    def __init__(self, score_map: LogisticRegression, classes: Classes) -> None:
        self.score_map = score_map
        self.classes = classes

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the probabilities for tuples of shape (m, width * d), of shape (m, classes)."""
        proba = self.score_map.predict_proba(decision_scores(estimator, tuples))
        return align_probabilities(self.score_map, proba, self.classes)


class DecisionReadout(Readout):
    """Decision scores as they are, to fit a map on."""

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return the scores for tuples of shape (m, width * d), of shape (m, s)."""
        return decision_scores(estimator, tuples)


class VoteReadout(Readout):
    """One vote per anchor for the predicted class of each output, of shape (m, classes)."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes

    def __call__(self, estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
        """Return one-hot predictions for tuples of shape (m, width * d)."""
        labels = np.asarray(estimator.predict(tuples)).reshape(len(tuples), -1)
        votes = [labels[:, k, None] == classes for k, classes in enumerate(self.classes)]
        return np.hstack(votes).astype(np.float64)


def decision_scores(estimator: BaseEstimator, tuples: np.ndarray) -> np.ndarray:
    """Return decision scores of shape (m, s): one column for two classes."""
    return np.asarray(estimator.decision_function(tuples)).reshape(len(tuples), -1)


def align_probabilities(
    estimator: BaseEstimator, proba: np.ndarray | list[np.ndarray], classes: Classes
) -> np.ndarray:
    """Lay the probabilities of one or several outputs side by side, in the order of `classes`.

    Parameters
    ----------
    estimator : fitted classifier
    proba : array of shape (m, c), list of such arrays, or array of shape (m, labels) of a multilabel model
    classes : list of arrays

    Returns
    -------
    probabilities : float64 array of shape (m, total number of classes)
    """
    if isinstance(proba, list):
        blocks = [np.asarray(block) for block in proba]
    elif len(classes) > 1:  # a multilabel model gives the probability of each label being set
        both = [np.column_stack([1.0 - p, p]) for p in np.asarray(proba).T]
        return np.hstack([block[:, known.astype(int)] for block, known in zip(both, classes, strict=True)])
    else:
        blocks = [np.asarray(proba)]
    aligned = []
    for block, seen, known in zip(blocks, _classes_seen(estimator), classes, strict=True):
        full = np.zeros((len(block), len(known)))
        full[:, np.searchsorted(known, seen)] = block[:, : len(seen)]
        aligned.append(full)
    return np.hstack(aligned)


def _classes_seen(estimator: BaseEstimator) -> Classes:
    """Return the classes of each output that the estimator was fitted on."""
    classes = estimator.classes_
    return classes if isinstance(classes, list) else [classes]
