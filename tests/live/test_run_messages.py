"""Whole trees over the Messages wire: real processes, a real server, thinking, tools, faults."""

import itertools
import json

import pytest
import trio

from swarm.mailbox.protocol.events import TurnFailed
from swarm.mailbox.protocol.records import AgentSpawned, ResponseBilled

pytestmark = pytest.mark.live
LIMIT_S = 45
KEY = "sk-ant-sentinel-0123456789abcdef"


def use(id_, name, **given):
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def says(words):
    return {"type": "text", "text": words}


def thinks(words):
    return {"type": "thinking", "thinking": words, "signature": f"SIGNED({words})"}


def point(rig, server):
    """The built-in provider, at our server; nothing else is configured."""
    rig.environment["ANTHROPIC_API_KEY"] = KEY
    rig.environment["ANTHROPIC_BASE_URL"] = server.origin


async def start(rig, *words):
    return await rig.start("run", "-p", "do it", "-s", "danger-full-access", "--plain", *words)


async def test_a_tree_works_over_the_wire_and_thinking_goes_back_as_it_came(rig, model_server):
    point(rig, model_server)
    sent: dict[str, list[dict]] = {"root": [], "child": []}

    def choose(seen):
        body = seen.json
        who = "child" if "count the files" in json.dumps(body["messages"][0]) else "root"
        sent[who].append(body)
        turn = len(sent[who])
        if who == "child":
            answers = [
                (thinks("I look"), use("c1", "exec_command", cmd="ls | wc -l")),
                (says("there are none"),),
            ]
        else:
            spawn = use("r1", "spawn_agent", task_name="counter", message="count the files")
            look = use("r2", "exec_command", cmd="echo seen")
            answers = [
                (thinks("I delegate"), says("I ask."), spawn, look),
                (use("r3", "wait_agent", targets=["counter"]),),
                (says("done"),),
            ]
        blocks = answers[min(turn, len(answers)) - 1]
        stop = "tool_use" if blocks[-1]["type"] == "tool_use" else "end_turn"
        told = {"cache_read_input_tokens": 100 * (turn - 1), "cache_creation_input_tokens": 50}
        stream = model_server.messages(*blocks, stop=stop, **told)
        return model_server.reply(stream)

    model_server.choose = choose
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig)).wait_end()
    assert ended.code == 0, ended.err
    assert ended.out == "done\n"
    assert "claude-opus-5-5" in ended.err
    assert "ANTHROPIC_API_KEY is set" in ended.err
    assert {one.path for one in rig.bodies(AgentSpawned)} == {"/root", "/root/counter"}
    last = sent["root"][-1]
    assert last["thinking"]["type"] == "adaptive"
    roles = [message["role"] for message in last["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    first = last["messages"][1]["content"]
    assert first[0] == thinks("I delegate")
    assert [block["id"] for block in first if block["type"] == "tool_use"] == ["r1", "r2"]
    results = last["messages"][2]["content"]
    assert [block["tool_use_id"] for block in results[:2]] == ["r1", "r2"]
    assert "seen" in results[1]["content"]
    for requests in sent.values():
        whole = [plain(body) for body in requests]
        for before, after in itertools.pairwise(whole):
            assert after["tools"] == before["tools"]
            assert after["system"] == before["system"]
            assert after["messages"][: len(before["messages"])] == before["messages"]
    drawn = rig.bodies(ResponseBilled)
    assert sum(one.usage.cached_input_tokens for one in drawn) == 100 + 100 + 200
    assert sum(one.usage.cache_write_input_tokens for one in drawn) == 50 * len(drawn)
    assert all(one.usd for one in drawn)
    assert rig.alive() == {}


def plain(body):
    """Without the marks, which are no part of the prefix."""
    text = json.dumps(body)
    assert text.count("cache_control") <= 4
    return json.loads(text.replace(', "cache_control": {"type": "ephemeral"}', ""))


async def test_a_patch_and_a_schema_work_over_the_wire(rig, model_server):
    point(rig, model_server)
    patch = "*** Begin Patch\n*** Add File: hello.txt\n+hi\n*** End Patch"
    model_server.add_messages(use("p1", "apply_patch", input=patch), stop="tool_use")
    model_server.add_messages(says('{"done": true}'))
    schema = {
        "type": "object",
        "properties": {"done": {"type": "boolean"}},
        "required": ["done"],
        "additionalProperties": False,
    }
    (rig.work / "schema.json").write_text(json.dumps(schema))
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, "--output-schema", "schema.json")).wait_end()
    assert ended.code == 0, ended.err
    assert (rig.work / "hello.txt").read_text() == "hi\n"
    assert json.loads(ended.out) == {"done": True}
    form = model_server.requests[0].json["output_config"]["format"]
    assert form == {"type": "json_schema", "schema": schema}


async def test_faults_of_the_server_are_survived_in_one_run(rig, model_server):
    """Overload, a cut line, garbage, an early close and a hang, one after the other."""
    point(rig, model_server)
    whole = model_server.messages(says("never heard"))
    model_server.add_error(529, {"type": "overloaded_error"}, retry_after="0.1")
    model_server.add(whole[: len(whole) // 2], "close")
    model_server.add(b"\x00\xffdata: {\n\n")
    model_server.add(whole[: len(whole) // 3], "hang")
    model_server.add_messages(says("at last"))
    config = (
        f'[model_providers.far]\nbase_url = "{model_server.origin}"\nwire_api = "messages"\n'
        'env_key = "ANTHROPIC_API_KEY"\nstream_idle_timeout_ms = 300\n'
    )
    (rig.home / "config.toml").write_text(config)
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig, "--provider", "far", "-m", "claude-opus-5-5")).wait_end()
    assert ended.code == 0, ended.err
    assert ended.out.endswith("at last\n")
    assert len(model_server.requests) == 5


@pytest.mark.parametrize(
    ("status", "type_", "code", "words"),
    [
        (401, "authentication_error", 5, "ANTHROPIC_API_KEY"),
        (404, "not_found_error", 5, "wire_api"),
    ],
)
async def test_a_final_refusal_ends_the_run_and_says_what_to_do(
    rig, model_server, status, type_, code, words
):
    point(rig, model_server)
    told = {"type": type_, "message": f"no: {KEY}"}
    model_server.add_error(status, told, request_id="req_77")
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig)).wait_end()
    assert ended.code == code, ended.err
    assert words in rig.completed.message
    assert "req_77" in rig.completed.message
    assert KEY not in ended.err + ended.out
    written = b"".join(path.read_bytes() for path in rig.home.rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert len(model_server.requests) == 1


async def test_a_refusal_of_the_model_fails_the_turn_and_says_why(rig, model_server):
    point(rig, model_server)
    model_server.add_messages(says("I"), stop="refusal")
    with trio.fail_after(LIMIT_S):
        ended = await (await start(rig)).wait_end()
    assert ended.code != 0
    assert "declined" in rig.bodies(TurnFailed)[0].message
