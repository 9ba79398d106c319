"""The page on inverse design runs as it stands, and holds what it promises."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "inverse.md"


def test_examples_of_the_page():
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(block, names)
    found = names["found"]
    assert found.x.shape == (3, 20, 3) and not found.diverged.any()
    true = names["stiffness"](found.x).mean(1)
    np.testing.assert_allclose(found.mean.mean(1), [0.5, 1.0, 1.5], atol=0.1)
    np.testing.assert_allclose(true[:2], [0.5, 1.0], atol=0.15)
    assert true[2] > 1.15, "beyond what was built"
