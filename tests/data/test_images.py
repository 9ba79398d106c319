import gzip
import io
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from deltauq.data import IMAGE_SETS, load_images
from deltauq.data.images import read_cifar, read_idx, read_sheets, read_svhn

RNG = np.random.default_rng(0)


def random_images(n, shape=(32, 32, 3)):
    return RNG.integers(0, 256, size=(n, *shape), dtype=np.uint8)


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_images_are_verified_and_memory_mapped(name, data_dir, tmp_path, monkeypatch):
    if not name.startswith("mnist"):
        pytest.importorskip("PIL.Image")
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    images, labels = load_images(name)
    assert len(images) == len(labels) and images.dtype == labels.dtype == np.uint8
    assert set(np.unique(labels)) == set(range(10))
    again, _ = load_images(name)
    assert isinstance(again, np.memmap)


def test_altered_images_are_rejected_and_not_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for kind, shape in (("images-idx3", (2, 28, 28)), ("labels-idx1", (2,))):
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        (folder / f"t10k-{kind}-ubyte.gz").write_bytes(gzip.compress(header + bytes(int(np.prod(shape)))))
    with pytest.raises(ValueError, match="mnist-test are truncated or altered"):
        load_images("mnist-test")
    assert not list((tmp_path / "cache").glob("*"))


def test_unknown_name():
    with pytest.raises(ValueError, match="image set 'cats' is not one of"):
        load_images("cats")


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx(tmp_path, suffix):
    images = random_images(3, (5, 7))
    content = b"\x00\x00\x08\x03" + np.array([3, 5, 7], ">u4").tobytes() + images.tobytes()
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    np.testing.assert_array_equal(read_idx(path), images)
    path.write_bytes(gzip.compress(b"else") if suffix else b"else")
    with pytest.raises(ValueError, match="not an idx file"):
        read_idx(path)


def test_cifar(tmp_path):
    images, labels = random_images(4), np.array([3, 0, 9, 1], np.uint8)
    records = np.column_stack([labels, images.transpose(0, 3, 1, 2).reshape(4, -1)]).tobytes()
    with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as archive:
        for name in ("one", "two"):
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(records)
            archive.addfile(member, io.BytesIO(records))
    actual_images, actual_labels = read_cifar(tmp_path / "c.tar.gz", ["one", "two"])
    np.testing.assert_array_equal(actual_images, np.concatenate([images, images]))
    np.testing.assert_array_equal(actual_labels, np.concatenate([labels, labels]))


def test_svhn(tmp_path):
    images = random_images(3)
    savemat(tmp_path / "t.mat", {"X": np.moveaxis(images, 0, -1), "y": np.array([[10], [1], [9]])})
    actual_images, labels = read_svhn(tmp_path / "t.mat")
    np.testing.assert_array_equal(actual_images, images)
    np.testing.assert_array_equal(labels, [0, 1, 9])


def test_sheets(tmp_path):
    image = pytest.importorskip("PIL.Image")
    images, labels = random_images(1000), np.arange(1000) % 10
    sheet = images.reshape(25, 40, 32, 32, 3).swapaxes(1, 2).reshape(800, 1280, 3)
    image.fromarray(sheet).save(tmp_path / "s.webp", lossless=True)
    np.save(tmp_path / "labels.npy", labels)
    actual_images, actual_labels = read_sheets(tmp_path / "labels.npy", tmp_path / "s.webp")
    np.testing.assert_array_equal(actual_images, images)
    np.testing.assert_array_equal(actual_labels, labels)
