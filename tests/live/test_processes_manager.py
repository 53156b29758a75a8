"""The process manager with real processes: ends, stops, adoption, cold starts, keys."""

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


async def facts_of(scenario: str, *, environment: dict[str, str] | None = None):
    token = f"token-{scenario}-{os.getpid()}"
    command = [sys.executable, "-P", SCENARIOS, scenario]
    env = os.environ | {"PYTHONPATH": str(TESTS)} | (environment or {})
    with trio.fail_after(LIMIT_S):
        arguments = [] if environment else [token]
        done = await trio.run_process([*command, *arguments], capture_stdout=True, env=env)
    return msgspec.json.decode(done.stdout.splitlines()[-1])


async def test_every_end_is_told_with_its_status_and_last_words():
    facts = await facts_of("ends")
    three, crash, much = facts["leave_with_three"], facts["crash"], facts["talk_much"]
    assert (three["exit_code"], three["warm"]) == (3, True)
    assert crash["exit_code"] == 1
    assert "RuntimeError: the reason why" in crash["stderr_tail"]
    assert much["exit_code"] == 0
    assert len(much["stderr_tail"]) == 64 * 1024
    assert much["stderr_tail"].endswith("x��last")


async def test_what_a_crashed_agent_leaves_behind_is_killed():
    facts = await facts_of("ends")
    assert facts["crash_with_daemon"]["signal"] == signal.SIGKILL
    assert facts["left"] == []


async def test_a_stop_ends_with_sigkill_for_all_below():
    facts = await facts_of("graceful_stops")
    assert facts == {"signals": [signal.SIGKILL, signal.SIGTERM, signal.SIGKILL], "again": True,
                    "left": []}  # fmt: skip


async def test_agents_outlive_their_fork_server_and_a_new_one_comes():
    assert await facts_of("adoption") == {
        "adopted": True,
        "new": True,
        "late_warm": True,
        "late": 3,
        "sleeper": signal.SIGTERM,
        "daemon": signal.SIGKILL,
        "children": [],
    }


async def test_without_any_fork_server_every_start_is_cold():
    assert await facts_of("no_server") == {"warm": False, "code": 3, "left": []}


async def test_a_silent_fork_server_is_replaced_and_its_start_counts_as_lost():
    expected = {"lost": True, "code": 3, "new": True, "lives": True}
    assert await facts_of("silent_server") == expected


async def test_what_a_fork_server_forked_and_never_reported_is_dead_before_another_try():
    expected = {"lost": True, "left": [], "code": 3, "new": True}
    assert await facts_of("dying_server") == expected


async def test_fifty_spawns_leave_no_descriptor_behind():
    assert await facts_of("fds") == {"ours": 0, "servers": 0}


async def test_a_cancelled_process_manager_still_ends_everybody():
    facts = await facts_of("cancelled")
    assert facts["signal"] == signal.SIGKILL
    assert facts["refused"] == "the run is ending; nothing new starts"
    assert facts["children"] == []


@pytest.mark.parametrize("scenario", ["keys", "keys_taken_later"])
async def test_keys_reach_the_gateway_and_no_other_memory(scenario):
    facts = await facts_of(
        scenario, environment={"STORY_API_KEY": f"sk-scenario-{os.getpid()}-0123456789"}
    )
    # Only root may look into the gateway's memory at all.
    assert facts == {"shown": [], "remembered": [], "gateway_knows": os.geteuid() == 0}
