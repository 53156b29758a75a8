"""Agents that sleep without a process: woken once, never early, also after a lost supervisor."""

import json
import tracemalloc
from contextlib import asynccontextmanager

import pytest
import trio

from support.team_in_memory import calls, open_team, says, spawn
from swarm.mailbox.base.entropy import EntropySources
from swarm.mailbox.parts.wakeups.wakeup_messages import (
    CancelWakeUps,
    WakeUp,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
)
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.items import Message, text_of
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import ItemRecorded, MailPosted, RunIdle
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.parts.wakeups.wakeup_book import WakeUpBook
from swarm.supervisor.parts.wakeups.wakeup_rules import MAX_MADE, MAX_PENDING

NOW = 1_800_000_000.0
LIMIT_S = 9 * 86_400


class WallClock:
    """Goes with the virtual clock, and jumps when it is told."""

    def __init__(self) -> None:
        self.jumped_s = 0.0

    def __call__(self) -> float:
        return NOW + trio.current_time() + self.jumped_s


def wake_me(**given) -> tuple[str, dict]:
    return "wake_me", {"why": "look again", **given}


@asynccontextmanager
async def open_run(folder, *replies, clock=None, past=None, **request):
    scripts = {"/root": list(replies), "/root/a": [calls(wake_me(after_s=60)), says("a")]}
    entropy = EntropySources(unix_s=clock or WallClock())
    async with open_team(folder, scripts, entropy=entropy, **request) as team:
        ended: list = []

        async def work() -> None:
            ended.append(await team.work(past))

        team.nursery.start_soon(work)
        with trio.fail_after(LIMIT_S):
            yield team, ended


def woken(team) -> list[str]:
    """What the clock has told the root's model."""
    items = [one.item for one in team.bodies(ItemRecorded, "/root")]
    texts = [text_of(item.content) for item in items if isinstance(item, Message)]
    return [text for text in texts if "Wake-up " in text and "Sender: clock" in text]


async def test_an_agent_that_waits_has_no_process_and_is_woken_once_when_it_is_due(
    tmp_path, autojump_clock
):
    replies = (calls(wake_me(after_s=3600)), says("later"), says("done"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)
        asked = trio.current_time()
        assert (team.slots, team.running.broadcast.current_view().parts.wake_ups[0].why) == (
            0, "look again",
        )  # fmt: skip
        await trio.sleep(3500)
        assert not ended
        assert not team.bodies(WakeUpFired)
        await team.until(lambda: bool(ended))
        assert 3595 < trio.current_time() - asked < 3605
        assert len(woken(team)) == 1
    assert (ended[0].status, ended[0].result) == ("completed", "done")
    assert team.running.broadcast.current_view().parts.wake_ups == ()


async def test_a_child_does_not_wake_itself_unless_its_role_says_so(tmp_path, autojump_clock):
    replies = (calls(spawn("a")), calls(("wait_agent", {"timeout_ms": 60_000})), says("done"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(ended))
        assert not team.bodies(WakeUpMade)
        assert team.outputs("/root/a") != []


async def test_it_fires_when_the_wall_clock_says_so_whatever_the_clock_did_meanwhile(
    tmp_path, autojump_clock
):
    clock = WallClock()
    replies = (calls(wake_me(after_s=3600)), says("later"), says("done"))
    async with open_run(tmp_path, *replies, clock=clock) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)
        clock.jumped_s = -1800.0  # set back: not early
        await trio.sleep(3700)
        assert not team.bodies(WakeUpFired)
        clock.jumped_s = 7200.0  # the machine slept
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 3900
        assert "It was due at" in woken(team)[0]


async def test_an_agent_takes_its_wake_up_back_and_the_run_ends(tmp_path, autojump_clock):
    replies = (
        calls(wake_me(after_s=3600)),
        calls(("wake_me", {"cancel": 2}), ("wake_me", {"cancel": 1})),
        says("done"),
    )
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(ended))
        assert team.outputs()[1:] == [
            "you have no wake-up 2 that has not fired; yours are: 1",
            "Wake-up 1 will not fire.",
        ]
        assert team.bodies(WakeUpEnded) == [WakeUpEnded(number=1, reason="agent")]
        assert not team.bodies(WakeUpFired)


async def test_a_person_takes_back_one_or_all_and_then_no_agent_makes_others(
    tmp_path, autojump_clock
):
    replies = (
        calls(wake_me(after_s=3600), wake_me(after_s=7200), wake_me(after_s=7300)),
        says("later"),
        calls(wake_me(after_s=60)),
        says("done"),
    )
    async with open_run(tmp_path, *replies, keep_open=True) as (team, _):
        await team.until(lambda: len(team.bodies(WakeUpMade)) == 3 and not team.alive)
        control = team.service.parts.control
        assert isinstance(await control(CancelWakeUps(number=9)), Refused)
        assert await control(CancelWakeUps(number=2)) == Done(message="wake-up 2 is taken back")
        assert isinstance(await control(CancelWakeUps()), Done)
        words = UserInput(input_id="i" * 32, parts=(TextInput(text="hi"),))
        await team.service.send_input(team.running.agents.members["/root"], words)
        await team.until(lambda: len(team.bodies(RunIdle)) == 2)
        await trio.sleep(9_000)
        assert "a person has switched wake-ups off" in team.outputs()[-1]
        assert [one.number for one in team.bodies(WakeUpEnded)] == [2, 1, 3, 0]
        assert not team.bodies(WakeUpFired)


async def test_a_run_whose_last_wake_up_a_person_takes_back_ends(tmp_path, autojump_clock):
    replies = (calls(wake_me(after_s=3600)), says("later"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)
        await team.service.parts.control(CancelWakeUps(number=1))
        await team.until(lambda: bool(ended))
        assert (ended[0].status, ended[0].result) == ("completed", "later")


async def test_an_agent_has_so_many_wake_ups_at_once_and_no_more(tmp_path, autojump_clock):
    wanted = [wake_me(after_s=60 + number) for number in range(MAX_PENDING + 1)]
    async with open_run(tmp_path, calls(*wanted), says("x"), *[says("y")] * 9) as (team, ended):
        await team.until(lambda: bool(ended))
        assert "take one back" in team.outputs()[-1]
        assert len(team.bodies(WakeUpFired)) == MAX_PENDING == len(set(woken(team)))


async def test_a_run_that_stays_is_idle_while_a_wake_up_waits(tmp_path, autojump_clock):
    replies = (calls(wake_me(after_s=600)), says("later"), says("again"))
    async with open_run(tmp_path, *replies, keep_open=True) as (team, ended):
        await team.until(lambda: len(team.bodies(RunIdle)) == 1)
        await team.until(lambda: len(team.bodies(RunIdle)) == 2)
        assert [one.result for one in team.bodies(RunIdle)] == ["later", "again"]
        assert not ended


async def test_words_of_a_person_come_first_and_the_wake_up_still_fires(tmp_path, autojump_clock):
    replies = (calls(wake_me(after_s=600)), says("later"), says("hello"), says("done"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)
        words = UserInput(input_id="i" * 32, parts=(TextInput(text="hi"),))
        await team.service.send_input(team.running.agents.members["/root"], words)
        await team.until(lambda: len(team.bodies(TurnStarted)) == 2)
        await team.until(lambda: bool(ended))
        assert (ended[0].result, len(woken(team))) == ("done", 1)


async def test_an_interrupt_of_all_ends_the_run_as_interrupted_and_a_resume_waits_on(
    tmp_path, autojump_clock
):
    clock = WallClock()
    replies = (calls(wake_me(after_s=3600)), says("later"))
    async with open_run(tmp_path, *replies, clock=clock) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)
        await team.ending.interrupt_all("test", keep_commands=False)
        await team.until(lambda: bool(ended))
        past, left = team.past(), trio.current_time()
    assert ended[0].status == "interrupted"
    async with open_run(tmp_path, says("done"), clock=clock, past=past) as (team, ended):
        await team.until(lambda: bool(ended))
        assert (ended[0].status, ended[0].result) == ("completed", "done")
        assert trio.current_time() - left > 3000
        assert len(woken(team)) == 1


@pytest.mark.parametrize("kept", ["made", "fired", "posted"])
async def test_a_lost_supervisor_neither_loses_nor_doubles_a_wake_up(
    tmp_path, autojump_clock, kept
):
    """What is on disk is a prefix of what was written: it is cut behind one of these records."""
    clock = WallClock()
    replies = (calls(wake_me(after_s=3600)), says("later"), says("lost"))
    async with open_run(tmp_path, *replies, clock=clock) as (team, ended):
        await team.until(lambda: bool(ended))
        kinds = {"made": WakeUpMade, "fired": WakeUpFired, "posted": MailPosted}
        records = read_records(team.running.paths)
        cut = max(one.seq for one in records if isinstance(one.body, kinds[kept]))
        if kept == "made":  # the turn that asked has ended, and the root has no process
            records = read_records(team.running.paths)
            cut = next(one.seq for one in records if isinstance(one.body, WakeUpFired)) - 1
        for file in team.running.paths.journal.iterdir():
            lines = file.read_bytes().splitlines(keepends=True)
            file.write_bytes(b"".join(one for one in lines if json.loads(one)["seq"] <= cut))
        past = team.past()
    async with open_run(tmp_path, says("done"), clock=clock, past=past) as (team, ended):
        await team.until(lambda: bool(ended))
        assert (ended[0].status, ended[0].result) == ("completed", "done")
        assert (len(woken(team)), len(team.bodies(WakeUpFired))) == (1, 1)
        assert len(team.bodies(MailPosted)) == 1


async def test_a_model_that_wakes_itself_for_ever_is_stopped(tmp_path, autojump_clock):
    async with open_run(tmp_path) as (team, ended):
        again = (calls(wake_me(after_s=60)), says("again"))
        team.scripts["/root"] += [reply for _ in range(MAX_MADE + 1) for reply in again]
        await team.until(lambda: bool(ended))
        assert len(team.bodies(WakeUpFired)) == MAX_MADE
        assert "end your work" in team.outputs()[-1]
    assert (ended[0].status, ended[0].result) == ("completed", "again")


def test_a_thousand_wake_ups_take_little_memory():
    book = WakeUpBook()
    fields = {"cause": "clock", "made_unix_s": NOW, "why": "look at the build once more"}
    tracemalloc.start()
    for number in range(1, 1001):
        one = WakeUp(number=number, agent=f"/root/worker_{number}", due_unix_s=NOW + 60, **fields)
        book.take(one.agent, WakeUpMade(wake_up=one))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(book.pending) == 1000
    assert used < 2_000_000
