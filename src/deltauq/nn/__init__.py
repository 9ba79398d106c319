"""Uncertainty from a single PyTorch network, by anchoring."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from deltauq.utils.install import install_command

    raise ImportError(f"deltauq.nn needs PyTorch: {install_command('nn')}.") from error

from deltauq.nn.anchored import Anchored
from deltauq.nn.files import UnusableFileError, load, save
from deltauq.nn.inference import evaluating
from deltauq.nn.losses import anchored_loss, log_squared_error
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
    "evaluating",
    "load",
    "log_squared_error",
    "save",
]
