"""Uncertainty from a single PyTorch network, by anchoring."""

from deltauq.utils.install import import_optional

import_optional("torch", "deltauq.nn needs PyTorch", "nn")

from deltauq.nn.anchored import Anchored
from deltauq.nn.files import UnusableFileError, load, save
from deltauq.nn.inference import evaluation_mode
from deltauq.nn.losses import anchored_loss, log_squared_error, squared_error
from deltauq.nn.networks import MLP, FourierFeatures, ResNet18, ResNet20
from deltauq.nn.predictor import AnchorPredictor

__all__ = [
    "MLP",
    "AnchorPredictor",
    "Anchored",
    "FourierFeatures",
    "ResNet18",
    "ResNet20",
    "UnusableFileError",
    "anchored_loss",
    "evaluation_mode",
    "load",
    "log_squared_error",
    "save",
    "squared_error",
]
