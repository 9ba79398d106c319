"""Data sets that only the experiments use: corrupted images and test functions."""

from experiments.data.corruptions import CORRUPTIONS, FIGURE5, CorruptedImages, corrupt, load_corrupted

__all__ = ["CORRUPTIONS", "FIGURE5", "CorruptedImages", "corrupt", "load_corrupted"]
