"""Which folder of all users is fit for temporary files of one."""

import os

import pytest

from swarm.mailbox.base import short_places
from swarm.mailbox.base.short_places import find_short_base


@pytest.fixture
def bases(tmp_path, monkeypatch):
    """Two folders in the place of /tmp and /var/tmp."""
    found = (tmp_path / "one", tmp_path / "two")
    for folder in found:
        folder.mkdir()
        folder.chmod(0o1777)
    monkeypatch.setattr(short_places, "_BASES", tuple(map(str, found)))
    return found


def test_the_first_one_is_taken_by_its_real_path(bases, tmp_path):
    assert find_short_base() == str(bases[0])
    bases[0].rename(tmp_path / "elsewhere")
    bases[0].symlink_to(tmp_path / "elsewhere")
    assert find_short_base() == str(tmp_path / "elsewhere")


def test_one_in_which_others_could_rename_a_folder_is_passed_over(bases):
    bases[0].chmod(0o777)
    assert find_short_base() == str(bases[1])


def test_one_that_is_not_there_is_passed_over(bases):
    bases[0].rmdir()
    assert find_short_base() == str(bases[1])
    bases[1].rmdir()
    assert find_short_base() is None


def test_one_in_which_programs_do_not_start_is_passed_over(bases, monkeypatch):
    real = os.statvfs

    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(
        short_places.os, "statvfs", lambda path: Mounted if path == str(bases[0]) else real(path)
    )
    assert find_short_base() == str(bases[1])
