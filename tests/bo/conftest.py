"""Data for tests of surrogates."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


@pytest.fixture(autouse=True)
def _seeded():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def bowl() -> tuple[Tensor, Tensor]:
    """Ten points of a bowl in the plane, in float64, of which the largest value is 5 at (0.3, 0.6)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(10, 2, generator=generator, dtype=torch.float64)
    best = torch.tensor([0.3, 0.6], dtype=torch.float64)
    return x, 5 - 20 * (x - best).square().sum(-1, keepdim=True)


@pytest.fixture(scope="session")
def square() -> Tensor:
    """Bounds of the unit square."""
    return torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
