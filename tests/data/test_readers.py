import gzip
import io
import pickle
import tarfile

import numpy as np
import pytest
from scipy.io import savemat

from deltauq.data.readers import (
    read_cifar_binary,
    read_cifar_python,
    read_idx,
    read_sheets,
    read_svhn,
    read_table,
)

RNG = np.random.default_rng(0)


def archive(path, members):
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def cifar(n=4):
    images = RNG.integers(0, 256, size=(n, 32, 32, 3), dtype=np.uint8)
    labels = RNG.integers(0, 10, size=n, dtype=np.uint8)
    return images, labels, images.transpose(0, 3, 1, 2).reshape(n, -1)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx(tmp_path, suffix):
    images = RNG.integers(0, 256, size=(3, 5, 7), dtype=np.uint8)
    content = b"\x00\x00\x08\x03" + np.array([3, 5, 7], ">u4").tobytes() + images.tobytes()
    path = tmp_path / f"images{suffix}"
    path.write_bytes(gzip.compress(content) if suffix else content)
    np.testing.assert_array_equal(read_idx(path), images)
    path.write_bytes(gzip.compress(b"else") if suffix else b"else")
    with pytest.raises(ValueError, match="no idx file"):
        read_idx(path)


def test_cifar_of_both_official_forms(tmp_path):
    images, labels, rows = cifar()
    records = np.column_stack([labels, rows]).astype(np.uint8).tobytes()
    binary = archive(tmp_path / "b.tar.gz", {"bin/one.bin": records, "bin/two.bin": records})
    for got, want in zip(
        read_cifar_binary(binary, ["bin/one.bin", "bin/two.bin"]), (images, labels), strict=True
    ):
        np.testing.assert_array_equal(got, np.concatenate([want, want]))
    batch = pickle.dumps({b"data": rows, b"labels": labels.tolist(), b"batch_label": b"one"}, protocol=2)
    python = archive(tmp_path / "p.tar.gz", {"py/one": batch})
    for got, want in zip(read_cifar_python(python, ["py/one"]), (images, labels), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_pickled_file_that_wants_to_run_something_is_refused(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("harm").write_text, ("done",))

    evil = archive(tmp_path / "p.tar.gz", {"py/one": pickle.dumps({b"data": Bomb()}, protocol=2)})
    with pytest.raises(pickle.UnpicklingError, match="no business"):
        read_cifar_python(evil, ["py/one"])
    assert not (tmp_path / "harm").exists()


def test_svhn(tmp_path):
    images, _, _ = cifar(3)
    savemat(tmp_path / "t.mat", {"X": np.moveaxis(images, 0, -1), "y": np.array([[10], [1], [9]])})
    got, labels = read_svhn(tmp_path / "t.mat")
    np.testing.assert_array_equal(got, images)
    np.testing.assert_array_equal(labels, [0, 1, 9])


def test_sheets(tmp_path):
    image = pytest.importorskip("PIL.Image")
    images = RNG.integers(0, 256, size=(1000, 32, 32, 3), dtype=np.uint8)
    sheet = images.reshape(25, 40, 32, 32, 3).swapaxes(1, 2).reshape(800, 1280, 3)
    image.fromarray(sheet).save(tmp_path / "s.webp", lossless=True)
    np.testing.assert_array_equal(read_sheets([tmp_path / "s.webp"]), images)


def test_tables_code_words_and_keep_the_order_of_months(tmp_path):
    path = tmp_path / "t.csv.gz"
    text = 'a,month,kind,y\n1,March,"x, y",0.5\n2.5,January,b,1\n3,april,b,-2\n'
    path.write_bytes(gzip.compress(text.encode()))
    X, y, names = read_table(path)
    np.testing.assert_array_equal(X, [[1, 1, 1], [2.5, 0, 0], [3, 2, 0]])
    np.testing.assert_array_equal(y, [0.5, 1, -2])
    assert names == ["a", "month", "kind", "y"]
