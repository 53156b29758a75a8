"""The short folders for temporary files: whose they are, and when they go."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from swarm.mailbox.base.remove_tree import remove_tree
from swarm.supervisor.runs.short_tmp import ShortTmp, find_short_folder, open_short_tmp

_HELD = """
import os, sys
from pathlib import Path
from swarm.supervisor.runs.short_tmp import open_short_tmp
with open_short_tmp(Path(sys.argv[1]), "killed12") as short:
    (short.folder / "agent").mkdir()
    (short.folder / "agent" / "left").touch()
    print(short.folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path):
    yield tmp_path / "state"
    if (folder := find_short_folder(tmp_path / "state")) is not None:
        remove_tree(folder)


@pytest.fixture
def other_run(state):
    """A run of another process, and its folder."""
    words = [sys.executable, "-P", "-c", _HELD, str(state)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        yield other, Path(other.stdout.readline().strip())
        other.kill()


def test_a_folder_for_sockets_is_short_private_and_gone_after_the_run(state):
    with open_short_tmp(state, "12345678") as short:
        own = short.of_agent("01a1fc24-7204-710f-b302-2343189d0946")
        own.mkdir()
        (own / "file").touch()
        assert len(str(own)) <= 40
        assert len(str(short.of_servers)) < 40
        for folder in (short.folder, short.folder.parent):
            assert folder.stat().st_mode & 0o7777 == 0o700
            assert folder.stat().st_uid == os.geteuid()
        assert find_short_folder(state) == short.folder.parent
    assert not short.folder.parent.exists()
    assert find_short_folder(state) is None
    assert not [*(state / "locks").glob("tmp-*")]


def test_runs_share_the_outer_folder_and_the_last_one_removes_it(state):
    with open_short_tmp(state, "aaaaaaaa") as one:
        with open_short_tmp(state, "bbbbbbbb") as other:
            assert one.folder.parent == other.folder.parent
            assert other.stale == ()
        assert one.folder.is_dir()
        assert not other.folder.exists()
    assert not one.folder.parent.exists()


def _open(folder):
    folder.chmod(0o711)


def _foreign(folder):
    os.chown(folder, 1, 1)


def _link(folder):
    real = folder.with_name(folder.name + "-real")
    folder.rename(real)
    folder.symlink_to(real)


@pytest.mark.parametrize("spoil", [_open, _foreign, _link])
def test_a_folder_that_is_not_ours_alone_is_passed_over_and_another_one_made(
    state, tmp_path, spoil
):
    if spoil is _foreign and os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    taken = tmp_path / "swarm-taken"
    taken.mkdir(mode=0o700)
    state.mkdir()
    (state / "short-tmp").write_bytes(os.fsencode(taken))
    assert find_short_folder(state) == taken
    spoil(taken)
    with open_short_tmp(state, "12345678") as short:
        assert short.folder.parent != taken
        assert [*taken.iterdir()] == []
    assert taken.is_dir()


@pytest.mark.parametrize("pointer", [b"", b"relative", b"/", b"/tmp", b"/nowhere\0", b"\xff" * 99])
def test_a_damaged_pointer_leads_nowhere(state, pointer):
    state.mkdir()
    (state / "short-tmp").write_bytes(pointer)
    assert find_short_folder(state) is None
    with open_short_tmp(state, "12345678") as short:
        assert short.folder.is_dir()


def test_what_a_killed_run_left_is_removed_by_the_next_one(state, other_run):
    other, folder = other_run
    other.send_signal(signal.SIGKILL)
    other.wait()
    with open_short_tmp(state, "12345678") as short:
        assert not folder.exists()
        assert [(one / "agent" / "left").exists() for one in short.stale] == [True]
        short.remove_stale()
        assert [*short.folder.parent.iterdir()] == [short.folder]
        assert [one.name for one in (state / "locks").glob("tmp-*")] == ["tmp-12345678"]


def test_what_a_run_left_that_was_killed_while_it_removed_others_goes_too(state, other_run):
    other, folder = other_run
    other.kill()
    other.wait()
    with open_short_tmp(state, "aaaaaaaa") as one:  # ends before it has removed anything
        assert one.stale
    with open_short_tmp(state, "bbbbbbbb") as two:
        assert two.stale == one.stale
        two.remove_stale()
    assert not folder.parent.exists()


def test_what_a_living_run_holds_stays(state, other_run):
    _, folder = other_run
    with open_short_tmp(state, "12345678") as short:
        assert short.stale == ()
        assert (folder / "agent" / "left").exists()
    assert (folder / "agent" / "left").exists()


def test_a_resumed_run_finds_what_nobody_has_removed(state, other_run):
    other, folder = other_run
    other.kill()
    other.wait()
    with open_short_tmp(state, "killed12") as short:
        assert short.folder == folder
        assert (folder / "agent" / "left").exists()


def test_without_a_place_the_person_is_told_and_nothing_else_is_different(state, monkeypatch):
    monkeypatch.setattr("swarm.supervisor.runs.short_tmp.find_short_base", lambda: None)
    with open_short_tmp(state, "12345678") as short:
        assert (short.folder, short.of_agent("x"), short.of_servers) == (None, None, None)
        assert "/tmp, /var/tmp" in short.warning
    assert ShortTmp().warning == ""
