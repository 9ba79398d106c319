"""Anchored versions of scikit-learn estimators, and models that combine several."""

from deltauq.estimators.classifier import AnchoredClassifier
from deltauq.estimators.regressor import AnchoredRegressor
from deltauq.estimators.stacked_regressor import StackedRegressor

__all__ = ["AnchoredClassifier", "AnchoredRegressor", "StackedRegressor"]
