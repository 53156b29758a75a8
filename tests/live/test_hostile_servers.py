"""Servers that mean harm, in whole runs: what they send is bounded, hidden, and told apart."""

import base64
import json
from functools import partial
from itertools import count

import pytest
import trio

from .test_run_providers import start

pytestmark = pytest.mark.live
LIMIT_S = 90
ONCE = {"request_max_retries": 0, "stream_max_retries": 0}
MOST_SENT_BYTES = 256 << 20
KEY = "sk-sentinel-5b7d9f1a3c2e4068-of-this-run"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
ERROR = b"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\n\r\n"
EVENT = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def chunk(**delta):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


ENDLESS = {
    "headers": (HEAD, b"x-more: " + b"a" * 4000 + b"\r\n"),
    "one header": (HEAD + b"x-more: ", b"a" * 4000),
    "one line": (EVENT + b"data: ", b"a" * 65536),
    "an event of many lines": (EVENT, b"data: " + b"a" * 60000 + b"\n"),
    "a text": (EVENT, chunk(content="a" * 60000)),
    "thoughts": (EVENT, chunk(reasoning_content="a" * 60000)),
    "calls": (EVENT, None),
    "the arguments of a call": (EVENT, None),
    "an error": (ERROR, b"a" * 65536),
    "one JSON answer": (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{",
        b'"a":1,' * 9000,
    ),
}


def pieces(name):
    """What follows the beginning, for ever."""
    function = {"name": "exec_command", "arguments": ""}
    for number in count():
        if name == "calls":
            call = {"index": number, "id": f"c{number}", "function": function}
            yield chunk(tool_calls=[call]) * 50
        elif name == "the arguments of a call":
            given = {"index": 0, "id": "c", "function": function | {"arguments": "a" * 60000}}
            yield chunk(tool_calls=[given])
        else:
            yield ENDLESS[name][1]


class Endless:
    """Sends without an end to whoever asks for a model's answer, and counts."""

    def __init__(self, name):
        self.name, self.most_bytes = name, 0

    async def serve(self, stream):
        seen = b""
        while b"\r\n\r\n" not in seen:
            if not (piece := await stream.receive_some()):
                return
            seen += piece
        if not seen.startswith(b"POST"):
            await stream.send_all(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
            return
        sent = 0
        try:
            await stream.send_all(ENDLESS[self.name][0])
            for piece in pieces(self.name):
                await stream.send_all(piece)
                sent += len(piece)
                assert sent < MOST_SENT_BYTES, "nobody stops it"
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.most_bytes = max(self.most_bytes, sent)


@pytest.mark.parametrize("name", ENDLESS)
async def test_what_has_no_end_is_cut_off_and_ends_the_run(rig, nursery, name):
    endless = Endless(name)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(partial(trio.serve_listeners, endless.serve, [listener]))
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
    with trio.fail_after(LIMIT_S):
        run = await start(rig, url, wire_api="chat", **ONCE)
        ended = await run.wait_end()
    assert ended.code in {1, 5}, ended.err
    assert len(ended.err) < 20_000
    assert rig.alive() == {}


@pytest.mark.parametrize(
    "told",
    [
        f"your key {KEY} is bad",
        f"https://models.example/?key={KEY}&x=1",
        "Basic " + base64.b64encode(f"me:{KEY}".encode()).decode(),
    ],
)
async def test_an_error_that_repeats_the_key_shows_it_nowhere(rig, model_server, told):
    rig.environment["BENCH_KEY"] = KEY
    error = {"message": told, "type": "invalid_request_error", "code": told}
    model_server.choose = lambda seen: model_server.reply(
        json.dumps({"error": error}).encode()
    )._replace(status=400)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, env_key="BENCH_KEY", **ONCE)
        ended = await run.wait_end()
    assert ended.code == 5
    files = [path for path in rig.places.folder.rglob("*") if path.is_file()]
    kept = b"".join(path.read_bytes() for path in files) + ended.err.encode()
    for form in (KEY, told):
        assert form.encode() not in kept


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ({"resets_at": 1e300}, {}),
        ({"resets_at": -5}, {}),
        ({"resets_at": 1}, {}),
        ({"resets_in_seconds": 1e18}, {}),
        ({"resets_in_seconds": "NaN"}, {}),
        ({}, {"retry-after": "9" * 400}),
        ({}, {"retry-after": "-1"}),
        ({}, {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}),
        ({}, {"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}),
        ({}, {"x-codex-primary-reset-at": "inf", "x-codex-primary-used-percent": "nan"}),
    ],
)
async def test_a_reset_far_ahead_or_long_ago_is_no_endless_wait(rig, model_server, body, headers):
    """A plan that is spent ends the run at once, whatever the server says of its return."""
    error = {"type": "usage_limit_reached", "message": "spent", **body}
    pairs = (("content-type", "application/json"), *headers.items())
    model_server.choose = lambda seen: model_server.reply(
        json.dumps({"error": error}).encode()
    )._replace(status=429, headers=pairs)
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, **ONCE)
        ended = await run.wait_end()
    assert ended.code == 5, ended.err
    assert len(model_server.requests) == 1
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("call_id", ["call_1", "", "../../x", "a" * 100_000, "call_1\x00\u202e"])
async def test_calls_whose_ids_imitate_others_run_each_and_keep_their_outputs(
    rig, model_server, call_id
):
    """The same id in every response, and twice in one: each call has its own output."""
    calls = [
        model_server.function_call(
            "exec_command", {"cmd": f"echo {n} >> made; echo out-{n}"}, call_id
        )
        for n in range(3)
    ]
    model_server.add_responses(calls[0])
    model_server.add_responses(calls[1] | {"id": "f1"}, calls[2] | {"id": "f2"})
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        run = await start(rig, model_server.url, **ONCE)
        ended = await run.wait_end()
    assert (ended.code, ended.out) == (0, "done\n"), ended.err
    assert sorted((rig.work / "made").read_text().split()) == ["0", "1", "2"]
    last = json.loads(model_server.requests[-1].body)["input"]
    outputs = [item for item in last if item["type"] == "function_call_output"]
    made = [item for item in last if item["type"] == "function_call"]
    assert len(outputs) == len(made) == 3
    assert len({item["call_id"] for item in made}) == 3
    by_id = {item["call_id"]: str(item["output"]) for item in outputs}
    for item in made:
        number = json.loads(item["arguments"])["cmd"].split()[1]
        assert f"out-{number}" in by_id[item["call_id"]]
