import numpy as np
import pytest

from deltauq.data.uci import UCI, load_uci


@pytest.mark.parametrize("name", UCI)
def test_every_split_is_a_partition(name, data_dir):
    table = load_uci(name)
    assert len(table.X) == len(table.y) and np.isfinite(table.X).all() and np.isfinite(table.y).all()
    assert len(table.splits) == (5 if name == "protein" else 20)
    for train, test in table.splits:
        assert len(np.unique(np.concatenate([train, test]))) == len(train) + len(test) == len(table.y)


def test_an_unknown_table_is_named():
    with pytest.raises(ValueError, match="'iris'"):
        load_uci("iris")
