"""The command line in this process, and a small table with models fitted to it."""

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from deltauq.cli import main
from deltauq.tables import fit


@dataclass
class Result:
    code: int
    out: str
    err: str

    def assert_input_error(self, *texts):
        """Check that the command printed nothing but one line on stderr, with these texts."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("deltauq: ") and self.err.count("\n") == 1 and len(self.err) < 500
        for text in texts:
            assert text in self.err


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command and return its exit code and output."""

    def run_command(*arguments):
        monkeypatch.setattr(sys, "argv", ["deltauq", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return Result(stopped.value.code, printed.out, printed.err)

    return run_command


@pytest.fixture(scope="session")
def houses():
    """A table of 120 rows: two numeric columns, a category, a date, and two targets, price and size."""
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 200, n).round(2),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["Ulm", "Bern", "Graz"], n),
            "sold": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    frame["price"] = 3 * frame.area + 20 * frame.rooms + rng.normal(0, 9, n)
    frame["size"] = np.where(frame.area > 110, "large", "small")
    return frame


@pytest.fixture(scope="session")
def price_model(houses, tmp_path_factory):
    """The folder of a regression model."""
    folder = tmp_path_factory.mktemp("models") / "price"
    fit(houses.drop(columns="size"), "price", model="linear").save(folder)
    return folder


@pytest.fixture(scope="session")
def size_model(houses, tmp_path_factory):
    """The folder of a classification model."""
    folder = tmp_path_factory.mktemp("models") / "size"
    fit(houses.drop(columns="price"), "size", model="linear").save(folder)
    return folder
