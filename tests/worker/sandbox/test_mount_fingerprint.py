"""A sandbox that waits is of use only while every path leads to what it led to."""

import os
import shutil
import subprocess
import sys

import pytest

from swarm.worker.sandbox.mount_fingerprint import MountFingerprint

MOUNTING = """
import ctypes, sys
from swarm.worker.sandbox.mount_fingerprint import MountFingerprint
libc = ctypes.CDLL(None, use_errno=True)
with MountFingerprint([sys.argv[1]]) as fingerprint:
    before = fingerprint.is_unchanged()
    if libc.mount(b"none", sys.argv[2].encode(), b"tmpfs", 0, None):
        sys.exit(77)
    print(before, fingerprint.is_unchanged())
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


def test_what_is_only_written_in_changes_no_ground(place):
    with MountFingerprint([str(place), "/"]) as fingerprint:
        (place / "file").write_text("x")
        os.utime(place)
        assert fingerprint.is_unchanged()


def renamed_and_made_again(place):
    place.rename(place.with_name("aside"))
    place.mkdir()


def removed_and_made_again(place):
    """The successor would often have the same inode number, were the first not held."""
    place.rmdir()
    place.mkdir()


def turned_into_a_link(place):
    place.rename(place.with_name("aside"))
    place.symlink_to("aside")


def moved_with_its_parent(place):
    place.parent.rename(place.parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    "change",
    [
        renamed_and_made_again, removed_and_made_again, turned_into_a_link, moved_with_its_parent,
        os.rmdir,
    ],
)  # fmt: skip
def test_another_thing_at_a_path_is_another_ground(place, change):
    with MountFingerprint(["/", str(place)]) as fingerprint:
        assert fingerprint.is_unchanged()
        change(place)
        assert not fingerprint.is_unchanged()


def test_a_mount_anywhere_is_another_ground(place):
    unshare = shutil.which("unshare")
    assert unshare is not None
    other = place.with_name("other")
    other.mkdir()
    done = subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", sys.executable, "-P", "-c", MOUNTING,
         str(place), str(other)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "True False\n"


def test_what_is_not_there_gives_no_ground_and_leaves_nothing_open(place):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(FileNotFoundError):
        MountFingerprint([str(place), str(place / "nothing")])
    fingerprint = MountFingerprint([str(place)])
    fingerprint.close()
    fingerprint.close()
    assert os.listdir("/proc/self/fd") == before
