"""What is shown of a table model and of an evaluation holds nothing of the table."""

import numpy as np
import pandas as pd

import deltauq
from deltauq.tables import evaluate, fit


def test_neither_model_nor_evaluation_shows_the_table(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a", "b"])
    table["street"] = rng.choice(["Secret Lane", "Secret Road"], 100)
    table["y"] = table.a + 0.8765
    fit(table, "y").save(tmp_path / "model")
    model = deltauq.load(tmp_path / "model")
    evaluation = evaluate(model, table)
    for value in (model, model.fitted, model.schema, evaluation, evaluation.rows):
        text = repr(value)
        assert len(text) < 500
        assert not any(number in text for number in (f"{table.a[0]:.4f}", f"{table.y[0]:.4f}"))
        assert "Secret" not in text
    assert "target='y'" in repr(model) and "RandomForestRegressor" in repr(model)
