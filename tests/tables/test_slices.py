"""Slices partition the rows, and those that are worse are listed with few false alarms."""

import numpy as np
import pytest

from deltauq.tables import evaluate
from deltauq.tables.slices import Group, find_failing_decile, find_worse_slices, make_slices


def test_failing_decile_has_few_false_alarms():
    covered = np.random.default_rng(0).binomial(50, 0.9, size=(1000, 10)) / 50
    failing = [
        find_failing_decile([Group(50, 0, 1, 1.0, share, 2.0, 1.0) for share in shares], 0.9)
        for shares in covered
    ]
    assert np.mean([k is not None for k in failing]) < 0.05 + 0.02


def test_constructed_slice_is_listed(regression, fresh):
    worse = fresh.dropna().copy()
    worse.loc[worse.town == "Graz", "price"] += 150
    evaluation = evaluate(regression, worse)
    assert evaluation.large_loss[0].name == "town = Graz" == evaluation.often_missed[0].name
    part = evaluation.large_loss[0]
    error = (worse.price - regression.predict(worse).prediction).abs()
    assert part.inside == pytest.approx(error[worse.town == "Graz"].median())
    assert part.elsewhere == pytest.approx(error[worse.town != "Graz"].median())
    assert part.rows == (worse.town == "Graz").sum()


def test_slices_partition_each_column(regression, fresh):
    frame = fresh.assign(town=fresh.town.where(fresh.index % 9 > 0, "Linz"))
    X = regression.schema.read(frame)
    slices = list(make_slices(regression.schema, X))
    names = [name for name, _ in slices]
    assert "area is missing" in names and "town = Ulm" in names and "new = 1" in names
    assert "town is an unseen category" in names
    assert any(name.startswith("sold ≤ 2024-") for name in names)
    for column in ("area", "rooms", "town", "new", "sold"):
        counts = sum(rows.astype(int) for name, rows in slices if column in name.split())
        assert counts.min() == counts.max() == 1, column


@pytest.mark.parametrize("kind", ["numbers", "mistakes"])
def test_slices_have_few_false_alarms(kind):
    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(400):
        loss = rng.exponential(size=200) if kind == "numbers" else (rng.random(200) < 0.2).astype(float)
        slices = [(str(k), rng.permutation(200) < 25) for k in range(40)]
        alarms += bool(find_worse_slices(slices, loss)[1][0])
    # 5 % are allowed for; 400 trials leave two standard errors of 2.2 %, and few mistakes a coarse scale.
    assert alarms / 400 < 0.09


def test_no_slice_if_losses_are_equal():
    slices = [("half", np.arange(40) < 20)]
    assert find_worse_slices(slices, np.zeros(40)) == (1, [[]])
    assert find_worse_slices([], np.arange(40.0)) == (0, [[]])
