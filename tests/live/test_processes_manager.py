"""The household with real processes: ends, the ladder, adoption, cold starts, descriptors, keys."""

import os
import signal
import sys

import msgspec
import pytest
import trio

from support.paths import PROGRAMS, TESTS

SCENARIOS = str(PROGRAMS / "supervisor_programs.py")
LIMIT_S = 30

pytestmark = pytest.mark.live


async def tell(scenario: str, *, environment: dict[str, str] | None = None):
    token = f"token-{scenario}-{os.getpid()}"
    command = [sys.executable, "-P", SCENARIOS, scenario]
    env = os.environ | {"PYTHONPATH": str(TESTS)} | (environment or {})
    with trio.fail_after(LIMIT_S):
        arguments = [] if environment else [token]
        done = await trio.run_process([*command, *arguments], capture_stdout=True, env=env)
    return msgspec.json.decode(done.stdout.splitlines()[-1])


async def test_every_end_is_told_with_its_status_and_last_words():
    told = await tell("ends")
    three, crash, much = told["leave_with_three"], told["crash"], told["talk_much"]
    assert (three["exit_code"], three["warm"]) == (3, True)
    assert crash["exit_code"] == 1
    assert "RuntimeError: the reason why" in crash["stderr_tail"]
    assert much["exit_code"] == 0
    assert len(much["stderr_tail"]) == 64 * 1024
    assert much["stderr_tail"].endswith("x��last")


async def test_what_a_crashed_agent_leaves_behind_is_killed():
    told = await tell("ends")
    assert told["crash_with_daemon"]["signal"] == signal.SIGKILL
    assert told["left"] == []


async def test_the_ladder_ends_with_sigkill_for_all_below():
    told = await tell("ladder")
    assert told == {"signals": [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL], "again": True,
                    "left": []}  # fmt: skip


async def test_agents_outlive_their_fork_server_and_a_new_one_comes():
    assert await tell("adoption") == {
        "adopted": True,
        "new": True,
        "late_warm": True,
        "late": 3,
        "sleeper": signal.SIGTERM,
        "daemon": signal.SIGKILL,
        "children": [],
    }


async def test_without_any_fork_server_every_start_is_cold():
    assert await tell("no_server") == {"warm": False, "code": 3, "left": []}


async def test_a_silent_fork_server_is_replaced_and_its_start_counts_as_lost():
    expected = {"lost": True, "code": 3, "new": True, "lives": True}
    assert await tell("silent_server") == expected


async def test_what_a_fork_server_forked_and_never_reported_is_dead_before_another_try():
    expected = {"lost": True, "left": [], "code": 3, "new": True}
    assert await tell("dying_server") == expected


async def test_fifty_spawns_leave_no_descriptor_behind():
    assert await tell("fds") == {"ours": 0, "servers": 0}


async def test_a_cancelled_household_still_ends_everybody():
    told = await tell("cancelled")
    assert told["signal"] == signal.SIGKILL
    assert told["refused"] == "the run is ending; nothing new starts"
    assert told["children"] == []


@pytest.mark.parametrize("scenario", ["keys", "keys_taken_later"])
async def test_keys_reach_the_gateway_and_no_other_memory(scenario):
    told = await tell(
        scenario, environment={"STORY_API_KEY": f"sk-scenario-{os.getpid()}-0123456789"}
    )
    # Only root may look into the gateway's memory at all.
    assert told == {"shown": [], "remembered": [], "gateway_knows": os.geteuid() == 0}
