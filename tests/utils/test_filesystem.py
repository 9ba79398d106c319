"""Files appear when they are complete, with the permissions of any new file."""

import pytest

from deltauq.utils.filesystem import atomic_write, set_default_permissions


def test_file_appears_only_when_complete(tmp_path):
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "file") as part:
        part.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_replaced_and_parents_are_created(tmp_path):
    target = tmp_path / "new" / "file"
    for text in ("one", "two"):
        with atomic_write(target) as part:
            part.write_text(text)
        assert target.read_text() == text
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    with atomic_write(tmp_path / "file"):
        pass
    (tmp_path / "other").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "private").mkdir(mode=0o700)
    set_default_permissions(tmp_path / "private")
    (tmp_path / "folder").mkdir()
    assert (tmp_path / "private").stat().st_mode == (tmp_path / "folder").stat().st_mode
