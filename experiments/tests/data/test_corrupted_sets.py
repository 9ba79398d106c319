"""The corrupted test set of CIFAR-10, published or generated."""

import numpy as np
import pytest

from deltauq.data import CorruptFileError, load_images
from experiments.data import corrupt, load_corrupted
from experiments.data.corruptions.generate import load_cifar10c


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A data directory and a cache of the test's own."""
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "CIFAR-10-C").mkdir(parents=True)
    return tmp_path / "data" / "CIFAR-10-C"


def test_published_images_come_first(places):
    levels = np.arange(20, dtype=np.uint8)
    np.save(places / "fog.npy", np.broadcast_to(levels.reshape(20, 1, 1, 1), (20, 32, 32, 3)))
    np.save(places / "labels.npy", levels)
    images, labels, source = load_corrupted("fog", 3)
    assert (
        source == "published"
        and list(labels) == [8, 9, 10, 11]
        and list(images[:, 0, 0, 0]) == [8, 9, 10, 11]
    )
    assert list(load_corrupted("fog", 5, n=2).labels) == [16, 17]
    np.save(places / "labels.npy", levels[:19])
    with pytest.raises(CorruptFileError, match=r"fog\.npy has 20 images and labels\.npy 19 labels"):
        load_corrupted("fog", 1)


def test_other_images_are_generated_once(data_dir, tmp_path, monkeypatch):
    pytest.importorskip("PIL.Image")
    originals, all_labels = load_images("cifar10-test")
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    images, labels, source = load_corrupted("fog", 3, n=12)
    if source == "published":
        pytest.skip("the published images are here")
    np.testing.assert_array_equal(images, corrupt(originals[:12], "fog", 3))
    np.testing.assert_array_equal(labels, all_labels[:12])
    (file,) = (tmp_path / "cifar10-c").iterdir()
    written = file.stat().st_mtime_ns
    again = load_corrupted("fog", 3, n=12)
    assert source == "generated" and isinstance(again.images, np.memmap)
    assert file.stat().st_mtime_ns == written
    assert not np.array_equal(load_corrupted("fog", 3, n=12, seed=1).images, images)


def test_bad_sets():
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        load_corrupted("fog", 3, n=0)
    with pytest.raises(ValueError, match="corruption must be one of"):
        load_corrupted("rain", 3)


def test_missing_published_images(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path))
    assert load_cifar10c("fog") is None
