"""A table with all kinds of columns, and models fitted to it."""

import numpy as np
import pandas as pd
import pytest

from deltauq.tables import fit


@pytest.fixture(scope="session")
def mixed():
    """Numbers and categories with gaps, flags, dates; `price` depends on them, `size` is a class."""
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, n),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["Ulm", "Bern", "Graz"], n),
            "new": rng.random(n) < 0.3,
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    frame["price"] = 3 * frame.area + 20 * frame.rooms + 50 * (frame.town == "Bern") + rng.normal(0, 9, n)
    frame["size"] = np.where(frame.area > 110, "large", "small")
    frame.loc[::17, "area"] = np.nan
    frame.loc[::19, "town"] = None
    return frame


@pytest.fixture(scope="session")
def regression(mixed):
    return fit(mixed.drop(columns="size"), "price", model="tree", n_train_anchors=5)


@pytest.fixture(scope="session")
def classification(mixed):
    return fit(mixed.drop(columns="price"), "size", model="tree", n_train_anchors=5)


@pytest.fixture(scope="module")
def fresh(mixed):
    """Rows like those of the models, with other gaps."""
    rng = np.random.default_rng(1)
    frame = mixed.sample(400, replace=True, random_state=1).reset_index(drop=True)
    frame["price"] += rng.normal(0, 20, len(frame))
    frame.loc[::11, "area"] = np.nan
    return frame
