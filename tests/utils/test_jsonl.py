import json
import os
import subprocess
import sys
import textwrap

import pytest

from deltauq.utils.jsonl import JsonLines


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "lines.jsonl"


def test_records_are_read_in_order(path):
    lines = JsonLines(path)
    assert list(lines) == []
    for k in range(3):
        lines.append({"k": k})
    assert [record["k"] for record in JsonLines(path)] == [0, 1, 2]


@pytest.mark.parametrize("incomplete", ['{"k": 1', '{"k": ' + "1" * 10_000, "\x00\x00"])
def test_incomplete_last_line_is_skipped_and_then_removed(path, incomplete):
    lines = JsonLines(path)
    lines.append({"k": 0})
    with path.open("a") as file:
        file.write(incomplete)
    assert [record["k"] for record in lines] == [0]
    lines.append({"k": 2})
    assert [json.loads(line)["k"] for line in path.read_text().splitlines()] == [0, 2]


def test_last_line_without_newline_is_kept(path):
    lines = JsonLines(path)
    lines.append({"k": 0})
    with path.open("a") as file:
        file.write('{"k": 1}')
    lines.append({"k": 2})
    assert [record["k"] for record in lines] == [0, 1, 2]


def test_killed_writer_loses_at_most_one_record(path):
    program = textwrap.dedent("""
        import sys
        from deltauq.utils.jsonl import JsonLines
        lines, k = JsonLines(sys.argv[1]), 0
        while True:
            lines.append({"k": k, "text": "x" * 5000})
            print(k, flush=True)
            k += 1
    """)
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as process:
        for _ in range(20):
            last = int(process.stdout.readline())
        process.kill()
    numbers = [record["k"] for record in JsonLines(path)]
    assert numbers[: last + 1] == list(range(last + 1))
    JsonLines(path).append({"k": -1})
    assert [json.loads(line)["k"] for line in path.read_text().splitlines()] == [*numbers, -1]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_full_disk_raises(path):
    path.parent.mkdir()
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="space"):
        JsonLines(path).append({"k": 0})
