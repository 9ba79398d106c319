"""Levels of risk, and the ranges of columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from deltauq.tables.risk import RISK_FRACTIONS, RISK_LEVELS, ColumnRanges, RiskScale

TABLES = arrays(
    float, st.tuples(st.integers(2, 12), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)
)


def measures(rng, n):
    """Return two measures of risk; most rows are not beyond the range, and are tied."""
    return {"size": rng.exponential(size=n), "beyond": rng.exponential(size=n) * (rng.random(n) < 0.1)}


def test_risk_of_two_measures():
    scale = RiskScale({"size": (1.0, 2.0), "beyond": (10.0, 20.0)})
    size, beyond = np.meshgrid([0.5, 1.0, 1.5, 2.5], [5.0, 15.0, 25.0], indexing="ij")
    levels = scale.levels({"size": size.ravel(), "beyond": beyond.ravel()})
    assert levels.tolist() == [*RISK_LEVELS, *RISK_LEVELS, *("moderate",) * 2, *("high",) * 4]


@pytest.mark.parametrize("n", [9, 19, 39, 50, 400])
@pytest.mark.parametrize("ties", [False, True])
def test_share_of_high_risk(n, ties):
    rng = np.random.default_rng(n)

    def draw(m):
        values = {name: rng.exponential(size=m) for name in ("size", "beyond")}
        return {name: np.round(value) if ties else value for name, value in values.items()}

    high, raised = [], []
    for _ in range(300):
        levels = RiskScale.from_measures(draw(n)).levels(draw(200))
        high.append(np.mean(levels == "high"))
        raised.append(np.mean(levels != "low"))
    # The bounds hold on average over scored rows; four standard errors are left.
    for shares, bound in ((high, 0.05), (raised, 0.20)):
        assert np.mean(shares) <= bound + 4 * np.std(shares) / np.sqrt(300)
        assert ties or n < 400 or np.mean(shares) > 0.8 * bound


def test_distance_from_the_range_equals_its_definition():
    X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 10.0, 0.0]
    ranges = ColumnRanges.of(X)
    assert not ranges.beyond(X).any()
    assert ranges.beyond(X[:1] + np.array([0.0, 0.0, 7.0])).tolist() == [7.0]
    far = X + np.array([0.0, 100.0, 0.0])
    expected = (far[:, 1] - X[:, 1].max()) / X[:, 1].std()
    np.testing.assert_allclose(ranges.beyond(far), expected.clip(min=0.0))
    for k, distance in enumerate(ranges.beyond_others(X)):
        others = np.delete(X, k, axis=0)
        gaps = np.maximum(others.min(axis=0) - X[k], X[k] - others.max(axis=0))
        assert distance == pytest.approx(max(0.0, np.max(gaps / ranges.unit)))


def test_rounding_is_not_beyond_the_range():
    ranges = ColumnRanges.of(np.array([[0.1], [0.3]]))
    assert ranges.beyond(np.array([[np.nextafter(0.3, 1)], [0.1 - 1e-6]])).tolist() == [
        0.0,
        pytest.approx(1e-5),
    ]


@pytest.mark.parametrize("n", [1, 7, 24, 124, 499])
@pytest.mark.parametrize("decimals", [0, 12])
def test_new_rows_exceed_a_level_with_at_most_its_fraction(n, decimals):
    """Each of n + 1 rows is equally likely to be the new one; rounded measures have many ties."""
    rng, counts = np.random.default_rng(n), dict.fromkeys(RISK_LEVELS, 0)
    rows = {name: values.round(decimals) for name, values in measures(rng, n + 1).items()}
    for k in range(n + 1):
        scale = RiskScale.from_measures({name: np.delete(values, k) for name, values in rows.items()})
        counts[scale.levels({name: values[[k]] for name, values in rows.items()})[0]] += 1
    moderate, high = RISK_FRACTIONS
    assert counts["high"] <= high * (n + 1)
    assert counts["high"] + counts["moderate"] <= moderate * (n + 1)


def test_limits_by_hand():
    values = np.random.default_rng(0).permutation(np.arange(1.0, 100.0))
    scale = RiskScale.from_measures({"size": values, "beyond": 10 * values})
    # Of 100 rows, 16 and 4 exceed the limits of the first measure, 4 and 1 those of the second.
    assert scale.limits == {"size": (84.0, 96.0), "beyond": (960.0, 990.0)}


def test_levels_rise_with_each_measure():
    rng = np.random.default_rng(0)
    scale, rows = RiskScale.from_measures(measures(rng, 200)), measures(rng, 100)
    before = [RISK_LEVELS.index(level) for level in scale.levels(rows)]
    for name in rows:
        after = [RISK_LEVELS.index(level) for level in scale.levels({**rows, name: 2 * rows[name]})]
        assert np.all(np.array(after) >= before)


def test_few_rows_have_no_limit():
    scale = RiskScale.from_measures({"size": np.arange(3.0), "beyond": np.arange(3.0)})
    assert scale.levels({"size": np.array([1e300]), "beyond": np.array([1e300])}).tolist() == ["low"]


def test_the_unit_of_a_measure_does_not_matter():
    rng = np.random.default_rng(0)
    training, rows = measures(rng, 300), measures(rng, 100)
    levels = RiskScale.from_measures(training).levels(rows)
    training["size"], rows["size"] = 1024 * training["size"], 1024 * rows["size"]
    np.testing.assert_array_equal(RiskScale.from_measures(training).levels(rows), levels)


@given(X=TABLES, rows=TABLES)
def test_distances_of_new_rows(X, rows):
    rows = np.resize(rows, (len(rows), X.shape[1]))
    expected = []
    for row in rows:
        distances = [0.0]
        for value, column in zip(row, X.T, strict=True):
            unit = np.std(column) or 1.0
            distances += [(column.min() - value) / unit, (value - column.max()) / unit]
        expected.append(max(distances))
    np.testing.assert_allclose(ColumnRanges.of(X).beyond(rows), expected)


@given(X=TABLES)
def test_distances_of_training_rows(X):
    ranges, expected = ColumnRanges.of(X), []
    for k in range(len(X)):
        others = np.delete(X, k, axis=0)
        without = ColumnRanges(others.min(axis=0), others.max(axis=0), ranges.unit)
        expected.append(without.beyond(X[[k]])[0])
    np.testing.assert_allclose(ranges.beyond_others(X), expected)
    np.testing.assert_array_equal(ranges.beyond(X), 0.0)


@given(X=TABLES, gaps=st.integers(0, 2**32 - 1))
def test_missing_values_are_not_beyond_the_range(X, gaps):
    """Each column has the ranges of its values, and each row the distance of its values."""
    X = np.where(np.random.default_rng(gaps).random(X.shape) < 0.3, np.nan, X)
    ranges, new = ColumnRanges.of(X), np.linspace(-5.0, 5.0, 7)
    beyond = np.zeros(len(X))
    for k, column in enumerate(X.T):
        known = ~np.isnan(column)
        values = column[known, None] if known.any() else np.zeros((1, 1))
        alone = ColumnRanges.of(values)
        assert (ranges.low[k], ranges.high[k]) == (alone.low[0], alone.high[0])
        assert ranges.unit[k] == pytest.approx(alone.unit[0])
        rows = np.full((7, X.shape[1]), np.nan)
        rows[:, k] = new
        np.testing.assert_allclose(ranges.beyond(rows), alone.beyond(new[:, None]))
        if known.sum() > 1:
            beyond[known] = np.maximum(beyond[known], alone.beyond_others(values))
    np.testing.assert_allclose(ranges.beyond_others(X), beyond)
    assert not ranges.beyond(X).any()


def test_units_of_columns_do_not_matter():
    rng = np.random.default_rng(0)
    X, rows, unit = rng.normal(size=(50, 3)), 3 * rng.normal(size=(20, 3)), np.array([1e-6, 1.0, 1e6])
    scaled = ColumnRanges.of((X + 1e3) * unit).beyond((rows + 1e3) * unit)
    np.testing.assert_allclose(scaled, ColumnRanges.of(X).beyond(rows), atol=1e-9)


def test_a_single_row():
    row = np.array([[1.0, 2.0]])
    ranges = ColumnRanges.of(row)
    assert ranges.beyond_others(row).tolist() == [0.0]
    assert ranges.beyond(np.array([[1.0, 2.0], [1.0, 5.0], [-1.0, 2.0]])).tolist() == [0.0, 3.0, 2.0]


def test_the_unit_of_a_constant_column_is_no_rounding_error():
    X = np.full((10, 2), 0.1)
    assert np.all(X.std(axis=0) > 0)
    assert ColumnRanges.of(X).beyond(np.array([[1.1, 0.1]]))[0] == pytest.approx(1.0)


def test_far_rows_have_a_high_risk():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    ranges = ColumnRanges.of(X)
    scale = RiskScale.from_measures({"size": rng.exponential(size=400), "beyond": ranges.beyond_others(X)})
    rows = np.array([[0.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    levels = scale.levels({"size": np.zeros(2), "beyond": ranges.beyond(rows)})
    assert levels.tolist() == ["low", "high"]
