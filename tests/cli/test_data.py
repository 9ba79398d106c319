import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from deltauq.data import IMAGE_SETS, OPENML, UCI, load_images
from deltauq.data.inventory import list_datasets


def run(*arguments, cache, data=None):
    environment = {key: value for key, value in os.environ.items() if key != "DELTAUQ_DATA"}
    environment |= {"DELTAUQ_CACHE": str(cache)} | ({} if data is None else {"DELTAUQ_DATA": str(data)})
    command = [sys.executable, "-m", "deltauq.cli", "data", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)


def by_name(done):
    return {entry["name"].partition(" ")[0]: entry for entry in json.loads(done.stdout)}


def test_list_without_any_files(tmp_path):
    done = run("list", "--json", cache=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    sets = by_name(done)
    tables = {f"openml-{id}" for id in OPENML} | {f"uci-{name}" for name in UCI}
    assert set(sets) == tables | set(IMAGE_SETS)
    assert all(
        entry["location"] is None and entry["bytes"] == 0 and entry["files"] == [] for entry in sets.values()
    )
    assert all(url.startswith("http") for entry in sets.values() for url in entry["sources"])
    table = run("list", cache=tmp_path).stdout
    by_hand = len(UCI)
    assert table.count("missing: manual") == by_hand
    assert table.count("missing: download") == len(sets) - by_hand
    assert str(tmp_path) in table
    assert list(tmp_path.iterdir()) == []
    checked = run("check", cache=tmp_path)
    assert checked.returncode == 0 and checked.stdout.count("missing") == len(sets)


def test_check(data_dir, tmp_path):
    data, cache = tmp_path / "data", tmp_path / "cache"
    (data / "openml").mkdir(parents=True)
    cache.mkdir()
    for id in (201, 216):
        shutil.copy(data_dir / OPENML[id].file.name, data / "openml")
    shutil.copy(data_dir / OPENML[296].file.name, cache)
    shutil.copytree(data_dir / "mnist", data / "mnist")
    sets = by_name(run("list", "--data", data, "--json", cache=cache))
    assert sets["openml-201"]["location"] == "data directory" and sets["openml-296"]["location"] == "cache"
    assert sets["openml-201"]["bytes"] == (data / OPENML[201].file.name).stat().st_size
    assert len(sets["mnist-test"]["files"]) == 2 and sets["openml-1199"]["location"] is None

    done = run("check", "--data", data, "--json", cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    status = {name: entry["status"] for name, entry in by_name(done).items()}
    here = {"openml-201", "openml-216", "openml-296", "mnist-train", "mnist-test"}
    assert {name for name, value in status.items() if value == "intact"} == here
    assert {value for name, value in status.items() if name not in here} == {"missing"}

    damaged = data / OPENML[216].file.name
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (data / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    done = run("check", data=data, cache=cache)
    assert done.returncode == 2
    assert done.stderr == "deltauq: 2 of 23 datasets are corrupt: openml-216 elevators, mnist-test\n"
    assert done.stdout.count("intact") == 3 and done.stdout.count("corrupt: ") == 2


def test_check_of_a_cached_array(data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path))
    load_images("mnist-test")
    monkeypatch.delenv("DELTAUQ_DATA")
    (found,) = (data for data in list_datasets() if data.files)
    assert (found.name, found.location) == ("mnist-test", "cache")
    found.check()
    images = np.load(tmp_path / "mnist-test-images.npy")
    images[0, 0, 0] ^= 1
    np.save(tmp_path / "mnist-test-images.npy", images)
    with pytest.raises(ValueError, match="altered"):
        found.check()


@pytest.mark.slow
def test_check_of_all_real_files(data_dir, tmp_path):
    pytest.importorskip("PIL.Image")
    done = run("check", "--json", data=data_dir, cache=tmp_path)
    sets = by_name(done)
    expected = {f"openml-{id}" for id in OPENML} | set(IMAGE_SETS)
    assert {name for name, entry in sets.items() if entry["status"] == "intact"} >= expected, done.stderr


def test_help_and_missing_folder(tmp_path):
    done = run(cache=tmp_path)
    assert done.returncode == 0 and "list" in done.stdout and "check" in done.stdout
    done = run("list", "--data", tmp_path / "no", cache=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("deltauq: ") and done.stderr.count("\n") == 1
