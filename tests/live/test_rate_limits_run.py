"""What a server tells of the account's allowance reaches the journal and the stream of lines."""

import json

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.gateway import RateLimits

pytestmark = pytest.mark.live
LIMIT_S = 30
SAID = {
    "x_codex_primary_used_percent": "61.5",
    "x_codex_primary_window_minutes": "300",
    "x_ratelimit_limit_requests": "100",
    "x_ratelimit_remaining_requests": "90",
}


async def test_allowances_are_journaled_and_told_once(rig, model_server):
    call = {
        "type": "function_call", "id": "f", "call_id": "c", "name": "update_plan",
        "arguments": '{"plan":[]}',
    }  # fmt: skip
    answer = {
        "type": "message", "role": "assistant", "id": "m",
        "content": [{"type": "output_text", "text": "done"}],
    }  # fmt: skip
    for item in (call, answer):
        model_server.add(model_server.responses(item), **SAID)
    told = {"base_url": model_server.url, "name": "bench"}
    words = [
        word
        for key, value in told.items()
        for word in ("-c", f"model_providers.bench.{key}={msgspec.json.encode(value).decode()}")
    ]
    with trio.fail_after(LIMIT_S):
        started = await rig.start(
            "run", "-p", "go", "--provider", "bench", "-m", "m", "-s", "read-only", "--json", *words
        )
        ended = await started.wait_end()
    assert ended.code == 0, ended.err
    (limits,) = rig.bodies(RateLimits)
    assert [(one.name, one.used_percent) for one in limits.windows] == [
        ("primary", 61.5),
        ("requests", 10.0),
    ]
    lines = [json.loads(line) for line in ended.out.splitlines()]
    (line,) = [one for one in lines if one["type"] == "rate_limits"]
    assert line["windows"][0] == {
        "name": "primary", "used_percent": 61.5, "window_minutes": 300.0, "resets_at_unix_s": None,
    }  # fmt: skip
