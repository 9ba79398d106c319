"""`deltauq.load` with model folders; networks are tested in tests/nn."""

import pandas as pd
import pytest

import deltauq
from deltauq.tables import ModelFolderError, fit


def test_model_folder(table, tmp_path):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    model = fit(frame, "y", model="tree")
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(deltauq.load(tmp_path / "model").predict(frame), model.predict(frame))


def test_neither_file_nor_model_folder(tmp_path):
    with pytest.raises(ModelFolderError, match="is not a model folder"):
        deltauq.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        deltauq.load(tmp_path / "absent")
