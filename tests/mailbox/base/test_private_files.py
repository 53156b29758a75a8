"""What swarm keeps for itself is private whatever the umask is, folders above it included."""

import os
import socket
import stat
from pathlib import Path

import pytest

from swarm.mailbox.base.private_files import (
    APPEND,
    close_to_others,
    make_own_folders,
    open_own_file,
    write_own_file,
)
from swarm.mailbox.delivery.guarded_listener import _unix_listener
from swarm.mailbox.delivery.polled import bind, open_socket


@pytest.fixture(params=[0, 0o022, 0o077], ids=oct, autouse=True)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_that_are_missing_are_made_and_others_keep_their_modes(tmp_path):
    tmp_path.chmod(0o755)
    make_own_folders(tmp_path / "a/b/c")
    make_own_folders(tmp_path / "a/b/c")
    assert [mode(tmp_path / one) for one in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert mode(tmp_path) == 0o755


def test_what_must_not_be_there_is_said(tmp_path):
    with pytest.raises(FileExistsError):
        make_own_folders(tmp_path, exist_ok=False)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_own_folders(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        make_own_folders(tmp_path / "file/below")


def test_files_are_private_and_no_link_is_followed(tmp_path):
    write_own_file(tmp_path / "a", b"one")
    write_own_file(tmp_path / "a", b"2")
    os.close(open_own_file(tmp_path / "b", APPEND))
    assert (tmp_path / "a").read_bytes() == b"2"
    assert mode(tmp_path / "a") == mode(tmp_path / "b") == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        write_own_file(tmp_path / "link", b"x")


def test_a_socket_is_for_this_user_alone(tmp_path):
    with socket.socket(socket.AF_UNIX) as plain:
        plain.bind(str(tmp_path / "s"))
        close_to_others(tmp_path / "s")
    assert mode(tmp_path / "s") == 0o600
    with _unix_listener(str(tmp_path / "listener")):
        assert mode(tmp_path / "listener") == 0o600


async def test_a_mailbox_is_for_this_user_alone(tmp_path):
    with open_socket("router") as listening:
        bind(listening, f"ipc://{tmp_path}/mail")
        assert mode(tmp_path / "mail") == 0o600


def test_no_folder_of_swarm_is_made_with_parents_that_the_umask_decides_on():
    root = Path(__file__).parents[3]
    files = [one for name in ("mailbox", "roles", "worker", "supervisor")
             for one in (root / name).rglob("*.py")]  # fmt: skip
    found = {str(one.relative_to(root)) for one in files
             if "mkdir(mode=0o700, parents=True" in one.read_text("utf-8")}  # fmt: skip
    # Ray's actor has the standard library alone; it makes each folder by itself.
    assert found == {"worker/parts/hosts/node_holder.py"}
