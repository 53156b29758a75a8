"""A watcher wakes for the names that it waits for, and for nothing else in the folder."""

import pytest
import trio
import trio.testing

from swarm.supervisor.parts.skills.folder_events import FolderEvents

NAMES = frozenset({"SKILL.md"})


@pytest.fixture
def events():
    watcher = FolderEvents()
    yield watcher
    watcher.close()


def test_a_file_of_that_name_counts_and_others_do_not(events, tmp_path):
    events.watch(str(tmp_path), NAMES)
    (tmp_path / "notes.txt").write_text("a")
    (tmp_path / "folder").mkdir()
    assert not events.read_pending()
    (tmp_path / "SKILL.md").write_text("a")
    assert events.read_pending()
    (tmp_path / "new").write_text("b")
    (tmp_path / "new").rename(tmp_path / "SKILL.md")
    assert events.read_pending()
    (tmp_path / "SKILL.md").unlink()
    assert events.read_pending()


def test_a_new_folder_counts_where_that_is_asked_for(events, tmp_path):
    events.watch(str(tmp_path), NAMES, new_folders=True)
    (tmp_path / "release").mkdir()
    assert events.read_pending()


def test_the_end_of_the_folder_itself_counts(events, tmp_path):
    (tmp_path / "skills").mkdir()
    events.watch(str(tmp_path / "skills"), NAMES)
    (tmp_path / "skills").rmdir()
    assert events.read_pending()


def test_a_folder_that_is_not_there_is_an_error_that_names_it(events, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        events.watch(str(tmp_path / "none"), NAMES)
    assert error.value.filename == str(tmp_path / "none")


async def test_a_wait_ends_with_a_change_that_comes_later(events, tmp_path):
    events.watch(str(tmp_path), NAMES)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(events.wait)
            await trio.testing.wait_all_tasks_blocked()
            (tmp_path / "other").touch()
            (tmp_path / "SKILL.md").touch()
