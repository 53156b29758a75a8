"""No failure of the machine during a start is more than a failed start."""

import errno
import os
import resource
import threading

import pytest

from swarm.mailbox.base.errors import PeerGone, SwarmError
from swarm.supervisor.processes.process_types import DiedBeforeHello, SpawnError
from swarm.supervisor.processes.start_faults import start_faults
from swarm.supervisor.run_start.machine_room import NoRoom, check_room


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "gone", "/s/memories"),
        OSError(errno.EBADF, "Bad file descriptor"),
        OSError("of an unknown kind"),
        OSError(errno.EMFILE, "x"),
        RuntimeError("can't start new thread"),
        MemoryError(),
        SwarmError("cannot create the folder /x: no space"),
        ExceptionGroup("g", [OSError(errno.ENOSPC, "x")]),
    ],
)
def test_it_becomes_a_failed_start_that_names_the_agent(error):
    with pytest.raises(SpawnError, match="/root/a could not be started"), start_faults("/root/a"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        RuntimeError("x"),
        DiedBeforeHello("d"),
        PeerGone("p"),
        ExceptionGroup("g", [ValueError("x")]),
    ],
)
def test_any_other_error_passes_as_it_is(error):
    with pytest.raises(type(error)) as caught, start_faults("/root/a"):
        raise error
    assert caught.value is error


def test_a_machine_with_room_is_left_as_it_was():
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    check_room()
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == before


def test_a_machine_without_descriptors_is_told_before_anything_starts():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 8, hard))
    try:
        with pytest.raises(NoRoom, match="ulimit -n"):
            check_room()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == before
