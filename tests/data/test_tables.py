import gzip

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from deltauq.data import KEEL, OPENML, UCI, load_keel, load_openml, load_uci
from deltauq.data.tables import read_class_table, read_table

SHAPES = {
    201: (15000, 48),
    216: (16599, 18),
    296: (13750, 40),
    1199: (17496, 9),
    23515: (10081, 6),
    41539: (16755, 3),
    42193: (5278, 13),
    42688: (10692, 12),
    42712: (17379, 12),
}


@pytest.mark.parametrize("id", OPENML)
def test_openml_tables(id, data_dir):
    table = load_openml(id)
    assert table.X.shape == SHAPES[id] and table.y.shape == SHAPES[id][:1]
    assert len(table.names) == SHAPES[id][1] + 1
    assert np.isfinite(table.X).all() and np.isfinite(table.y).all()


@pytest.mark.parametrize("name", UCI)
def test_uci_splits_are_partitions(name, data_dir):
    table = load_uci(name)
    assert len(table.X) == len(table.y) and np.isfinite(table.X).all() and np.isfinite(table.y).all()
    assert len(table.splits) == (5 if name == "protein" else 20)
    for train, test in table.splits:
        assert len(np.unique(np.concatenate([train, test]))) == len(train) + len(test) == len(table.y)


@pytest.mark.parametrize("name", KEEL)
def test_keel_tables(name, data_dir):
    table = load_keel(name)
    assert table.X.shape == (len(table.y), len(table.names)) and np.isfinite(table.X).all()
    np.testing.assert_array_equal(np.unique(table.y), np.arange(len(table.classes)))


def test_columns_of_text_are_one_hot_encoded_and_classes_sorted(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind,class\n1,x,no\n2.5,w,yes\n3,x,no\n")
    table = read_class_table(path)
    np.testing.assert_array_equal(table.X, [[1, 0, 1], [2.5, 1, 0], [3, 0, 1]])
    np.testing.assert_array_equal(table.y, [0, 1, 0])
    assert (table.names, table.classes) == (["a", "kind=w", "kind=x"], ["no", "yes"])


def test_unknown_names():
    with pytest.raises(ValueError, match="OpenML table 7 is not one of"):
        load_openml(7)
    with pytest.raises(ValueError, match="UCI table 'iris' is not one of"):
        load_uci("iris")
    with pytest.raises(ValueError, match="KEEL table 'iris' is not one of"):
        load_keel("iris")


def test_categories_become_codes_and_months_keep_their_order(tmp_path):
    path = tmp_path / "t.csv.gz"
    text = 'a,month,kind,y\n1,March,"x, y",0.5\n2.5,January,b,1\n3,april,b,-2\n'
    path.write_bytes(gzip.compress(text.encode()))
    table = read_table(path)
    np.testing.assert_array_equal(table.X, [[1, 1, 1], [2.5, 0, 0], [3, 2, 0]])
    np.testing.assert_array_equal(table.y, [0.5, 1, -2])
    assert table.names == ["a", "month", "kind", "y"]


def test_missing_openml_tables_are_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0], "kind": pd.Categorical(["b", "c", "b"])})
    bunch = Bunch(data=data, target=pd.Series(["1", "2", "4"], name="y"))
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **params: bunch)
    table = load_openml(201)
    np.testing.assert_array_equal(table.X, [[1, 0], [2, 1], [3, 0]])
    np.testing.assert_array_equal(table.y, [1, 2, 4])
    assert table.names == ["a", "kind", "y"]
