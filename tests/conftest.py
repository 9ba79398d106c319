"""Shared fixtures."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Examples are drawn from a fixed seed: a failure is the same on every machine.
settings.register_profile(
    "deltauq", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deltauq")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real data sets; tests that need it are skipped where it is missing."""
    folder = os.environ.get("DELTAUQ_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DELTAUQ_DATA does not name a folder of data sets")
    return Path(folder)


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray]:
    """A small nonlinear regression problem of 60 rows and 4 features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.1 * rng.normal(size=60)


@pytest.fixture
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """Three overlapping classes of 30 rows in two dimensions."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    y = np.repeat(["blue", "green", "red"], 30)
    return np.repeat(centres, 30, axis=0) + 0.7 * rng.normal(size=(90, 2)), y


@pytest.fixture(scope="module")
def browser():
    """Chromium, or a reason to skip."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no chromium or chrome on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()
