"""`doctor --reap` ends what a dead run left, and nothing that belongs to anybody else."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from msgspec import structs

from swarm.mailbox.base.ids import new_uuid7, short_id
from swarm.supervisor.runs.leftovers import Leftovers, end_leftovers, find_leftovers
from swarm.supervisor.runs.paths import UserPaths, paths_of_run
from swarm.supervisor.runs.run_metadata import lock_run

LIMIT_S = 30
RUN = new_uuid7()
MINE = short_id(RUN)

# A process with a title of our kind; detached, it hangs on a parent of another session.
TITLED = (
    "import os, sys, time\n"
    "from setproctitle import setproctitle\n"
    "if sys.argv[2] == 'detached':\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "setproctitle(sys.argv[1]); print(os.getpid(), flush=True); time.sleep(1000)\n"
)

pytestmark = pytest.mark.live


@pytest.fixture
def places(tmp_path) -> UserPaths:
    made = UserPaths(
        config=tmp_path, state=tmp_path / "s", cache=tmp_path, runtime=tmp_path / "runtime"
    )
    paths_of_run(made, RUN).folder.mkdir(parents=True)
    paths_of_run(made, RUN).sockets.mkdir(parents=True)
    return made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def begin(stack: ExitStack, title: str, *, how: str = "attached") -> int:
    """Start a titled process; return its pid. It never outlives the test."""
    command = [sys.executable, "-P", "-c", TITLED, title, how]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    stack.callback(process.wait)
    pid = int(process.stdout.readline())
    process.stdout.close()
    stack.callback(end, pid)
    return pid


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def begin_marked(stack: ExitStack) -> int:
    """A command of an agent that is gone: its environment alone tells whose it was."""
    script = "setsid sh -c 'echo $$; exec sleep 1000' &"
    done = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, env=os.environ | {"SWARM_COMMAND": "12-3"}
    )
    assert done.stdout is not None
    stack.callback(done.wait)
    pid = int(done.stdout.readline())
    done.stdout.close()
    stack.callback(end, pid)
    return pid


def found_pids(places: UserPaths) -> set[int]:
    return {one.pid for one in find_leftovers(places).processes}


def find_mine(places: UserPaths) -> Leftovers:
    """Only this test's run: others may have left something on this machine."""
    found = find_leftovers(places)
    mine = tuple(one for one in found.processes if one.run == MINE)
    return Leftovers(processes=mine, folders=found.folders)


async def test_an_agent_of_a_run_that_nobody_holds_is_found_and_ended(places, stack):
    pid = begin(stack, f"swarm: /root/scout [explorer] {MINE}", how="detached")
    pidfd = os.pidfd_open(pid)
    found = find_mine(places)
    assert [(one.pid, one.run) for one in found.processes] == [(pid, MINE)]
    assert found.folders == (str(paths_of_run(places, RUN).sockets),)
    assert end_leftovers(found, places) == found
    with trio.fail_after(LIMIT_S):
        await trio.lowlevel.wait_readable(pidfd)
    os.close(pidfd)
    assert find_mine(places) == Leftovers()


def test_a_dead_socket_of_the_embedded_model_is_removed_and_a_living_one_is_left(places):
    with ExitStack() as stack:
        folders = [
            Path(
                stack.enter_context(TemporaryDirectory(prefix="swarm-", ignore_cleanup_errors=True))
            )
            for _ in range(3)
        ]
        dead, alive, other = folders
        sockets = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in folders]
        for folder, one in zip(folders, sockets, strict=True):
            one.bind(str(folder / "llm.sock"))
        sockets[1].listen()
        (other / "something-else").touch()
        found = find_leftovers(places)
        assert {str(dead)} == {str(one) for one in folders} & set(found.folders)
        mine = Leftovers(folders=(str(dead), str(alive), str(other)))
        assert end_leftovers(mine, places).folders == (str(dead),)
        assert [one.exists() for one in folders] == [False, True, True]


def test_an_agents_sleeping_launcher_is_found_by_its_title(places, stack):
    pid = begin(stack, f"swarm: launcher of /root/scout [explorer] {MINE}", how="detached")
    assert [one.pid for one in find_mine(places).processes] == [pid]


def test_a_run_that_is_held_has_no_leftovers(places, stack):
    begin(stack, f"swarm: /root/scout [explorer] {MINE}", how="detached")
    before = find_mine(places)
    with lock_run(paths_of_run(places, RUN)):
        assert find_mine(places).processes == ()
        assert find_mine(places).folders == ()
        nothing = end_leftovers(before, places)  # it was found before the run was resumed
        assert (nothing.processes, nothing.folders) == ((), ())
    assert Path(before.folders[0]).exists()


@pytest.mark.parametrize(
    "title",
    [
        "swarm: tmux",
        "swarming: /root/scout [explorer] 01234567",
        "vi swarm: /root/scout [explorer] 01234567",
        "swarm: /root/scout [explorer] 01234567 and more",
    ],
)
def test_a_foreign_title_is_never_touched(places, stack, title):
    pid = begin(stack, title, how="detached")
    assert pid not in found_pids(places)


def test_an_unknown_runs_process_whose_parent_lives_is_left_alone(places, stack):
    pid = begin(stack, "swarm: gateway 01234567")
    assert pid not in found_pids(places)


def test_an_unknown_runs_process_without_its_supervisor_is_found(places, stack):
    pid = begin(stack, "swarm: gateway 01234567", how="detached")
    assert pid in found_pids(places)


def test_a_marked_command_without_any_agent_above_it_is_found(places, stack):
    pid = begin_marked(stack)
    assert pid in found_pids(places)


def test_a_process_that_changed_since_it_was_found_is_spared(places, stack):
    pid = begin(stack, f"swarm: /root [default] {MINE}", how="detached")
    found = find_mine(places)
    reused = (structs.replace(one, started=one.started + 1) for one in found.processes)
    other = structs.replace(found, processes=tuple(reused))
    assert pid in {one.pid for one in found.processes}
    assert end_leftovers(other, places).processes == ()
    assert pid in found_pids(places)
