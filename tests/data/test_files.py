import hashlib
import http.server
import threading

import numpy as np
import pytest

from deltauq.data.files import (
    CorruptFileError,
    DataUnavailableError,
    RemoteFile,
    cached_array,
    fetch,
    locate,
)

CONTENT = b"some bytes" * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A temporary data directory and cache."""
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache"


@pytest.fixture
def server(tmp_path):
    """A local web server and the folder that it serves."""
    folder = tmp_path / "web"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


def test_data_directory_comes_before_the_cache(folders):
    data, cache = folders
    file = RemoteFile("set/file.bin", MD5)
    assert locate(file) is None
    (cache / "file.bin").write_bytes(CONTENT)
    assert locate(file) == cache / "file.bin"
    (data / "set").mkdir()
    (data / "set" / "file.bin").write_bytes(CONTENT)
    assert fetch(file) == data / "set" / "file.bin"


def test_missing_files_are_downloaded(folders, server):
    folder, address = server
    (folder / "file.bin").write_bytes(CONTENT)
    file = RemoteFile("file.bin", MD5, f"{address}/file.bin")
    path = fetch(file)
    assert path.read_bytes() == CONTENT and path.parent == folders[1]
    (folder / "file.bin").unlink()
    assert fetch(file) == path  # from the cache


def test_altered_downloads_are_rejected_and_deleted(folders, server):
    folder, address = server
    (folder / "file.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(CorruptFileError, match="truncated or altered"):
        fetch(RemoteFile("file.bin", MD5, f"{address}/file.bin"))
    assert list(folders[1].iterdir()) == []


def test_altered_files_are_rejected(folders):
    (folders[0] / "file.bin").write_bytes(b"else")
    with pytest.raises(CorruptFileError, match=r"file\.bin is truncated or altered"):
        fetch(RemoteFile("file.bin", MD5))


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/file.bin"])
def test_error_for_missing_files_says_where_to_put_them(folders, url):
    with pytest.raises(DataUnavailableError, match=f"file.bin .* put it into {folders[0]}"):
        fetch(RemoteFile("file.bin", MD5, url))


def test_cached_arrays_are_made_once_and_memory_mapped(folders):
    calls = []

    def make():
        calls.append(1)
        return np.arange(6).reshape(2, 3)

    for _ in range(2):
        array = cached_array("six", make)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    assert len(calls) == 1
