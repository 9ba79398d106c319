"""The fixtures and settings of the tests of the library."""

from tests.conftest import browser, data_dir  # noqa: F401
