"""Datasets: tables of OpenML, UCI and KEEL, images, and toy data."""

from deltauq.data.files import CorruptFileError, DataUnavailableError, cache_dir, cached_array, data_dir
from deltauq.data.images import IMAGE_SETS, load_images
from deltauq.data.tables import (
    KEEL,
    OPENML,
    UCI,
    ClassTable,
    SplitTable,
    Table,
    load_keel,
    load_openml,
    load_uci,
)
from deltauq.data.toys import GapToy, gap_curve

__all__ = [
    "IMAGE_SETS",
    "KEEL",
    "OPENML",
    "UCI",
    "ClassTable",
    "CorruptFileError",
    "DataUnavailableError",
    "GapToy",
    "SplitTable",
    "Table",
    "cache_dir",
    "cached_array",
    "data_dir",
    "gap_curve",
    "load_images",
    "load_keel",
    "load_openml",
    "load_uci",
]
