import json
import shutil

import numpy as np
import pytest

from deltauq.data import IMAGE_SETS, KEEL, OPENML, UCI, load_images
from deltauq.data.inventory import list_datasets


@pytest.fixture
def run_data(run, monkeypatch):
    """Run `deltauq data` with this cache and this folder of datasets."""

    def run_command(*arguments, cache, data=None):
        monkeypatch.setenv("DELTAUQ_CACHE", str(cache))
        if data is None:
            monkeypatch.delenv("DELTAUQ_DATA", raising=False)
        else:
            monkeypatch.setenv("DELTAUQ_DATA", str(data))
        return run("data", *arguments)

    return run_command


def by_name(done):
    return {entry["name"].partition(" ")[0]: entry for entry in json.loads(done.out)}


def test_list_without_any_files(run_data, tmp_path):
    done = run_data("list", "--json", cache=tmp_path)
    assert (done.code, done.err) == (0, "")
    sets = by_name(done)
    by_hand = {f"uci-{name}" for name in UCI} | {f"keel-{name}" for name in KEEL}
    tables = {f"openml-{id}" for id in OPENML} | by_hand
    assert set(sets) == tables | set(IMAGE_SETS)
    assert all(
        entry["location"] is None and entry["bytes"] == 0 and entry["files"] == [] for entry in sets.values()
    )
    assert all(url.startswith("http") for entry in sets.values() for url in entry["sources"])
    table = run_data("list", cache=tmp_path).out
    assert table.count("missing: manual") == len(by_hand)
    assert table.count("missing: download") == len(sets) - len(by_hand)
    assert str(tmp_path) in table
    assert list(tmp_path.iterdir()) == []
    checked = run_data("check", cache=tmp_path)
    assert checked.code == 0 and checked.out.count("missing") == len(sets)


def test_check(run_data, data_dir, tmp_path):
    data, cache = tmp_path / "data", tmp_path / "cache"
    (data / "openml").mkdir(parents=True)
    cache.mkdir()
    for id in (201, 216):
        shutil.copy(data_dir / OPENML[id].file.name, data / "openml")
    shutil.copy(data_dir / OPENML[296].file.name, cache)
    shutil.copytree(data_dir / "mnist", data / "mnist")
    sets = by_name(run_data("list", "--data", data, "--json", cache=cache))
    assert sets["openml-201"]["location"] == "data directory" and sets["openml-296"]["location"] == "cache"
    assert sets["openml-201"]["bytes"] == (data / OPENML[201].file.name).stat().st_size
    assert len(sets["mnist-test"]["files"]) == 2 and sets["openml-1199"]["location"] is None

    done = run_data("check", "--data", data, "--json", cache=cache)
    assert (done.code, done.err) == (0, "")
    status = {name: entry["status"] for name, entry in by_name(done).items()}
    here = {"openml-201", "openml-216", "openml-296", "mnist-train", "mnist-test"}
    assert {name for name, value in status.items() if value == "intact"} == here
    assert {value for name, value in status.items() if name not in here} == {"missing"}

    damaged = data / OPENML[216].file.name
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (data / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    done = run_data("check", data=data, cache=cache)
    assert done.code == 2
    assert done.err == "deltauq: 2 of 43 datasets are corrupt: openml-216 elevators, mnist-test\n"
    assert done.out.count("intact") == 3 and done.out.count("corrupt: ") == 2


def test_check_of_a_cached_array(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    load_images("mnist-test")
    monkeypatch.delenv("DELTAUQ_DATA")
    (actual,) = (data for data in list_datasets() if data.files)
    assert (actual.name, actual.location) == ("mnist-test", "cache")
    actual.check()
    images = np.load(tmp_path / "mnist-test-images.npy")
    images[0, 0, 0] ^= 1
    np.save(tmp_path / "mnist-test-images.npy", images)
    with pytest.raises(ValueError, match="altered"):
        actual.check()


@pytest.mark.slow
def test_check_of_all_real_files(run_data, data_dir, tmp_path):
    pytest.importorskip("PIL.Image")
    done = run_data("check", "--json", data=data_dir, cache=tmp_path)
    sets = by_name(done)
    expected = {f"openml-{id}" for id in OPENML} | set(IMAGE_SETS)
    assert {name for name, entry in sets.items() if entry["status"] == "intact"} >= expected, done.err


def test_help_and_missing_folder(run_data, tmp_path):
    done = run_data(cache=tmp_path)
    assert done.code == 0 and "list" in done.out and "check" in done.out
    done = run_data("list", "--data", tmp_path / "no", cache=tmp_path)
    done.assert_input_error("is not a folder")
