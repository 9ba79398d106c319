"""`deltauq data list` and `deltauq data check` as processes of their own."""

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


def test_every_registered_set_is_listed_though_nothing_is_here(tmp_path):
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
    assert table.count("not here: by hand") == by_hand
    assert table.count("not here: download") == len(sets) - by_hand
    assert str(tmp_path) in table
    assert list(tmp_path.iterdir()) == []  # looking makes nothing
    checked = run("check", cache=tmp_path)
    assert checked.returncode == 0 and checked.stdout.count("absent") == len(sets)


def test_real_sets_are_found_genuine_and_damaged_ones_are_named(data_dir, tmp_path):
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
    verdicts = {name: entry["verdict"] for name, entry in by_name(done).items()}
    here = {"openml-201", "openml-216", "openml-296", "mnist-train", "mnist-test"}
    assert {name for name, verdict in verdicts.items() if verdict == "genuine"} == here
    assert {verdict for name, verdict in verdicts.items() if name not in here} == {"absent"}

    damaged = data / OPENML[216].file.name
    damaged.write_bytes(damaged.read_bytes()[:-100])
    (data / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(b"not gzip")
    done = run("check", data=data, cache=cache)
    assert done.returncode == 2
    assert done.stderr == "deltauq: 2 of 23 data sets are corrupt: openml-216 elevators, mnist-test\n"
    assert done.stdout.count("genuine") == 3 and done.stdout.count("corrupt: ") == 2


def test_a_decoded_array_of_the_cache_is_checked_too(data_dir, tmp_path, monkeypatch):
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
def test_every_real_set_is_found_where_its_loader_finds_it(data_dir, tmp_path):
    pytest.importorskip("PIL.Image")
    done = run("check", "--json", data=data_dir, cache=tmp_path)
    sets = by_name(done)
    expected = {f"openml-{id}" for id in OPENML} | set(IMAGE_SETS)
    assert {name for name, entry in sets.items() if entry["verdict"] == "genuine"} >= expected, done.stderr


def test_the_group_alone_says_what_it_can_and_bad_input_gets_one_line(tmp_path):
    done = run(cache=tmp_path)
    assert done.returncode == 0 and "list" in done.stdout and "check" in done.stdout
    done = run("list", "--data", tmp_path / "no", cache=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("deltauq: ") and done.stderr.count("\n") == 1
