"""The ladder: ask, wait, TERM, wait, KILL, in that order and by its deadline. Virtual time."""

import signal

import pytest
import trio

from swarm.mailbox.errors import PeerGone
from swarm.supervisor.processes.graceful_stop import stop_child
from swarm.supervisor.processes.process_types import ProcessEnd, describe_end


class FakeChild:
    """Dies of what it is told to die of, and notes what reached it and when."""

    pid, pidfd, warm, stderr_text = 7, -1, True, ""

    def __init__(self, *, dies_of: str) -> None:
        self._dies_of = dies_of
        self._gone = trio.Event()
        self.heard: list[tuple[str, float]] = []

    def hear(self, what: str) -> None:
        self.heard.append((what, trio.current_time()))
        if what == self._dies_of:
            self._gone.set()

    async def ask(self) -> None:
        self.hear("ask")

    async def wait_ended(self) -> ProcessEnd:
        await self._gone.wait()
        return ProcessEnd(reason=self._dies_of)

    def signal_group(self, number: int) -> None:
        self.hear(signal.Signals(number).name)

    def kill_group(self) -> None:
        self.hear("SIGKILL")


@pytest.mark.parametrize(
    ("dies_of", "heard"),
    [
        ("ask", [("ask", 0)]),
        ("SIGTERM", [("ask", 0), ("SIGTERM", 7)]),
        ("SIGKILL", [("ask", 0), ("SIGTERM", 7), ("SIGKILL", 10)]),
        ("nothing", [("ask", 0), ("SIGTERM", 7), ("SIGKILL", 10)]),
    ],
)
async def test_each_rung_has_its_time(dies_of, heard, autojump_clock):
    child = FakeChild(dies_of=dies_of)
    ended = await stop_child(child, child.ask, grace_s=10)
    assert child.heard == heard
    assert ended.reason == (
        "process 7 did not die of SIGKILL in 2 s" if dies_of == "nothing" else dies_of
    )


async def test_without_a_question_sigterm_comes_first(autojump_clock):
    child = FakeChild(dies_of="SIGKILL")
    await stop_child(child, None, grace_s=10)
    assert child.heard == [("SIGTERM", 0), ("SIGKILL", 10)]


async def test_a_child_that_cannot_be_asked_gets_sigterm_at_once(autojump_clock):
    child = FakeChild(dies_of="SIGTERM")

    async def unreachable() -> None:
        raise PeerGone(b"a")

    await stop_child(child, unreachable, grace_s=10)
    assert child.heard == [("SIGTERM", 0)]


async def test_a_question_that_hangs_costs_its_share_only(autojump_clock):
    child = FakeChild(dies_of="SIGTERM")
    await stop_child(child, trio.sleep_forever, grace_s=10)
    assert child.heard == [("SIGTERM", 7)]


async def test_no_grace_kills_at_once(autojump_clock):
    child = FakeChild(dies_of="SIGKILL")
    await stop_child(child, child.ask, grace_s=0)
    assert child.heard == [("SIGKILL", 0)]


@pytest.mark.parametrize(
    ("status", "ended"),
    [
        (0, ProcessEnd(exit_code=0, reason="left with exit code 0")),
        (3 << 8, ProcessEnd(exit_code=3, reason="left with exit code 3")),
        (9, ProcessEnd(signal=9, reason="killed by SIGKILL")),
        (11 | 0x80, ProcessEnd(signal=11, reason="killed by SIGSEGV")),
        (None, ProcessEnd(reason="ended, and nobody could learn how")),
    ],
)
def test_a_status_in_words(status, ended):
    assert describe_end(status) == ended
