"""Real runs at a limit that resets: in each form of its end, no process waits, and it goes on."""

import json
import os
import signal
import time

import pytest
import trio

from swarm.mailbox.parts.wakeups.wakeup_messages import WakeUpFired, WakeUpMade

from .test_run_providers import http, start

pytestmark = pytest.mark.live
LIMIT_S = 100
LIMIT = {"message": "The usage limit has been reached", "code": "usage_limit_reached"}


RESET_S = 7200


def forms() -> dict[str, tuple[int, dict, dict]]:
    """What a server says now of a limit that resets in two hours: status, error, headers."""
    at = time.gmtime(time.time() + RESET_S)
    second = int(time.time()) + RESET_S
    words = f"available again {time.strftime('%Y-%m-%dT%H:%M:%SZ', at)}"
    plan = "anthropic-ratelimit-unified-5h"
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", at)
    return {
        "a span in the body": (429, {**LIMIT, "resets_in_seconds": RESET_S}, {}),
        "a moment in the body": (429, {**LIMIT, "resets_at": second}, {}),
        "words": (429, {**LIMIT, "message": f"usage limit reached, {words}"}, {}),
        "a bar and a number": (429, {"message": f"usage limit reached|{second}"}, {}),
        "a header of the plan": (
            429, LIMIT, {f"{plan}-status": "rejected", f"{plan}-reset": str(second)},
        ),
        "a header of a router": (429, LIMIT, {"x-ratelimit-reset": str(second)}),
        "retry-after beyond what is retried": (429, {"message": "slow"}, {"retry-after": "7200"}),
        "retry-after as a date": (503, {"message": "busy"}, {"retry-after": date}),
    }  # fmt: skip


async def wait_asleep(rig, count: int = 1) -> None:
    await rig.wait(lambda: len(rig.bodies(WakeUpMade)) == count)
    await rig.wait(lambda: not any("swarm: /root" in title for title in rig.alive().values()))


async def command(rig, *words: str) -> str:
    done = await (await rig.start(*words)).wait_end()
    assert done.code == 0, done.err
    return done.out + done.err


def refuse(model_server, form: str = "a span in the body") -> None:
    status, error, headers = forms()[form]
    model_server.add_error(status, error, **headers)


@pytest.mark.parametrize("form", forms())
async def test_the_run_waits_without_a_process_and_goes_on_when_a_person_says_so(
    rig, model_server, form
):
    refuse(model_server, form)
    model_server.add_responses(model_server.message("Done."))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url)
        await wait_asleep(rig)
        assert len(model_server.requests) == 1
        (made,) = rig.bodies(WakeUpMade)
        assert 7100 < made.wake_up.due_unix_s - time.time() < 7280
        (row,) = (await command(rig, "wakeups", "list", rig.run_id, "--json")).splitlines()
        assert json.loads(row)["cause"] == "limit"
        assert "tried now" in await command(rig, "continue", rig.run_id)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert ended.err.count("swarm continue RUN") == 1
    assert len(model_server.requests) == 2
    assert len(rig.bodies(WakeUpFired)) == 1


async def test_a_run_that_died_while_it_waited_asks_once_when_it_is_resumed(rig, model_server):
    refuse(model_server)
    refuse(model_server)
    model_server.add_responses(model_server.message("Done."))
    (rig.home / "config.toml").write_text(
        f'[model_providers.bench]\nbase_url = "{model_server.url}"\nname = "bench"\n'
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run("bench", "-m", "some-model")
        await wait_asleep(rig)
        os.kill(run.pid, signal.SIGKILL)
        await rig.wait_gone()
        resumed = await rig.resume()
        await wait_asleep(rig, 2)
        await command(rig, "continue", rig.run_id)
        ended = await resumed.wait_end()
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    ("words", "environment", "told"),
    [
        (("--wait-for-limit", "1h"), {}, "the run waits until"),
        (("--wait-for-limit", "never"), {}, "does not wait"),
        ((), {"CI": "true"}, "does not wait"),
    ],
)
async def test_a_limit_that_is_not_waited_for_ends_the_run_at_once_and_says_why(
    rig, model_server, words, environment, told
):
    refuse(model_server)
    rig.environment |= environment
    with trio.fail_after(LIMIT_S):
        run = await rig.run("bench", "-m", "some-model", *http(model_server.url), *words)
        ended = await run.wait_end()
    assert ended.code == 5
    assert told in ended.err
    assert "it resets at" in ended.err
    assert rig.bodies(WakeUpMade) == []
    assert len(model_server.requests) == 1


@pytest.mark.parametrize("victim", ["gateway", "fork-server"])
async def test_a_process_of_the_run_that_is_killed_while_it_waits_is_replaced(
    rig, model_server, victim
):
    refuse(model_server)
    model_server.add_responses(model_server.message("Done."))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url)
        await wait_asleep(rig)
        pid = await rig.wait_pid(victim)
        os.kill(pid, signal.SIGKILL)
        await rig.wait(lambda: pid not in rig.alive())
        if victim == "gateway":
            await rig.wait(lambda: any("swarm: gateway" in one for one in rig.alive().values()))
        await command(rig, "continue", rig.run_id)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert len(model_server.requests) == 2
    assert len(rig.bodies(WakeUpFired)) == 1


async def test_a_command_that_runs_on_keeps_its_agent_until_it_has_ended(rig, model_server):
    cmd = "echo began >> runs; until [ -e stop ]; do sleep 0.1; done; echo ended >> runs"
    call = model_server.function_call(
        "exec_command", {"cmd": cmd, "yield_time_ms": 300}, call_id="c1"
    )
    model_server.add_responses(call)
    refuse(model_server)
    model_server.add_responses(model_server.message("Done."))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url)
        await rig.wait(lambda: rig.bodies(WakeUpMade))
        assert any("swarm: /root" in title for title in rig.alive().values())
        (rig.work / "stop").touch()
        await wait_asleep(rig)
        await command(rig, "continue", rig.run_id)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "Done.\n"), ended.err
    assert (rig.work / "runs").read_text() == "began\nended\n"
