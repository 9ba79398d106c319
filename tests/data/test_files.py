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
    locate,
    obtain,
)

CONTENT = b"some bytes" * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A data directory and a cache of the test's own."""
    for name in ("data", "cache"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("DELTAUQ_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("DELTAUQ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "data", tmp_path / "cache"


@pytest.fixture
def server(tmp_path):
    """A web server on this machine that serves a folder."""
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


def test_the_data_directory_comes_before_the_cache(places):
    data, cache = places
    file = RemoteFile("set/file.bin", MD5)
    assert locate(file) is None
    (cache / "file.bin").write_bytes(CONTENT)
    assert locate(file) == cache / "file.bin"
    (data / "set").mkdir()
    (data / "set" / "file.bin").write_bytes(CONTENT)
    assert obtain(file) == data / "set" / "file.bin"


def test_a_file_that_lies_nowhere_is_downloaded_with_progress(places, server):
    folder, address = server
    (folder / "file.bin").write_bytes(CONTENT)
    seen = []
    file = RemoteFile("file.bin", MD5, f"{address}/file.bin")
    path = obtain(file, lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT and path.parent == places[1]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    (folder / "file.bin").unlink()
    assert obtain(file) == path, "the second time it comes from the cache"


def test_an_altered_download_is_refused_and_leaves_nothing_behind(places, server):
    folder, address = server
    (folder / "file.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(CorruptFileError, match="truncated or altered"):
        obtain(RemoteFile("file.bin", MD5, f"{address}/file.bin"))
    assert list(places[1].iterdir()) == []


def test_an_altered_file_in_the_data_directory_is_refused(places):
    (places[0] / "file.bin").write_bytes(b"else")
    with pytest.raises(CorruptFileError, match=r"file\.bin is truncated or altered"):
        obtain(RemoteFile("file.bin", MD5))


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:9/file.bin"])
def test_a_file_that_cannot_be_had_says_where_to_put_it(places, url):
    with pytest.raises(DataUnavailableError, match=f"file.bin .* put it into {places[0]}"):
        obtain(RemoteFile("file.bin", MD5, url))


def test_arrays_are_made_once_and_then_mapped(places):
    calls = []

    def make():
        calls.append(1)
        return np.arange(6).reshape(2, 3)

    for _ in range(2):
        array = cached_array("six", make)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    assert len(calls) == 1
