"""Shared fixtures."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.conftest import browser  # noqa: F401

# Examples are drawn from a fixed seed: a failure is the same on every machine.
settings.register_profile(
    "experiments",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("experiments")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real datasets; tests that need it are skipped where it is missing."""
    folder = os.environ.get("DELTAUQ_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DELTAUQ_DATA does not name a folder of datasets")
    return Path(folder)
