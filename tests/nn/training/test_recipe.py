"""Recipes of training."""

import numpy as np
import pytest

from deltauq.nn.training import Recipe


def test_rates_follow_their_schedules():
    steps = Recipe(epochs=10, lr=1.0, schedule="steps", milestones=(4, 8), gamma=0.1)
    assert [steps.rate(e) for e in (0, 3.99, 4, 8)] == pytest.approx([1, 1, 0.1, 0.01])
    linear = Recipe(epochs=10, lr=1.0, schedule="linear")
    assert [linear.rate(e) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    cosine = Recipe(epochs=10, lr=1.0, schedule="cosine")
    assert [cosine.rate(e) for e in (0, 5, 10)] == pytest.approx([1, 0.5, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "at least 1"),
        ({"optimizer": "lion"}, "'lion'"),
        ({"schedule": "triangle"}, "'triangle'"),
        ({"mask": 1.0}, "below 1"),
        ({"augment": "mixup"}, "'mixup'"),
        ({"momentum": -1.0}, "momentum must not be negative"),
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"lr": float("nan")}, "lr must be positive"),
        ({"epochs": 2.5}, "cannot be interpreted as an integer"),
        ({"milestones": 3}, "not iterable"),
        ({"milestones": (1.5,)}, "cannot be interpreted as an integer"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Recipe(**options)


def test_options_are_plain_values():
    recipe = Recipe(epochs=np.int64(4), milestones=[np.int64(2), 3])
    assert type(recipe.epochs) is int and recipe.milestones == (2, 3)
    assert recipe == Recipe(epochs=4, milestones=(2, 3)) and hash(recipe)
