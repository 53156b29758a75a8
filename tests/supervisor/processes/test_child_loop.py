"""A child's start, restarts and stop, with a process that is a fake. Virtual time."""

import signal

import pytest
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.supervisor.processes.child_loop import ChildLoop, RestartCounter, stop_child
from swarm.supervisor.processes.child_spec import ChildSpec
from swarm.supervisor.processes.process_types import ProcessEnd, SpawnError, describe_end


class FakeChild:
    """Dies of one thing, and records what reached it and when."""

    pid = 7

    def __init__(self, *, dies_of: str) -> None:
        self._dies_of = dies_of
        self._gone = trio.Event()
        self.received: list[tuple[str, float]] = []

    def record(self, what: str) -> None:
        self.received.append((what, trio.current_time()))
        if what == self._dies_of:
            self._gone.set()

    async def ask(self) -> None:
        self.record("ask")

    async def wait_ended(self) -> ProcessEnd:
        await self._gone.wait()
        return ProcessEnd(reason=self._dies_of)

    def signal_group(self, number: int) -> None:
        self.record(signal.Signals(number).name)

    def kill_group(self) -> None:
        self.record("SIGKILL")


@pytest.mark.parametrize(
    ("dies_of", "received"),
    [
        ("ask", [("ask", 0)]),
        ("SIGTERM", [("ask", 0), ("SIGTERM", 7)]),
        ("SIGKILL", [("ask", 0), ("SIGTERM", 7), ("SIGKILL", 10)]),
        ("nothing", [("ask", 0), ("SIGTERM", 7), ("SIGKILL", 10)]),
    ],
)
async def test_each_step_of_a_stop_has_its_time(dies_of, received, autojump_clock):
    child = FakeChild(dies_of=dies_of)
    ended = await stop_child(child, child.ask, grace_s=10)
    assert child.received == received
    assert ended.reason == (
        "process 7 did not die of SIGKILL in 2 s" if dies_of == "nothing" else dies_of
    )


async def test_a_child_that_is_not_asked_gets_sigterm_first(autojump_clock):
    child = FakeChild(dies_of="SIGKILL")
    await stop_child(child, None, grace_s=10)
    assert child.received == [("SIGTERM", 0), ("SIGKILL", 10)]


async def test_a_child_that_cannot_be_asked_gets_sigterm_at_once(autojump_clock):
    child = FakeChild(dies_of="SIGTERM")

    async def unreachable() -> None:
        raise PeerGone(b"a")

    await stop_child(child, unreachable, grace_s=10)
    assert child.received == [("SIGTERM", 0)]


async def test_asking_takes_at_most_its_share_of_the_grace(autojump_clock):
    child = FakeChild(dies_of="SIGTERM")
    await stop_child(child, trio.sleep_forever, grace_s=10)
    assert child.received == [("SIGTERM", 7)]


async def test_no_grace_kills_at_once(autojump_clock):
    child = FakeChild(dies_of="SIGKILL")
    await stop_child(child, child.ask, grace_s=0)
    assert child.received == [("SIGKILL", 0)]


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


class FakeService:
    """What a ChildSpec calls, and a record of it."""

    def __init__(self, *starts: str) -> None:
        """`starts`: what each child dies of, or "refused" for a start that fails."""
        self._starts = list(starts)
        self.children: list[FakeChild] = []
        self.log: list[tuple[str, float]] = []
        self.spec = ChildSpec(
            start=self._start,
            after_start=self._after_start,
            on_end=lambda: self._record("end"),
            on_crash=lambda ended: self._record(f"crash: {ended.reason}"),
            on_give_up=lambda cause: self._record(f"give up: {type(cause).__name__}"),
            grace_s=10,
        )

    def _record(self, what: str) -> None:
        self.log.append((what, round(trio.current_time(), 3)))

    async def _start(self) -> FakeChild:
        dies_of = self._starts.pop(0) if self._starts else "nothing"
        self._record("start")
        if dies_of == "refused":
            raise SpawnError("no process")
        child = FakeChild(dies_of=dies_of)
        if dies_of == "crash":
            child.record("crash")
        self.children.append(child)
        return child

    async def _after_start(self) -> None:
        self._record("started")


async def run_for(loop: ChildLoop, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await loop.run()


async def test_a_child_that_dies_is_replaced_three_times_each_time_later(autojump_clock):
    service = FakeService(*["crash"] * 5)
    await run_for(ChildLoop(service.spec), 100)
    round_of = [("start",), ("started",), ("end",), ("crash: crash",)]
    expected = [(what, at) for at in (0, 0.1, 0.6, 3.1) for (what,) in round_of]
    assert service.log == [*expected, ("give up: ProcessEnd", 3.1)]


async def test_a_failed_restart_gives_up_at_once(autojump_clock):
    service = FakeService("crash", "refused")
    await run_for(ChildLoop(service.spec), 100)
    assert service.log[-3:] == [("start", 0.1), ("end", 0.1), ("give up: SpawnError", 0.1)]


async def test_a_failed_start_counts_as_a_death_where_the_spec_retries_it(autojump_clock):
    service = FakeService("crash", "refused", "refused")
    await run_for(ChildLoop(service.spec._replace(retries=lambda error: True)), 100)
    assert service.log[-2:] == [("start", 3.1), ("started", 3.1)]


async def test_a_failed_first_start_is_the_callers(autojump_clock):
    service = FakeService("refused")
    with pytest.raises(SpawnError):
        await ChildLoop(service.spec).start()
    assert service.log == [("start", 0)]


async def test_a_child_that_is_stopped_has_not_crashed_and_is_not_replaced(autojump_clock):
    service = FakeService("SIGTERM")
    loop = ChildLoop(service.spec)
    await loop.start()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        await trio.sleep(1)
        await loop.stop()
    assert service.log[2:] == [("end", 1)]
    assert service.children[0].received == [("SIGTERM", 1)]


async def test_a_child_that_is_killed_is_replaced(autojump_clock):
    service = FakeService("SIGKILL")
    loop = ChildLoop(service.spec)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_for, loop, 5)
        await trio.sleep(1)
        loop.kill()
    assert [what for what, _ in service.log].count("started") == 2


async def test_nothing_starts_when_the_end_is_expected_during_the_back_off(autojump_clock):
    service = FakeService("crash")
    loop = ChildLoop(service.spec)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loop.run)
        await trio.sleep(0.05)
        loop.expect_end()
    assert [what for what, _ in service.log].count("start") == 1


async def test_old_deaths_are_forgotten(autojump_clock):
    restarts = RestartCounter()
    delays = []
    for pause_s in (0, 0, 61):
        await trio.sleep(pause_s)
        delays.append(restarts.record_death().after_s)
    assert delays == [0.1, 0.5, 0.1]
