"""Whole runs with a compacted history: by the provider or the model, on request, and resumed."""

import json

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, TurnCompleted, Warned
from swarm.mailbox.protocol.records import ContextRecorded
from swarm.worker.agent.context.pinned_state import state_in_item

pytestmark = pytest.mark.live
LIMIT_S = 60
BIG = {"input_tokens": 58_000, "output_tokens": 10, "total_tokens": 58_010}


def configure(rig, server, **more):
    told = {"name": "b", "base_url": server.url, "wire_api": "responses", **more}
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in told.items())
    (rig.home / "config.toml").write_text(
        'model = "some-model"\nmodel_provider = "b"\nmodel_auto_compact_token_limit = 50000\n'
        f"[model_providers.b]\n{table}\n"
    )


def inputs(server):
    return [(one.target, msgspec.json.decode(one.body)) for one in server.requests]


def sealed(text="s3aled"):
    output = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "forged"}]},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": text},
    ]
    return msgspec.json.encode({"id": "r", "object": "response.compaction", "output": output})


async def test_a_provider_that_can_compacts_and_its_seal_goes_back_as_it_came(rig, model_server):
    configure(rig, model_server, remote_compaction=True)
    call = model_server.function_call("exec_command", {"cmd": "true"}, "c1")
    model_server.add_responses(call, usage=BIG)
    model_server.add(sealed(), content_type="application/json")
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("b")).wait_end()
    assert ended.code == 0, ended.err
    (_, first), (target, asked), (_, last) = inputs(model_server)
    assert target == "/v1/responses/compact"
    assert asked["input"][: len(first["input"])] == first["input"]
    assert asked["tools"] == first["tools"]
    assert asked["instructions"] == first["instructions"]
    assert "stream" not in asked
    assert last["input"][-1] == {"type": "compaction", "encrypted_content": "s3aled"}
    assert last["input"][:-1] == first["input"]
    assert b"forged" not in model_server.requests[-1].body
    (record,) = rig.bodies(ContextRecorded)
    assert record.shortened.means == "provider"


async def test_what_commands_changed_is_still_known_after_a_compaction_and_a_resume(
    rig, model_server
):
    configure(rig, model_server)
    (rig.work / "old").write_text("1\n")
    cmd = {"cmd": "echo 2 > old; mkdir d; echo x > d/new; echo y > brief; rm brief"}
    model_server.add_responses(model_server.function_call("exec_command", cmd, "c1"))
    model_server.add_responses(model_server.message("one"))
    later = {"cmd": "echo z > later"}
    call = model_server.function_call("exec_command", later, "c2")
    model_server.add_responses(call, usage=BIG)
    model_server.add_responses(model_server.message("the summary"))
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run("b", "-a", "never")).wait_end()).code == 0
        ended = await (await rig.resume("-p", "more")).wait_end()
    assert ended.code == 0, ended.err
    (record,) = rig.bodies(ContextRecorded)
    (state,) = [found for item in record.items if (found := state_in_item(item)) is not None]
    assert state.changed_files == ("A d/new", "M old", "A later")


async def test_where_the_providers_compaction_fails_the_model_is_asked(rig, model_server):
    configure(rig, model_server, remote_compaction=True)
    call = model_server.function_call("exec_command", {"cmd": "true"}, "c1")
    model_server.add_responses(call, usage=BIG)
    model_server.add_error(404, {"message": "no such path"})
    model_server.add_responses(model_server.message("the summary"))
    model_server.add_responses(model_server.message("done"))
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run("b")).wait_end()
    assert ended.code == 0, ended.err
    assert [target for target, _ in inputs(model_server)][1:3] == [
        "/v1/responses/compact", "/v1/responses",
    ]  # fmt: skip
    (record,) = rig.bodies(ContextRecorded)
    assert record.shortened.means == "model"
    assert any("own compaction failed" in one.message for one in rig.bodies(Warned))


async def test_a_resumed_run_goes_on_with_the_compacted_history(rig, model_server):
    configure(rig, model_server)
    call = model_server.function_call("exec_command", {"cmd": "true"}, "c1")
    model_server.add_responses(call, usage=BIG)
    model_server.add_responses(model_server.message("the summary"))
    model_server.add_responses(model_server.message("done"))
    model_server.add_responses(model_server.message("more"))
    with trio.fail_after(LIMIT_S):
        await (await rig.run("b")).wait_end()
        ended = await (await rig.resume("-p", "and now?")).wait_end()
    assert ended.code == 0, ended.err
    before, after = (body["input"] for _, body in inputs(model_server)[-2:])
    assert after[: len(before)] == before
    assert after[-1]["content"][0]["text"] == "and now?"


async def test_a_person_compacts_a_running_agent_and_takes_it_back(rig):
    slow = {"calls": [{"name": "exec_command", "arguments": {"cmd": "sleep 2"}}]}
    provider = rig.script(
        {"text": "first words", **slow}, {"text": "the summary"}, {"text": "then", **slow},
        {"text": "done"},
    )  # fmt: skip
    with trio.fail_after(LIMIT_S):
        run = await rig.run(provider)
        await rig.wait_call()
        asked = await (await rig.start("compact", rig.run_id)).wait_end()
        await rig.wait_call(count=2)
        undone = await (await rig.start("compact", rig.run_id, "--undo")).wait_end()
        again = await (await rig.start("compact", rig.run_id, "nobody")).wait_end()
        ended = await run.wait_end()
    assert (asked.code, undone.code, again.code, ended.code) == (0, 0, 1, 0), undone.err
    done, back = rig.bodies(ContextRecorded)
    assert (done.shortened.trigger, done.shortened.means) == ("person", "model")
    assert back.undoes == done.shortened.compaction_id
    assert len(back.items) > len(done.items)
    assert "history compacted" in ended.err
    assert "compaction undone" in ended.err
    assert len(rig.bodies(CallBegan)) == 2
    assert rig.bodies(TurnCompleted)[-1].last_message == "done"
