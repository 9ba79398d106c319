"""The corruptions of CIFAR-10-C, made here or read from its published files."""

from experiments.data.corruptions.generate import CorruptedImages, corrupt, load_corrupted
from experiments.data.corruptions.severities import CORRUPTIONS, FIGURE5, SEVERITIES

__all__ = ["CORRUPTIONS", "FIGURE5", "SEVERITIES", "CorruptedImages", "corrupt", "load_corrupted"]
