"""A limit that resets: the whole tree waits once, without processes, and goes on where it stood."""

import signal
from contextlib import asynccontextmanager

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says, spawn, wait
from swarm.mailbox.base.entropy import EntropySources
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.parts.wakeups.wakeup_messages import (
    CancelWakeUps,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
    WakeUpSettings,
)
from swarm.mailbox.protocol.events import CallBegan, TurnAborted, TurnFailed, Warned
from swarm.mailbox.protocol.gateway import LimitWindow, RateLimits
from swarm.mailbox.protocol.ops import TextInput, UserInput
from swarm.mailbox.protocol.records import InputPosted
from swarm.mailbox.protocol.sampling import SampleFailed

NOW = 1_800_000_000.0
LIMIT_S = 9 * 86_400
PARTS = PartSettings(wakeups=WakeUpSettings(wait_for_limit_s=6 * 3600.0))


class WallClock:
    """Goes with the virtual clock, and jumps when it is told."""

    def __init__(self) -> None:
        self.jumped_s = 0.0

    def __call__(self) -> float:
        return NOW + trio.current_time() + self.jumped_s


def refusal(after_s: float = 3600.0, **fields) -> tuple:
    """The provider refuses until a limit resets, counted from the beginning of the test."""
    failed = {"kind": "usage_limit_exceeded", "message": "the limit is reached", **fields}
    return (SampleFailed(request_id=0, resets_at_unix_s=NOW + after_s, **failed),)


@asynccontextmanager
async def open_run(folder, *replies, scripts=None, clock=None, past=None, **request):
    script = {"/root": list(replies), **(scripts or {})}
    entropy = EntropySources(unix_s=clock or WallClock())
    request = {"parts": PARTS, **request}
    async with open_team(folder, script, entropy=entropy, **request) as team:
        ended: list = []

        async def work() -> None:
            ended.append(await team.work(past))

        team.nursery.start_soon(work)
        with trio.fail_after(LIMIT_S):
            yield team, ended


def said(team) -> list[str]:
    return [one.message for one in team.bodies(Warned)]


async def asleep(team) -> None:
    await team.until(lambda: bool(team.bodies(WakeUpMade)) and not team.alive)


async def test_the_turn_stops_without_a_process_and_goes_on_with_the_same_request(
    tmp_path, autojump_clock
):
    async with open_run(tmp_path, calls(WORK), refusal(), says("done")) as (team, ended):
        await asleep(team)
        assert team.slots == 0
        (made,) = team.bodies(WakeUpMade)
        assert (made.wake_up.cause, made.wake_up.agent) == ("limit", "")
        await trio.sleep(3500)
        assert len(team.asked["/root"]) == 1
        await team.until(lambda: bool(ended))
        assert 3610 <= trio.current_time() <= 3680
        before, after = (gateway.inputs[-1] for gateway in team.asked["/root"])
        assert after == before
        assert len(team.bodies(CallBegan)) == 1
        assert len([text for text in said(team) if "swarm continue RUN" in text]) == 1
    assert (ended[0].status, ended[0].result) == ("completed", "done")


async def test_a_whole_tree_waits_once_and_is_told_once(tmp_path, autojump_clock):
    names = ("a", "b", "c")
    scripts = {f"/root/{name}": [refusal(1200.0), says(name)] for name in names}
    replies = (calls(*map(spawn, names)), calls(wait(*names, seconds=3_000)), says("done"))
    async with open_run(tmp_path, *replies, scripts=scripts, max_agents=8) as (team, ended):
        await asleep(team)  # also the root, which only waits for them
        assert trio.current_time() < 60
        assert len(team.bodies(WakeUpMade)) == 1
        await team.until(lambda: bool(ended))
        assert (ended[0].message, ended[0].result) == ("", "done")
        assert len(team.bodies(WakeUpFired)) == 1
        assert team.ends() == {path: ["completed"] for path in ("/root", *scripts)}
        assert len(said(team)) == 1


@pytest.mark.parametrize("parts", [PartSettings(), PARTS])
async def test_a_limit_that_is_not_waited_for_ends_the_run_at_once_and_says_why(
    tmp_path, autojump_clock, parts
):
    async with open_run(tmp_path, refusal(8 * 3600.0), parts=parts) as (team, ended):
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 60
        assert not team.bodies(WakeUpMade)
        (failed,) = team.bodies(TurnFailed)
        assert "wait_for_limit" in failed.message
    assert ended[0].status == "provider"


async def test_what_names_no_end_is_never_waited_for(tmp_path, autojump_clock):
    failed = SampleFailed(request_id=0, kind="usage_limit_exceeded", message="no credit")
    async with open_run(tmp_path, (failed,)) as (team, ended):
        await team.until(lambda: bool(ended))
        assert not team.bodies(WakeUpMade)
    assert ended[0].status == "provider"


async def test_a_person_has_it_tried_now(tmp_path, autojump_clock):
    async with open_run(tmp_path, refusal(), says("done")) as (team, ended):
        await asleep(team)
        assert await team.service.parts.try_now()
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 600
        assert not await team.service.parts.try_now()
    assert ended[0].result == "done"


async def test_a_limit_that_holds_on_is_waited_for_again(tmp_path, autojump_clock):
    replies = (refusal(), refusal(7200.0), says("done"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(ended))
        assert trio.current_time() >= 7210
        assert [one.wake_up.number for one in team.bodies(WakeUpMade)] == [1, 2]
    assert ended[0].result == "done"


async def test_a_person_who_takes_the_wait_back_ends_the_run(tmp_path, autojump_clock):
    async with open_run(tmp_path, refusal(), refusal()) as (team, ended):
        await asleep(team)
        await team.service.parts.control(CancelWakeUps(number=1))
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 600
        assert "took the wait for this limit back" in team.bodies(TurnFailed)[0].message
        assert team.bodies(WakeUpEnded) == [WakeUpEnded(number=1, reason="person")]
    assert ended[0].status == "provider"


async def test_words_that_come_meanwhile_are_read_after_the_wait(tmp_path, autojump_clock):
    async with open_run(tmp_path, refusal(), says("done")) as (team, ended):
        await asleep(team)
        words = UserInput(input_id="i" * 32, parts=(TextInput(text="be quick"),))
        await team.service.send_input(team.running.agents.members["/root"], words)
        await trio.sleep(600)
        assert not team.alive
        await team.until(lambda: bool(ended))
        assert "be quick" in str(team.asked["/root"][-1].inputs[-1])
        assert len([one for one in team.bodies(InputPosted) if "be quick" in str(one)]) == 1
    assert ended[0].result == "done"


async def test_an_interrupt_ends_the_turn_that_waits(tmp_path, autojump_clock):
    async with open_run(tmp_path, refusal(), says("never")) as (team, ended):
        await asleep(team)
        await team.ending.interrupt_all("test", keep_commands=False)
        await team.until(lambda: bool(ended))
        assert len(team.bodies(TurnAborted)) == 1
        assert trio.current_time() < 600
    assert ended[0].status == "interrupted"


async def test_a_process_that_is_killed_while_its_command_runs_joins_the_wait(
    tmp_path, autojump_clock
):
    async with open_run(tmp_path, refusal(), refusal(), says("done")) as (team, ended):
        await team.until(lambda: bool(team.bodies(WakeUpMade)))
        if team.alive:
            team.children["/root"][-1].signal_group(signal.SIGKILL)
        await team.until(lambda: bool(ended))
        assert len(team.bodies(WakeUpMade)) <= 2
        assert trio.current_time() >= 3610
    assert ended[0].result == "done"


async def test_a_deadline_goes_on_counting_while_a_limit_is_waited_for(tmp_path, autojump_clock):
    async with open_run(tmp_path, refusal(), says("late"), deadline_s=1200.0) as (team, ended):
        await asleep(team)
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 1300
    assert ended[0].status == "deadline"


async def test_a_resume_asks_once_and_waits_again(tmp_path, autojump_clock):
    clock = WallClock()
    async with open_run(tmp_path, refusal(), clock=clock) as (team, _):
        await asleep(team)
        past = team.past()
    async with open_run(tmp_path, refusal(), says("done"), clock=clock, past=past) as (team, ended):
        await team.until(lambda: bool(ended))
        assert [one.reason for one in team.bodies(WakeUpEnded)] == ["lost"]
        assert [one.wake_up.number for one in team.bodies(WakeUpMade)] == [1, 2]
        assert trio.current_time() >= 3610
    assert ended[0].result == "done"


async def test_a_clock_that_jumps_makes_nobody_early(tmp_path, autojump_clock):
    clock = WallClock()
    async with open_run(tmp_path, refusal(), says("done"), clock=clock) as (team, ended):
        await asleep(team)
        clock.jumped_s = -3000.0
        await trio.sleep(4000)
        assert not ended
        clock.jumped_s = 7200.0
        await team.until(lambda: bool(ended))
        assert trio.current_time() < 4300
    assert ended[0].result == "done"


async def test_near_the_limit_no_new_agent_starts_and_the_model_reads_why(tmp_path, autojump_clock):
    near = LimitWindow(
        name="5h", used_percent=97.0, window_minutes=300.0, resets_at_unix_s=NOW + 9000
    )
    replies = (calls(WORK), calls(spawn("a")), says("done"))
    async with open_run(tmp_path, *replies) as (team, ended):
        await team.until(lambda: bool(team.bodies(CallBegan)))
        team.running.note(RateLimits(windows=(near,)))
        await team.until(lambda: bool(ended))
        assert "no new agent starts" in team.outputs()[-1]
        assert list(team.children) == ["/root"]
    assert ended[0].result == "done"
