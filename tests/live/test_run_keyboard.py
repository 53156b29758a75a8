"""The live tree of `swarm run` on a real terminal: one reader of keys leads, shows and answers."""

import os
import subprocess
import sys
import termios
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 45
SWARM = str(Path(sys.executable).parent / "swarm")
WAIT = {"cmd": "echo working; until test -e go; do sleep 0.02; done", "yield_time_ms": 30_000}
ASK = {
    "cmd": "touch made",
    "sandbox_permissions": "require_escalated",
    "justification": "it must be there",
}
# The shell's part: it puts the run in the foreground, and hears when it was stopped.
SHELL = """
import os, signal, subprocess, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(fd, number)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
run = os.fork()
if run == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[3], sys.argv[3:])
while True:
    _, status = os.waitpid(run, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        break
    os.tcsetpgrp(0, os.getpgrp())
    open(sys.argv[2], "w").close()
    while os.path.exists(sys.argv[2]):
        time.sleep(0.02)
    if not os.path.exists(sys.argv[2] + ".bg"):
        os.tcsetpgrp(0, run)
    os.killpg(run, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Terminal:
    """A terminal with a shell in it that runs `swarm run`; `seen` is all that was written to it."""

    def __init__(self, rig, ours: int, theirs: int) -> None:
        self.rig, self.ours, self.theirs = rig, ours, theirs
        self.stopped = rig.folder / "stopped"
        self.seen, self._from = "", 0
        self.code: int | None = None

    async def read_all(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self.ours)
            self.seen += os.read(self.ours, 65_536).decode(errors="replace")

    async def wait_shown(self, words: str) -> None:
        """Until the words were written since they were last waited for."""
        await self.rig.wait(lambda: words in self.seen[self._from :])
        self._from = self.seen.rindex(words) + len(words)

    def forget(self) -> None:
        """What was written so far does not count."""
        self._from = len(self.seen)

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    @property
    def is_cooked(self) -> bool:
        mode = termios.tcgetattr(self.theirs)[3]
        return bool(mode & termios.ICANON and mode & termios.ECHO)


@asynccontextmanager
async def running(rig, *turns, reviewer="person"):
    """`swarm run` in the foreground of a terminal; the block ends with its end."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (40, 110))
    terminal = Terminal(rig, ours, theirs)
    provider = rig.script(*turns)
    words = ["run", "-p", "do it", "--provider", provider, "--reviewer", reviewer]
    shell = [sys.executable, "-P", "-c", SHELL, os.ttyname(theirs), str(terminal.stopped), SWARM]
    with trio.fail_after(LIMIT_S):
        process = rig.adopt(await trio.lowlevel.open_process(
            [*shell, *words], stdin=subprocess.DEVNULL, start_new_session=True,
            env={**rig.environment, "TERM": "xterm-256color"}, cwd=rig.work,
        ))  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(terminal.read_all)
            yield terminal
            terminal.code = await process.wait()
            nursery.cancel_scope.cancel()
    assert terminal.is_cooked
    os.close(ours)
    os.close(theirs)


def command(arguments):
    return {"calls": [{"name": "exec_command", "arguments": arguments}]}


async def test_the_keys_of_watch_lead_through_the_tree_of_a_run(rig):
    async with running(rig, command(WAIT), {"text": "over"}) as terminal:
        await terminal.wait_shown("Enter transcript")
        assert "q quit" not in terminal.seen, "a run is not left by a message"
        assert not terminal.is_cooked
        terminal.press(b"s")
        await terminal.wait_shown("s sort (tokens)")
        terminal.press(b"\x1b[B\r")
        await terminal.wait_shown("Esc: back to the tree")
        await terminal.wait_shown("until test -e go")
        terminal.press(b"q")  # back, and no more
        await terminal.wait_shown("Enter transcript")
        (rig.work / "go").touch()
    assert terminal.code == 0, terminal.seen
    assert rig.completed.status == "completed"


async def test_a_question_is_answered_beside_an_open_transcript(rig):
    turns = (command(WAIT), command(ASK), {"text": "over"})
    async with running(rig, *turns) as terminal:
        await terminal.wait_shown("until test -e go")
        terminal.press(b"\x1b[B\r")
        await terminal.wait_shown("Esc: back to the tree")
        (rig.work / "go").touch()
        await rig.wait(lambda: rig.bodies(ApprovalRequested))
        await terminal.wait_shown("and end its turn")
        await trio.sleep(0.6)  # a key that comes sooner is no answer
        terminal.press(b"\x1b[A")  # scrolls, and answers nothing
        terminal.press(b"y")
    assert terminal.code == 0, terminal.seen
    (resolved,) = rig.bodies(ApprovalResolved)
    assert (resolved.by, resolved.outcome) == ("person", "approved")
    assert (rig.work / "made").exists()


@pytest.mark.parametrize("how", ["ctrl-c", "sigterm"])
async def test_however_a_run_is_ended_the_terminal_is_as_before(rig, how):
    async with running(rig, command(WAIT), {"text": "over"}) as terminal:
        await terminal.wait_shown("Enter transcript")
        if how == "ctrl-c":
            terminal.press(b"\x03")
        else:
            os.kill(os.tcgetpgrp(terminal.ours), 15)
    assert terminal.code != 0


async def test_ctrl_z_gives_the_terminal_back_and_the_foreground_takes_it_again(rig):
    async with running(rig, command(WAIT), {"text": "over"}) as terminal:
        await terminal.wait_shown("Enter transcript")
        terminal.press(b"\x1a")
        await rig.wait(terminal.stopped.exists)
        assert terminal.is_cooked
        await rig.wait(lambda: "\x1b[?25h" in terminal.seen)  # written before it stopped
        terminal.stopped.unlink()
        await rig.wait(lambda: not terminal.is_cooked)
        terminal.press(b"s")
        await terminal.wait_shown("s sort (tokens)")
        (rig.work / "go").touch()
    assert terminal.code == 0, terminal.seen


async def test_in_the_background_what_is_typed_is_the_shells(rig):
    async with running(rig, command(WAIT), {"text": "over"}) as terminal:
        await terminal.wait_shown("Enter transcript")
        stat = Path(f"/proc/{os.tcgetpgrp(terminal.ours)}/stat")
        terminal.press(b"\x1a")
        await rig.wait(terminal.stopped.exists)
        terminal.stopped.with_name("stopped.bg").touch()
        terminal.stopped.unlink()
        await rig.wait(lambda: ") T " not in stat.read_text())
        terminal.forget()
        await terminal.wait_shown("/root")  # it goes on drawing
        assert terminal.is_cooked
        terminal.press(b"s\n")
        (rig.work / "go").touch()
        await rig.wait(lambda: rig.has_run and rig.bodies(RunCompleted))
        assert terminal.is_cooked
        assert not terminal.stopped.exists(), "nor was it stopped for reading"
        with open(terminal.theirs, closefd=False) as shell:  # noqa: ASYNC230 — it is there
            assert shell.readline() == "s\n"
    assert terminal.code == 0, terminal.seen
