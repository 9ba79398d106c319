"""A table of many files, a model of it, and a Ray cluster of two nodes."""

import shutil
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.ensemble import RandomForestRegressor

from deltauq.tables import fit, load, predict_file

FILES, GROUPS, ROWS = 3, 3, 700


@pytest.fixture(scope="session")
def houses():
    rng = np.random.default_rng(0)
    n = FILES * GROUPS * ROWS
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "area": rng.uniform(20, 200, n),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["Ulm", "Bern", "Graz"], n),
        }
    )
    frame["price"] = 3 * frame.area + 20 * frame.rooms + 50 * (frame.town == "Bern") + rng.normal(0, 9, n)
    frame.loc[::17, "area"] = np.nan
    return frame


@pytest.fixture(scope="session")
def model(houses, tmp_path_factory):
    """The folder of a model. Predictions of trees do not depend on the batch, not even by rounding."""
    folder = tmp_path_factory.mktemp("models") / "price"
    forest = RandomForestRegressor(5, random_state=0)
    fit(houses[:300].drop(columns="id"), "price", model=forest, n_train_anchors=5).save(folder)
    return folder


@pytest.fixture(scope="session")
def rows(houses, tmp_path_factory):
    """A folder of Parquet files with several row groups each, and an unseen category."""
    folder = tmp_path_factory.mktemp("rows")
    table = houses.drop(columns="price").assign(town=houses.town.where(houses.id % 1000 != 999, "Rome"))
    for k in range(FILES):
        piece = pa.Table.from_pandas(table[k::FILES], preserve_index=False)
        parquet.write_table(piece, folder / f"{k}.parquet", row_group_size=ROWS)
    return folder


@pytest.fixture(scope="session")
def expected(model, rows, tmp_path_factory):
    """The predictions of a single machine for all files, in their order."""
    folder = tmp_path_factory.mktemp("expected")
    for k in range(FILES):
        predict_file(load(model), rows / f"{k}.parquet", folder / f"{k}.parquet", keep=["id"])
    return pd.concat([pd.read_parquet(folder / f"{k}.parquet") for k in range(FILES)], ignore_index=True)


@pytest.fixture
def ray_folder():
    """A folder for Ray's files; its name is short because names of sockets must be."""
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture
def cluster(monkeypatch):
    """A cluster of two nodes with one core each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False}
    nodes = Cluster(initialize_head=True, head_node_args=small)
    files = nodes.head_node.get_session_dir_path()
    try:
        nodes.second = nodes.add_node(num_cpus=1, object_store_memory=100 * 2**20)
        nodes.wait_for_nodes()
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()
        shutil.rmtree(files, ignore_errors=True)
