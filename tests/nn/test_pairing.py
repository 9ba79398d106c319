"""Pairings within a batch."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltauq.nn import Anchored
from deltauq.nn.pairing import derangement, reversal


@given(st.integers(2, 50), st.integers(1, 3), st.integers(0, 1000))
def test_derangement_is_a_permutation_without_fixed_points(n, n_sources, seed):
    torch.manual_seed(seed)
    sources = derangement(n, n_sources, torch.device("cpu"))
    for rows in sources:
        assert sorted(rows.tolist()) == list(range(n))
    if n > n_sources:
        together = torch.stack([torch.arange(n), *sources])
        assert all(len(set(column.tolist())) == n_sources + 1 for column in together.T)


def test_reversal_reverses_the_batch():
    x = torch.randn(6, 2)
    assert torch.equal(x[reversal(6, 1, x.device)[0]], x.flip(0))


@given(st.integers(2, 12), st.integers(1, 5), st.integers(1, 2))
def test_reversal_gives_copies_of_a_row_different_anchors(n, copies, n_sources):
    sources = reversal(n * copies, n_sources, torch.device("cpu"), copies)
    anchors = torch.cat([rows.reshape(copies, n) % n for rows in sources])
    for column in anchors.T.tolist():
        assert len(set(column)) == min(n, copies * n_sources)
    for rows in sources:
        own = rows.reshape(copies, n) // n
        assert torch.equal(own, torch.arange(copies)[:, None].expand(copies, n))


def test_balanced_anchors_are_no_training_anchors(mlp):
    with pytest.raises(ValueError, match="train_anchors='balanced' needs labels"):
        Anchored(mlp, train_anchors="balanced")
