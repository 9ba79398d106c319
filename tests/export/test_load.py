"""`deltauq.load` reads folders of tables as it reads files of networks."""

import pandas as pd
import pytest

import deltauq
from deltauq.tables import ModelFolderError, fit


def test_a_folder_comes_back(table, tmp_path):
    X, y = table
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    model = fit(frame, "y", model="tree")
    model.save(tmp_path / "model")
    pd.testing.assert_frame_equal(deltauq.load(tmp_path / "model").predict(frame), model.predict(frame))


def test_what_is_neither_file_nor_model_folder_gets_one_sentence(tmp_path):
    with pytest.raises(ModelFolderError, match="is no model folder"):
        deltauq.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        deltauq.load(tmp_path / "absent")
