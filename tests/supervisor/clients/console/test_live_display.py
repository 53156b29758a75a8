"""The live tree on a real terminal (a pty): frames, resizes, its end, a terminal that hangs."""

import fcntl
import io
import os
import pty
import re
import struct
import termios
from contextlib import contextmanager, suppress

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from swarm.mailbox.protocol.control import AgentView, Recorded, RunView, TransientEvent
from swarm.mailbox.protocol.events import TextArrived, Warned
from swarm.mailbox.protocol.records import Record, RunCompleted
from swarm.supervisor.clients.console.live_display import LiveDisplay

TERMINAL = {"TERM": "xterm-256color"}
WIDE = RunView(
    run_id="x-1a2b3c4d",
    title="Survey of a rather long and winding house with many rooms",
    agents=(
        AgentView(path="/root", state="idle"),
        AgentView(path="/root/scout", state="idle", task="look at every single room there is"),
    ),
)
CHANGE = TransientEvent(agent="/root", event=TextArrived(turn_id="t", item_id="i", delta="x"))


class Screen:
    """What a terminal shows: enough of one for carriage returns, cursor moves and erasing."""

    def __init__(self, master):
        self.master, self.written = master, ""

    async def read_until(self, wanted):
        with trio.fail_after(10):
            while wanted not in self.written:
                await trio.lowlevel.wait_readable(self.master)
                self.written += os.read(self.master, 65536).decode()

    @property
    def lines(self):
        lines, row, column = [""], 0, 0
        for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", self.written):
            if token == "\r":
                column = 0
            elif token == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif token.endswith("A") and token.startswith("\x1b"):
                row = max(row - int(token[2:-1]), 0)
            elif token.endswith("K") and token.startswith("\x1b"):
                lines[row] = ""
            elif not token.startswith("\x1b"):
                lines[row] = lines[row][:column].ljust(column) + token
                column += len(token)
        return [line.rstrip() for line in lines]


@contextmanager
def open_terminal(width=80, height=24):
    master, slave = pty.openpty()
    set_size(slave, width, height)
    with os.fdopen(slave, "w") as stderr:
        yield Screen(master), stderr
    os.close(master)


def set_size(fd, width, height):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def warn(message):
    return Recorded(record=Record(seq=1, ts=0.0, agent="/root", body=Warned(message=message)))


async def test_frames_replace_each_other_and_what_the_agents_came_to_and_the_answer_stay():
    views = [WIDE]
    stdout = io.StringIO()
    with open_terminal() as (screen, stderr):
        view = LiveDisplay(stderr, stdout, environment=TERMINAL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.draw, lambda: views[-1])
            await screen.read_until("slots 0")
            views.append(replace(WIDE, slots_used=2, throttle="patience"))
            view.on_feed(warn("mind the [red] gap\x1b[31m"))
            await screen.read_until("patience")
            views.append(replace(WIDE, status="completed", slots_used=1))
            nursery.cancel_scope.cancel()
        view.finish(RunCompleted(status="completed", result="the answer"))
        await screen.read_until("run completed")
    assert screen.lines == [
        "warning: /root mind the [red] gap⟨ESC⟩[31m",
        "swarm 1a2b3c4d  Survey of a rather long and winding house with many rooms",
        "choosing a provider",
        "AGENT STATE ANSWER",
        "/root idle",
        "scout idle  look at every single room there is",
        "run completed after 0.0 s: 0 agents (2 idle), 0 tokens",
        "next: swarm show 1a2b3c4d scout · swarm resume 1a2b3c4d -p TEXT",
        "",
    ]
    assert stdout.getvalue() == "the answer\n"


async def test_a_narrower_window_leaves_no_wrapped_remains():
    with open_terminal() as (screen, stderr):
        view = LiveDisplay(stderr, io.StringIO(), environment=TERMINAL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.draw, lambda: WIDE)
            await screen.read_until("slots 0")
            before = len(screen.written)
            set_size(stderr.fileno(), 40, 24)
            view.redraw()
            await screen.read_until("rather long…")
            nursery.cancel_scope.cancel()
    ups = screen.written[before:].split("swarm 1a2b3c4d")[0].count("\x1b[1A")
    assert ups == 5 + 3  # six lines were drawn; three of them are two lines each at 40 columns


async def test_an_idle_run_draws_nothing(autojump_clock):
    stderr = io.StringIO()
    view = LiveDisplay(stderr, io.StringIO(), environment=TERMINAL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.draw, lambda: WIDE)
        await trio.sleep(3600)
        assert view.frames == 1
        nursery.cancel_scope.cancel()


async def test_ages_tick_once_a_second_while_something_works(autojump_clock):
    running = replace(WIDE, agents=(AgentView(path="/root", state="running"),))
    view = LiveDisplay(io.StringIO(), io.StringIO(), environment=TERMINAL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.draw, lambda: running)
        await trio.sleep(10.5)
        assert view.frames == 11
        nursery.cancel_scope.cancel()


async def test_a_storm_of_events_is_at_most_ten_frames_a_second(autojump_clock):
    view = LiveDisplay(io.StringIO(), io.StringIO(), environment=TERMINAL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(view.draw, lambda: WIDE)
        for _ in range(1000):
            view.on_feed(CHANGE)
            await trio.sleep(0.002)
        assert 2 <= view.frames <= 21
        nursery.cancel_scope.cancel()


async def test_a_stopped_terminal_holds_up_neither_the_run_nor_its_end():
    with open_terminal() as (screen, stderr):
        termios.tcflow(stderr.fileno(), termios.TCOOFF)  # Ctrl-S
        view = LiveDisplay(stderr, io.StringIO(), environment=TERMINAL)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(view.draw, lambda: WIDE)
                await trio.testing.wait_all_tasks_blocked(0.05)
                for _ in range(100):
                    view.on_feed(CHANGE)
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        assert view.frames == 0
        termios.tcflow(stderr.fileno(), termios.TCOON)
        await screen.read_until("\x1b[?25h")


async def test_a_terminal_that_went_away_ends_the_drawing_and_not_the_run():
    master, slave = pty.openpty()
    with suppress(OSError), os.fdopen(slave, "w") as stderr:
        view = LiveDisplay(stderr, io.StringIO(), environment=TERMINAL)
        os.close(master)
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(view.draw, lambda: WIDE)
                await trio.testing.wait_all_tasks_blocked(0.05)
                view.on_feed(CHANGE)
                nursery.cancel_scope.cancel()
        view.finish(RunCompleted(status="failed", message="no terminal"))
    assert view.frames == 0


async def test_the_cursor_comes_back_when_the_run_breaks():
    def broken():
        raise RuntimeError("bug")

    with open_terminal() as (screen, stderr):
        view = LiveDisplay(stderr, io.StringIO(), environment=TERMINAL)
        with pytest.raises(RuntimeError):
            await view.draw(broken)
        await screen.read_until("\x1b[?25h")


@pytest.mark.parametrize("environment", [{"TERM": "xterm", "NO_COLOR": "1"}])
async def test_no_color_means_no_color(environment):
    views = replace(WIDE, agents=(AgentView(path="/root", state="running"),))
    with open_terminal() as (screen, stderr):
        view = LiveDisplay(stderr, io.StringIO(), environment=environment)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(view.draw, lambda: views)
            await screen.read_until("slots")
            nursery.cancel_scope.cancel()
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", screen.written)
