"""Anchored versions of scikit-learn estimators, and models that combine several."""

from deltauq.estimators.classifier import AnchoredClassifier
from deltauq.estimators.regressor import AnchoredRegressor
from deltauq.estimators.stacked_classifier import StackedClassifier, classification_members
from deltauq.estimators.stacked_regressor import StackedRegressor, regression_members

__all__ = [
    "AnchoredClassifier",
    "AnchoredRegressor",
    "StackedClassifier",
    "StackedRegressor",
    "classification_members",
    "regression_members",
]
