"""`swarm watch` on a real terminal: keys select, open, sort and leave; the terminal stays sound."""

import os
import signal
import subprocess
import sys
import termios
from contextlib import contextmanager

import pytest
import trio

from support.scripted_team_run import SWARM, call, calls, open_scripted_run, says, spawns, waits
from swarm.mailbox.protocol.events import CallBegan

pytestmark = pytest.mark.live
TURNS = [
    calls("/root", *spawns("ann", "bob")),
    calls("/root", waits("ann", "bob")),
    says("/root", "over"),
    calls(
        "/root/*", call("exec_command", cmd="echo working; until test -e go; do sleep 0.02; done")
    ),
    says("/root/*", "{agent} was here"),
]


class Screen:
    """A terminal with `swarm watch` in it; `seen` is all that was ever written to it."""

    def __init__(self, ours: int, theirs: int, watch: subprocess.Popen) -> None:
        self.ours, self.theirs, self.watch = ours, theirs, watch
        self.seen = ""

    async def wait_shown(self, words: str) -> None:
        """Until the words were written since the last call; earlier ones do not count."""
        while words not in self.seen:
            await trio.lowlevel.wait_readable(self.ours)
            self.seen += os.read(self.ours, 65_536).decode(errors="replace")
        self.seen = self.seen.rpartition(words)[2]

    def press(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    async def wait_left(self) -> int:
        """Read what it still writes until it has ended; its exit code."""
        while self.watch.poll() is None:
            with trio.move_on_after(0.02):
                await trio.lowlevel.wait_readable(self.ours)
                self.seen += os.read(self.ours, 65_536).decode(errors="replace")
        return self.watch.returncode


@contextmanager
def watching(scripted):
    """A session of its own, so that the terminal is its controlling one and Ctrl-C works."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    watch = subprocess.Popen(
        [sys.executable, "-P", "-c", OPEN, os.ttyname(theirs), SWARM, "watch", scripted.run_id()],
        env={**scripted.environment, "TERM": "xterm-256color"},
        start_new_session=True,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield Screen(ours, theirs, watch)
    finally:
        watch.kill()
        watch.wait()
        os.close(ours)
        os.close(theirs)


OPEN = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(fd, number)
os.execv(sys.argv[2], sys.argv[2:])
"""


async def test_keys_lead_through_the_tree_into_a_transcript_that_grows_and_out_again(tmp_path):
    async with open_scripted_run(tmp_path, TURNS) as scripted:
        await scripted.until(lambda: len(scripted.of(CallBegan)) >= 5)
        with watching(scripted) as screen:
            await screen.wait_shown("q quit")
            assert not termios.tcgetattr(screen.theirs)[3] & termios.ICANON
            screen.press(b"\x1b[B\x1b[B")
            await screen.wait_shown("/root/ann")
            screen.press(b"s")
            await screen.wait_shown("s sort (tokens)")
            screen.press(b"\r")
            await screen.wait_shown("Esc: back to the tree")
            (tmp_path / "go").touch()
            await screen.wait_shown("/root/ann was here")
            await scripted.until(lambda: scripted.code is not None)
            assert screen.watch.poll() is None, "nobody is thrown out of what they read"
            screen.press(b"\x1b")
            await screen.wait_shown("run completed after")
            await screen.wait_left()
    assert scripted.code == 0


@pytest.mark.parametrize("how", ["q", "ctrl-c", "sigterm"])
async def test_however_a_person_leaves_the_run_goes_on_and_the_terminal_is_as_before(tmp_path, how):
    async with open_scripted_run(tmp_path, TURNS) as scripted:
        await scripted.until(lambda: len(scripted.of(CallBegan)) >= 5)
        with watching(scripted) as screen:
            await screen.wait_shown("q quit")
            screen.press(b"\x1b[B\r")
            await screen.wait_shown("Esc: back to the tree")
            screen.press(b"\x1b")
            await screen.wait_shown("q quit")
            if how == "sigterm":
                screen.watch.send_signal(signal.SIGTERM)
            else:
                screen.press(b"q" if how == "q" else b"\x03")
            assert await screen.wait_left() == 0
            mode = termios.tcgetattr(screen.theirs)[3]
            assert mode & termios.ICANON
            assert mode & termios.ECHO
        assert scripted.code is None, "the run does not notice"
        (tmp_path / "go").touch()
    assert scripted.code == 0
