"""Where data sets come from."""

from deltauq.data.files import CorruptFileError, DataUnavailableError
from deltauq.data.images import IMAGE_SETS, load_images
from deltauq.data.tables import OPENML, Table, load_openml
from deltauq.data.toys import ClassesToy, GapToy, gap_curve, three_classes

__all__ = [
    "IMAGE_SETS",
    "OPENML",
    "ClassesToy",
    "CorruptFileError",
    "DataUnavailableError",
    "GapToy",
    "Table",
    "gap_curve",
    "load_images",
    "load_openml",
    "three_classes",
]
