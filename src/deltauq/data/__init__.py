"""Where data sets come from."""

from deltauq.data.files import CorruptFileError, DataUnavailableError
from deltauq.data.images import IMAGE_SETS, load_images
from deltauq.data.tables import OPENML, Table, load_openml
from deltauq.data.toys import ClassesToy, GapToy, gap_curve, three_classes
from deltauq.data.uci import UCI, SplitTable, load_uci

__all__ = [
    "IMAGE_SETS",
    "OPENML",
    "UCI",
    "ClassesToy",
    "CorruptFileError",
    "DataUnavailableError",
    "GapToy",
    "SplitTable",
    "Table",
    "gap_curve",
    "load_images",
    "load_openml",
    "load_uci",
    "three_classes",
]
