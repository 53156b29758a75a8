"""Damaged, oversized and packed answers through a whole run: nothing is changed on the way."""

import gzip
import json

import pytest
import trio

from .test_run_providers import start

pytestmark = pytest.mark.live
LIMIT_S = 60
QUICK = {"request_max_retries": 1, "stream_max_retries": 1, "stream_idle_timeout_ms": 5000}


def chat(model_server, *deltas, finish="stop"):
    return model_server.chat(*deltas, finish=finish)


def call_of(script, pieces):
    arguments = json.dumps({"cmd": script})
    cuts = [*pieces, len(arguments)]
    begin = {"index": 0, "id": "c1", "function": {"name": "exec_command", "arguments": ""}}
    return [
        {"tool_calls": [begin]},
        *(
            {"tool_calls": [{"index": 0, "function": {"arguments": arguments[a:b]}}]}
            for a, b in zip([0, *cuts], cuts, strict=False)
        ),
    ]


async def test_a_command_with_a_hole_in_it_is_never_run_and_the_whole_one_is(rig, model_server):
    script = "echo once >> build-tmp"
    cut = json.dumps({"cmd": script}).index("tmp")
    whole = chat(model_server, *call_of(script, [cut, cut + 3]), finish="tool_calls")
    broken = whole.replace(b'"arguments":"tmp"', b'"arguments":"tmp')
    assert broken != whole
    model_server.add(broken)
    model_server.add(whole)
    model_server.add(chat(model_server, {"content": "done, "}, {"content": "NOT all"}))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "done, NOT all\n"), ended.err
    assert (rig.work / "build-tmp").read_text() == "once\n"
    assert not (rig.work / "build-").exists()
    assert len(model_server.requests) == 3


async def test_an_emoji_in_two_halves_and_a_packed_answer_arrive_as_they_were_sent(
    rig, model_server
):
    body = chat(model_server, {"content": "do NOT "}, {"content": "HALF"}, {"content": "OTHER!"})
    body = body.replace(b'"HALF"', rb'"\ud83d"').replace(b'"OTHER!"', rb'"\ude00!"')
    packed = gzip.compress(body)
    model_server.add(packed[:20], packed[20:], content_encoding="gzip")
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "do NOT 😀!\n"), ended.err


async def test_a_delta_of_three_megabytes_is_an_answer_like_any_other(rig, model_server):
    large = "word " * (600 << 10)
    model_server.add(chat(model_server, {"content": large}))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert ended.out.strip() == large.strip()


async def test_a_text_over_the_bound_fails_its_task_with_a_plain_reason(rig, model_server):
    piece = "x" * (3 << 20)
    model_server.add(chat(model_server, *[{"content": piece}] * 7))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert ended.code == 5, ended.err
    assert "the response is over 8,388,608 characters" in rig.completed.message
    assert rig.alive() == {}


@pytest.mark.parametrize("status", [204, 307, 400, 404, 413, 500])
async def test_a_provider_that_refuses_for_good_ends_the_run_with_its_code(
    rig, model_server, status
):
    for _ in range(8):
        if status == 204:
            model_server.add(status=204)
        else:
            model_server.add_error(status)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, wire_api="chat", **QUICK)
        ended = await run.wait_end()
    assert ended.code == 5, ended.err
    assert f"answered {status}" in rig.completed.message
