"""Ending all descendants, with real processes: a subreaper that leaves nobody behind."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from support import leaderless_process
from swarm.mailbox.base.process_tree import children_of, descendants_of, is_zombie, kill_descendants

pytestmark = pytest.mark.live

# A parent that becomes a subreaper, starts what its argument says, and prints the pids it finds.
_REAPER = """
import ctypes, os, subprocess, sys, time
from swarm.mailbox.base.process_tree import descendants_of, is_zombie, kill_descendants
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(["bash", "-c", sys.argv[1]])
deadline = time.monotonic() + 20
while len(alive := [p for p in descendants_of(os.getpid()) if not is_zombie(p)]) < int(sys.argv[2]):
    assert time.monotonic() < deadline, alive
print(*alive, flush=True)
print(kill_descendants(os.getpid()), flush=True)
deadline = time.monotonic() + 5  # a pending SIGKILL takes a moment
while [p for p in descendants_of(os.getpid()) if not is_zombie(p)]:
    assert time.monotonic() < deadline
"""


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("sleep 1000 & sleep 1000 & disown -a", 2),
        ("setsid nohup sleep 1000 >/dev/null 2>&1 &", 1),
        ("setsid bash -c 'setsid sleep 1000 & kill -STOP $$' >/dev/null 2>&1 & sleep 0.1", 2),
        ("trap '' TERM HUP INT; (sleep 1000; true) & disown -a", 2),
        (f"(setsid {leaderless_process.SCRIPT} &) | read line", 1),
    ],
)
async def test_nobody_below_a_subreaper_is_left_alive(script, count):
    with trio.fail_after(30):
        done = await trio.run_process(
            [sys.executable, "-P", "-c", _REAPER, script, str(count)], capture_stdout=True
        )
    pids, sent = done.stdout.decode().splitlines()
    assert len(pids.split()) >= count
    assert int(sent) >= count
    assert all(is_zombie(int(pid)) for pid in pids.split())


async def test_a_spared_child_and_what_is_below_it_live_on():
    with trio.fail_after(30):
        spared = await trio.lowlevel.open_process(["bash", "-c", "sleep 1000 & wait"])
        other = await trio.lowlevel.open_process(["sleep", "1000"])
        try:
            while not (below := children_of(spared.pid)):
                await trio.lowlevel.checkpoint()
            assert {spared.pid, other.pid, *below} <= set(descendants_of(os.getpid()))
            others = [pid for pid in children_of(os.getpid()) if pid != other.pid]
            assert kill_descendants(os.getpid(), spare=others) >= 1  # a round may find it dying
            assert await other.wait() == -signal.SIGKILL
            assert not any(is_zombie(pid) for pid in (spared.pid, *below))
        finally:
            for pid in (*below, spared.pid):
                os.kill(pid, signal.SIGKILL)
            await spared.wait()


def test_a_process_that_is_gone_has_no_children_and_counts_as_ended():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert children_of(gone.pid) == []
    assert descendants_of(gone.pid) == []
    assert is_zombie(gone.pid)


def test_a_process_that_ended_and_is_not_reaped_is_a_zombie():
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_zombie(child.pid)
    child.wait()


def test_a_process_whose_first_thread_has_ended_lives():
    with subprocess.Popen(leaderless_process.ARGV, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"leaderless\n"
        stat = Path(f"/proc/{child.pid}/stat")
        while stat.read_text().rpartition(") ")[2][0] != "Z":
            os.sched_yield()
        assert not is_zombie(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_zombie(child.pid)


# The one child of a subreaper ends while it is looked below, and leaves its own child behind.
_WHILE_LOOKED = """
import ctypes, os, subprocess, sys
from swarm.mailbox.base import process_tree
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
parent = subprocess.Popen(["bash", "-c", "sleep 1000 & wait"])
while not (below := process_tree.children_of(parent.pid)):
    pass
real = process_tree.children_of
def children_of(pid):
    if pid == parent.pid:
        os.kill(pid, 9)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return real(pid)
process_tree.children_of = children_of
assert process_tree.live_descendants_of(os.getpid()) == below, below
os.kill(below[0], 9)
os.waitid(os.P_PID, below[0], os.WEXITED | os.WNOWAIT)
assert process_tree.live_descendants_of(os.getpid()) == []
"""


def test_who_is_adopted_while_one_looks_is_not_missed():
    subprocess.run([sys.executable, "-P", "-c", _WHILE_LOOKED], check=True, timeout=30)


def test_prctl_is_where_we_think_it_is():
    flag = ctypes.c_int(-1)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(flag), 0, 0, 0) == 0  # PR_GET_CHILD_SUBREAPER
    assert flag.value in (0, 1)
