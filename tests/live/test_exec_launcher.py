"""The launcher itself: it dies with its agent and its run, and nothing it started survives it."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import pytest
import trio

from support import leaderless_process
from swarm.mailbox.base.process_tree import children_of, descendants_of, is_zombie
from swarm.worker.exec import launcher_client as launcher_module
from swarm.worker.exec.command_state import CommandNotStarted, LauncherGone
from swarm.worker.exec.launcher_client import LauncherLink, open_launcher
from swarm.worker.exec.launcher_protocol import CommandLimits
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan

CODE = (
    "import socket,sys; from swarm.worker.exec.launcher_process import become_launcher;"
    "become_launcher(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]) or None)"
)
BASE = {"PATH": "/usr/bin:/bin"}
STUBBORN = (
    "trap '' TERM HUP INT; (setsid nohup sh -c 'trap \"\" TERM; sleep 90' &);"
    "(env -i setsid sleep 91 &); sleep 92 & kill -STOP $!;"
    f"(setsid {leaderless_process.SCRIPT} &) | read line; echo up; wait"
)


@pytest.fixture
def launcher():
    """A launcher process, its socket and the writing end of its lifeline."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line, writer = os.pipe()
    argv = [sys.executable, "-P", "-c", CODE, str(theirs.fileno()), str(line)]
    with subprocess.Popen(argv, pass_fds=[theirs.fileno(), line]) as process:
        theirs.close()
        os.close(line)
        yield LauncherLink(pid=process.pid, sock=ours), writer
        ours.close()
        with suppress(OSError):  # a test may have closed it
            os.close(writer)
        process.kill()


def request(*argv, **more):
    return CommandRequest(argv=argv, cwd="/", environment=BASE, sandbox=SandboxPlan(), **more)


async def output_of(command):
    found = b""
    while chunk := await command.receive():
        found += chunk
    return found


def all_end(pids, limit_s=1.0):
    """Within the second that the house allows."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if all(is_zombie(pid) for pid in pids):
            return True
    return False


@pytest.mark.parametrize("cause", ["socket", "lifeline", "SIGTERM"])
async def test_nothing_survives_the_launcher(launcher, cause):
    link, writer = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            command = await start_command(opened, request("sh", "-c", STUBBORN))
            assert await command.receive() == b"up\n"
            family = descendants_of(link.pid)
            assert len(family) >= 5
            if cause == "socket":
                link.sock.shutdown(socket.SHUT_RDWR)
            elif cause == "lifeline":
                os.close(writer)
            else:
                os.kill(link.pid, signal.SIGTERM)
            assert all_end([*family, link.pid])
            with pytest.raises(LauncherGone):
                await command.wait()
            command.close()
            with pytest.raises(LauncherGone):
                await start_command(opened, request("true"))


@pytest.fixture
def impatient(monkeypatch):
    """What the launcher is allowed when it is called: a test calls it once the launcher works."""

    def become_impatient() -> None:
        monkeypatch.setattr(launcher_module, "ASK_AFTER_S", 0.1)
        monkeypatch.setattr(launcher_module, "SILENCE_S", 0.5)

    return become_impatient


@pytest.mark.parametrize("verb", ["launch", "kill_tree", "check"])
async def test_a_stopped_launcher_holds_up_no_verb_and_is_killed(launcher, impatient, verb):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            command = await start_command(opened, request("sleep", "60"))
            impatient()
            os.kill(link.pid, signal.SIGSTOP)
            with pytest.raises(LauncherGone):
                match verb:
                    case "launch":
                        await start_command(opened, request("true"))
                    case "kill_tree":
                        await command.kill_tree()
                    case _:
                        await opened.check_alive()
            await opened.wait_gone()
            assert all_end([link.pid])
            with pytest.raises(LauncherGone):
                await command.wait()
            os.kill(command.pid, signal.SIGKILL)  # the agent's subreaper would
            command.close()


async def test_a_launcher_stopped_with_its_socket_full_is_given_up(launcher, impatient):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            (await start_command(opened, request("true"))).close()
            impatient()
            os.kill(link.pid, signal.SIGSTOP)
            asked = request("echo", "x" * 50_000)
            async with trio.open_nursery() as nursery:

                async def ask():
                    with pytest.raises(LauncherGone):
                        await start_command(opened, asked)

                for _ in range(60):
                    nursery.start_soon(ask)
            assert all_end([link.pid])


async def test_a_busy_launcher_answers_and_keeps_its_life(launcher, impatient):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            command = await start_command(opened, request("sleep", "60"))
            impatient()
            for _ in range(3):
                await opened.check_alive()
            await command.kill_tree()
            assert (await command.wait()).signal == signal.SIGKILL
            command.close()


async def test_a_launcher_that_is_stopped_when_its_agent_ends_is_killed(launcher):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            (await start_command(opened, request("true"))).close()
            os.kill(link.pid, signal.SIGSTOP)
        assert all_end([link.pid])


async def test_a_command_whose_first_thread_has_ended_is_killed_like_any_other(launcher):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            command = await start_command(opened, request(*leaderless_process.ARGV))
            assert await command.receive() == b"leaderless\n"
            await command.kill_tree()
            assert (await command.wait()).signal == signal.SIGKILL
            assert is_zombie(command.pid)
            command.close()


async def test_an_orphan_without_a_mark_ends_with_its_command_and_not_with_a_later_one(launcher):
    script = (
        "(env -i setsid sleep 93 &); until pgrep -xf 'sleep 93' >/dev/null; do :; done; echo up"
    )
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            first = await start_command(opened, request("sh", "-c", f"{script}; sleep 94"))
            assert await first.receive() == b"up\n"
            orphans = {*children_of(link.pid)} - {first.pid}
            assert len(orphans) == 1
            await trio.sleep(0.05)  # the kernel tells starts apart by hundredths of a second
            later = await start_command(opened, request("true"))
            assert (await later.wait()).leftovers
            await later.kill_tree()
            assert not any(map(is_zombie, orphans))
            await first.kill_tree()
            assert all(map(is_zombie, orphans))
            first.close()
            later.close()


async def test_an_interrupt_from_a_terminal_does_nothing_to_the_launcher(launcher):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            (await start_command(opened, request("true"))).close()  # it is up
            os.kill(link.pid, signal.SIGINT)
            os.kill(link.pid, signal.SIGHUP)
            command = await start_command(opened, request("echo", "alive"))
            assert await output_of(command) == b"alive\n"
            assert (await command.wait()).exit_code == 0
            command.close()


@pytest.mark.parametrize(
    ("argv", "number", "step"),
    [(("/nowhere",), 2, "exec"), (("nowhere",), 2, "exec"), (("/etc/passwd",), 13, "exec"),
     (("a\0b",), 22, "exec")],
)  # fmt: skip
@pytest.mark.parametrize("limits", [CommandLimits(), CommandLimits(cpu_s=5)])
async def test_a_program_that_cannot_start_is_a_value_with_its_cause(
    launcher, argv, number, step, limits
):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            with pytest.raises(CommandNotStarted) as caught:
                await start_command(opened, request(*argv, limits=limits))
            assert (caught.value.number, caught.value.step) == (number, step)


async def test_a_huge_order_travels_whole(launcher):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            big = {f"V{index}": "x" * 100_000 for index in range(10)}
            asked = CommandRequest(
                argv=("sh", "-c", "echo ${#V0} ${#V9}"), cwd="/", environment={**BASE, **big},
                sandbox=SandboxPlan(),
            )  # fmt: skip
            command = await start_command(opened, asked)
            assert await output_of(command) == b"100000 100000\n"
            command.close()


async def test_text_that_is_not_unicode_is_refused_before_anything_starts(launcher):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            with pytest.raises(CommandNotStarted, match="Unicode"):
                await start_command(opened, request("echo", "\udcff"))


@pytest.mark.parametrize(
    ("limits", "script", "code"),
    [
        (CommandLimits(file_bytes=4096), "head -c 9999 /dev/zero >f; ls -l f >&2", None),
        (
            CommandLimits(memory_bytes=64 << 20),
            "x=$(head -c 200000000 /dev/zero | tr '\\0' x)",
            None,
        ),
        (CommandLimits(cpu_s=1), "while :; do :; done", None),
    ],
)
async def test_a_limit_of_its_own_ends_a_command(launcher, tmp_path, limits, script, code):
    link, _ = launcher
    with trio.fail_after(20):
        async with open_launcher(link) as opened:
            asked = CommandRequest(
                argv=("bash", "-c", f"cd {tmp_path}; {script}"), cwd="/", environment=BASE,
                sandbox=SandboxPlan(), limits=limits,
            )  # fmt: skip
            command = await start_command(opened, asked)
            said = await output_of(command)
            status = await command.wait()
            command.close()
            ended = status.signal is not None or status.exit_code != 0 or b" 4096 " in said
            assert ended, said
            assert code is None


async def test_a_hundred_commands_at_once_keep_their_answers_apart(launcher):
    link, _ = launcher
    found = {}

    async def ask(opened, index):
        command = await start_command(opened, request("sh", "-c", f"echo {index}; exit {index}"))
        said = await output_of(command)
        found[index] = (said, (await command.wait()).exit_code)
        command.close()

    with trio.fail_after(20):
        async with open_launcher(link) as opened, trio.open_nursery() as nursery:
            for index in range(100):
                nursery.start_soon(ask, opened, index)
    assert found == {index: (f"{index}\n".encode(), index) for index in range(100)}


FORK_STORY = """
import os, sys, threading, trio
from swarm.worker.exec.launcher_client import fork_launcher, open_launcher
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import SandboxPlan

line, writer = os.pipe()
link = fork_launcher(lifeline_fd=line)

async def main():
    async with open_launcher(link) as launcher:
        command = await start_command(launcher, CommandRequest(
            argv=("sh", "-c", "echo $PPID; ls /proc/self/fd | wc -l"), cwd="/",
            environment={"PATH": "/usr/bin:/bin"}, sandbox=SandboxPlan()))
        said = b""
        while chunk := await command.receive():
            said += chunk
        parent, files = said.split()
        assert int(parent) == link.pid != os.getpid(), said
        assert int(files) == 4, said
        command.close()

trio.run(main)
try:
    os.kill(link.pid, 0)
except ProcessLookupError:
    print("reaped")
waiting = threading.Event()
threading.Thread(target=waiting.wait).start()
try:
    fork_launcher(lifeline_fd=None)
except RuntimeError as error:
    print(error)
waiting.set()
"""


def test_a_forked_launcher_serves_is_reaped_and_refuses_beside_threads():
    done = subprocess.run(
        [sys.executable, "-P", "-c", FORK_STORY], capture_output=True, text=True, timeout=20
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "reaped", "the launcher must be forked while there is one thread",
    ]  # fmt: skip
