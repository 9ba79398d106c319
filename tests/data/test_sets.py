"""The real data sets, where they are."""

import numpy as np
import pytest

from deltauq.data import load_images, load_openml
from deltauq.data.images import IMAGE_SETS, load_cifar10c
from deltauq.data.tables import OPENML

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
def test_tables(id, data_dir):
    table = load_openml(id)
    assert table.X.shape == SHAPES[id] and table.y.shape == SHAPES[id][:1]
    assert len(table.names) == SHAPES[id][1] + 1
    assert np.isfinite(table.X).all() and np.isfinite(table.y).all()


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_images_are_verified_and_mapped(name, data_dir, tmp_path, monkeypatch):
    if not name.startswith("mnist"):
        pytest.importorskip("PIL.Image")
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    images, labels = load_images(name)
    assert len(images) == len(labels) and images.dtype == labels.dtype == np.uint8
    assert set(np.unique(labels)) == set(range(10))
    again, _ = load_images(name)
    assert isinstance(again, np.memmap)


def test_altered_images_are_refused_and_nothing_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for kind, shape in (("images-idx3", (2, 28, 28)), ("labels-idx1", (2,))):
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        import gzip

        (folder / f"t10k-{kind}-ubyte.gz").write_bytes(gzip.compress(header + bytes(int(np.prod(shape)))))
    with pytest.raises(ValueError, match="mnist-test are truncated or altered"):
        load_images("mnist-test")
    assert not list((tmp_path / "cache").glob("*"))


def test_names_that_are_no_data_set():
    with pytest.raises(ValueError, match="OpenML table 7 is not one of"):
        load_openml(7)
    with pytest.raises(ValueError, match="image set 'cats' is not one of"):
        load_images("cats")


def test_published_corruptions_are_read_when_there(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path))
    assert load_cifar10c("fog") is None
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    np.save(folder / "fog.npy", np.zeros((5, 32, 32, 3), np.uint8))
    np.save(folder / "labels.npy", np.arange(5))
    images, labels = load_cifar10c("fog")
    assert images.shape == (5, 32, 32, 3) and list(labels) == [0, 1, 2, 3, 4]
