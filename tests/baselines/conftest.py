"""Settings and data for tests of the baselines."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


@pytest.fixture(autouse=True)
def _repeatable():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def wave() -> tuple[Tensor, Tensor]:
    """A noisy sine of 96 rows and 2 features, the second of which is noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(96, 2, generator=generator)
    return x, (2 * x[:, :1]).sin() + 0.1 * torch.randn(96, 1, generator=generator)


@pytest.fixture
def blobs() -> tuple[Tensor, Tensor]:
    """Three separate classes of 50 rows each in the plane."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(150) % 3
    centres = torch.tensor([[0.0, 2.0], [-1.7, -1.0], [1.7, -1.0]])
    return centres[y] + 0.3 * torch.randn(150, 2, generator=generator), y
