"""Endings of a run and the way back, with a real model server: the model is asked again."""

import signal

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.records import AgentEnded, InputPosted, RunCompleted
from swarm.supervisor.agents.end_states import STOPPED_NOTE

pytestmark = pytest.mark.live
LIMIT_S = 40
FEW = {"request_max_retries": 0, "stream_max_retries": 0, "stream_idle_timeout_ms": 400}
HUGE = b"data: " + b"x" * (17 << 20)  # longer than any line that is read


def http(url: str) -> tuple[str, ...]:
    """The options that make `url` the provider `bench`."""
    told = {"base_url": url, "name": "bench", **FEW}
    pairs = [f"model_providers.bench.{key}={msgspec.json.encode(value).decode()}"
             for key, value in told.items()]  # fmt: skip
    return tuple(word for pair in pairs for word in ("-c", pair))


def fail_500(server):
    server.add_error(500)


def fail_401(server):
    server.add_error(401, {"message": "bad key"})


def fail_quota(server):
    server.add_error(429, {"message": "no more", "code": "insufficient_quota"})


def fail_reset(server):
    server.add(server.sse({"type": "response.created", "response": {"id": "r"}}), "close")


def fail_hang(server):
    server.add(server.sse({"type": "response.created", "response": {"id": "r"}}), "hang")


def fail_oversized(server):
    server.add(HUGE)


PROVIDER_ENDS = [fail_500, fail_401, fail_quota, fail_reset, fail_hang, fail_oversized]
SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


async def start(rig, server, *words):
    return await rig.run("bench", "-m", "some-model", *http(server.url), *words)


async def resume_and_finish(rig, server):
    """It asks the model once more, with all that was said, and completes by its answer."""
    asked = len(server.requests)
    server.add_responses(server.message("after all"))
    ended = await (await rig.resume(*http(server.url))).wait_end()
    assert (ended.code, ended.out) == (0, "after all\n"), ended.err
    assert len(server.requests) == asked + 1
    body = server.requests[-1].body
    assert body.count(b'"do it"') == 1
    assert rig.completed.status == "completed"
    assert rig.alive() == {}
    return body


@pytest.mark.parametrize("fail", PROVIDER_ENDS)
async def test_a_resume_after_a_providers_failure_makes_the_request_again(rig, model_server, fail):
    for _ in range(4):
        fail(model_server)
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, model_server)).wait_end()
        assert ended.code == 5, ended.err
        assert rig.completed.status == "provider"
        model_server.replies.clear()
        body = await resume_and_finish(rig, model_server)
    assert b"was stopped at this point" not in body


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_resume_after_a_signal_goes_on_with_the_turn(rig, model_server, number):
    fail_hang(model_server)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server)
        await rig.wait(lambda: model_server.requests)
        run.process.send_signal(number)
        ended = await run.wait_end()
        assert ended.code == SIGNALS[number], ended.err
        model_server.replies.clear()
        body = await resume_and_finish(rig, model_server)
    assert STOPPED_NOTE[:40].encode() in body
    assert [one.cut_off for one in rig.bodies(AgentEnded)] == [True, False]


async def test_a_resume_of_a_completed_run_asks_nobody_and_says_so(rig, model_server):
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, model_server)).wait_end()
        assert ended.code == 0, ended.err
        ended = await (await rig.resume(*http(model_server.url))).wait_end()
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    assert "nothing was left to do" in ended.err
    assert len(model_server.requests) == 1
    assert [one.status for one in rig.bodies(RunCompleted)] == ["completed", "completed"]


REFUSED_FOR_GOOD = [400, 404, 413, 204, 307, 500]


@pytest.mark.parametrize("status", REFUSED_FOR_GOOD)
async def test_a_provider_that_refuses_for_good_is_exit_code_5(rig, model_server, status):
    for _ in range(9):
        model_server.add(
            *([] if status == 204 else [b'{"error": {"message": "no"}}']),
            status=status,
            content_type="application/json",
            **({"location": "http://127.0.0.1:1/v1"} if status == 307 else {}),
        )
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, model_server)).wait_end()
    assert ended.code == 5, ended.err
    assert rig.completed.status == "provider"
    assert str(status) in rig.completed.message
    assert len(rig.bodies(InputPosted)) == 1
