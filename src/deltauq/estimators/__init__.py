"""Anchored versions of scikit-learn estimators."""

from deltauq.estimators.classifier import AnchoredClassifier
from deltauq.estimators.regressor import AnchoredRegressor

__all__ = ["AnchoredClassifier", "AnchoredRegressor"]
