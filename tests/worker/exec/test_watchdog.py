"""Which command is killed for what, on a virtual clock, with processes of this test as subjects."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.values.limits import ResourceLimits
from swarm.worker.exec.cgroup import Cgroup, enter_cgroup, find_parent_cgroup
from swarm.worker.exec.exec_outcome import overrun_text
from swarm.worker.exec.launcher_protocol import Overrun
from swarm.worker.exec.process_usage import read_machine_load
from swarm.worker.exec.watchdog import Watchdog
from swarm.worker.exec.watchdog_schedule import (
    LONG_INTERVAL_S,
    MachineLoad,
    ResourceHeadroom,
    WatchdogSchedule,
)

MIB = 1 << 20


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@contextmanager
def eater(size):
    """A process that holds so much memory, and a fork that shares it."""
    code = f"import os, time; x = bytearray({size}); os.fork(); os.write(1, b'.'); time.sleep(99)"
    argv = [sys.executable, "-I", "-S", "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) + process.stdout.read(1) == b".."
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, 9)


def family(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [pid, *map(int, file.read().split())]


def test_nothing_is_looked_at_without_a_bound(clock):
    dog = Watchdog(clock, may_come_first=False)
    dog.watch(1, ResourceLimits())
    assert dog.next_check_ms() is None
    clock.now += 1000
    assert dog.check(lambda: 1 / 0) == []
    assert dog.unwatch(1) is None


def test_time_is_up_to_the_moment_and_told_once(clock):
    dog = Watchdog(clock, may_come_first=False)
    dog.watch(7, ResourceLimits(command_s=60))
    clock.now += 59.9
    assert dog.check(dict) == []
    assert 0 < dog.next_check_ms() <= 101
    clock.now += 0.1
    assert dog.check(dict) == [7]
    assert dog.check(dict) == []
    assert dog.next_check_ms() is None
    assert dog.unwatch(7) == Overrun(limit="command_seconds", allowed=60, measured=60)


def test_processes_are_counted_a_command_and_together(clock):
    dog = Watchdog(clock, may_come_first=False)
    limits = ResourceLimits(command_processes=10, agent_processes=15)
    trees = {1: range(1_000_000, 1_000_011), 2: range(2_000_000, 2_000_009), 3: range(9)}
    for token in trees:
        dog.watch(token, limits)
    assert dog.check(lambda: trees) == []  # not yet time to look
    clock.now += 0.5
    assert dog.check(lambda: trees) == [1, 2]
    assert dog.unwatch(1) == Overrun(limit="command_processes", allowed=10, measured=11)
    assert dog.unwatch(2) == Overrun(limit="agent_processes", allowed=15, measured=18)
    assert dog.unwatch(3) is None


def test_memory_that_forks_share_is_counted_once(clock):
    with eater(64 * MIB) as pid:
        tree = family(pid)
        assert len(tree) == 2
        dog = Watchdog(clock, may_come_first=False)
        dog.watch(1, ResourceLimits(command_memory_bytes=100 * MIB))
        clock.now += 1
        assert dog.check(lambda: {1: tree}) == []
        dog.watch(2, ResourceLimits(command_memory_bytes=40 * MIB))
        clock.now += 1
        assert dog.check(lambda: {1: (), 2: tree}) == [2]
        over = dog.unwatch(2)
        assert over.limit == "command_memory"
        assert 64 * MIB <= over.measured < 100 * MIB


def walks(dog, clock, seconds, trees):
    """How often all processes were looked at."""
    count, until = 0, clock.now + seconds

    def walk():
        nonlocal count
        count += 1
        return trees

    while (wait_ms := dog.next_check_ms()) is not None and clock.now + wait_ms / 1000 <= until:
        clock.now += wait_ms / 1000
        dog.check(walk)
    clock.now = until
    return count


def test_the_steady_are_looked_at_seldom_and_the_growing_at_once(clock):
    machine = MachineLoad(10_000 * MIB, 300)
    dog = Watchdog(clock, read=lambda: machine, may_come_first=False)
    trees = {token: [2**22 + token] for token in range(1, 101)}
    for token in trees:
        dog.watch(token, ResourceLimits(command_memory_bytes=1000 * MIB, agent_processes=1000))
    walks(dog, clock, 10, trees)
    assert walks(dog, clock, 100, trees) <= 21
    machine = MachineLoad(9_700 * MIB, 300)  # somebody took more than a quarter of what may be left
    assert walks(dog, clock, 0.6, trees) == 1
    walks(dog, clock, 10, trees)
    machine = MachineLoad(9_700 * MIB, 600)
    assert walks(dog, clock, 0.6, trees) == 1
    dog.watch(101, ResourceLimits(agent_processes=1000))
    assert walks(dog, clock, 0.3, trees) == 1


def test_without_figures_of_the_machine_it_looks_four_times_a_second(clock):
    dog = Watchdog(clock, read=lambda: None, may_come_first=False)
    dog.watch(1, ResourceLimits(agent_processes=1000))
    assert walks(dog, clock, 100, {1: [2**22 + 1]}) >= 350


def test_the_figures_of_this_machine_are_read():
    machine = read_machine_load()
    assert machine is not None
    assert machine.available_bytes > MIB
    assert machine.tasks > 1


@given(
    st.lists(
        st.tuples(
            st.floats(0, 8), st.integers(0, 2**40), st.integers(0, 10**6), st.integers(-9, 9999)
        )
    )
)
def test_whatever_happens_the_next_look_is_at_most_five_seconds_away(steps):
    pace, now = WatchdogSchedule(), 0.0
    pace.note_start(now, is_first=True)
    looked = now
    for more_s, available, tasks, room in steps:
        now = max(now + more_s, pace.next_at)
        machine = MachineLoad(available, tasks)
        if pace.is_due(now, machine):
            pace.note_check(now, ResourceHeadroom(room, room), machine)
            looked = now
        assert now < pace.next_at <= max(now, looked) + LONG_INTERVAL_S
        assert now - looked < LONG_INTERVAL_S


def test_a_process_that_is_gone_weighs_nothing(clock):
    dog = Watchdog(clock, may_come_first=False)
    dog.watch(1, ResourceLimits(command_memory_bytes=1))
    clock.now += 1
    assert dog.check(lambda: {1: [2**22 + 1]}) == []


@pytest.mark.parametrize(
    ("overrun", "words"),
    [
        (None, ""),
        (Overrun(limit="command_memory", allowed=64 * MIB, measured=100 * MIB),
         "the command was killed: it used 100 MiB of memory, and 64 MiB are allowed"
         " (limits.command_memory)"),
        (Overrun(limit="agent_processes", allowed=9, measured=10),
         "the command was killed: together with this agent's other commands it had 10 processes,"
         " and 9 are allowed (limits.agent_processes)"),
        (Overrun(limit="command_seconds", allowed=60, measured=60),
         "the command was killed: it ran for the 60 s that a command may take"
         " (limits.command_seconds)"),
    ],
)  # fmt: skip
def test_the_model_reads_which_limit_it_was(overrun, words):
    assert overrun_text(overrun) == words


@pytest.fixture
def hierarchy(tmp_path):
    """What the kernel shows, as files: a scope below a slice that hands control on."""
    root = tmp_path / "cgroup"
    scope = root / "app.slice/run.scope"
    scope.mkdir(parents=True)
    for folder in (scope.parent, scope):
        (folder / "cgroup.procs").touch()
    (scope.parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("1:cpu:/\n0::/app.slice/run.scope\n")
    (proc / "mountinfo").write_text(
        f"24 1 0:21 / /sys rw - sysfs sysfs rw\n30 24 0:26 / {root} rw shared:9 - cgroup2 none rw\n"
    )
    return proc, scope


def test_groups_are_made_beside_our_own_where_control_is_handed_on(hierarchy):
    proc, scope = hierarchy
    assert find_parent_cgroup(proc) == (scope.parent, scope)


@pytest.mark.parametrize("lack", ["control", "mount", "version"])
def test_without_delegation_there_are_no_groups(hierarchy, lack):
    proc, scope = hierarchy
    if lack == "control":
        (scope.parent / "cgroup.subtree_control").write_text("cpu\n")
    elif lack == "mount":
        (proc / "mountinfo").write_text("24 1 0:21 / /sys rw - sysfs sysfs rw\n")
    else:
        (proc / "cgroup").write_text("4:memory:/x\n")
    assert find_parent_cgroup(proc) is None
    assert enter_cgroup(ResourceLimits(agent_processes=9), proc) is None


@pytest.fixture
def events(tmp_path, clock):
    """The kernel's file of a cgroup's events, and a watchdog of commands in that cgroup."""
    limits = ResourceLimits(agent_memory_bytes=64 * MIB)
    dog = Watchdog(
        clock,
        may_come_first=False,
        enter=lambda _: Cgroup(tmp_path, tmp_path, limits.agent_memory_bytes),
    )
    dog.prepare(limits)
    (tmp_path / "memory.events").write_text("oom 0\noom_kill 0\n")
    (tmp_path / "memory.peak").write_text(f"{65 * MIB}\n")
    return tmp_path / "memory.events", dog, limits


OOM = Overrun(limit="agent_memory", allowed=64 * MIB, measured=65 * MIB)


def test_a_kill_by_the_kernel_is_told_of_one_command_that_was_killed(events):
    file, dog, limits = events
    for token in (1, 2, 3):
        dog.watch(token, limits)
    file.write_text("oom 1\noom_kill 1\n")
    assert dog.unwatch(1) is None  # it ended by itself
    assert dog.unwatch(2, was_killed=True) == OOM
    assert dog.unwatch(3, was_killed=True) is None


def test_a_kill_by_the_kernel_is_not_told_of_a_command_that_began_later(events):
    file, dog, limits = events
    dog.watch(1, limits)
    file.write_text("oom 1\noom_kill 1\n")  # of a grandchild: the command itself ends in order
    assert dog.unwatch(1) is None
    dog.watch(2, limits)
    assert dog.unwatch(2, was_killed=True) is None  # somebody else's SIGKILL
    dog.watch(3, limits)
    file.write_text("oom 2\noom_kill 2\n")
    assert dog.unwatch(3, was_killed=True) == OOM


def test_a_group_that_cannot_be_entered_is_not_left_behind(hierarchy):
    proc, scope = hierarchy  # plain folders lack the kernel's files, so writing there fails
    assert enter_cgroup(ResourceLimits(agent_processes=9), proc) is None
    assert [entry.name for entry in scope.parent.iterdir() if entry.is_dir()] == ["run.scope"]
