"""`swarm mcp-server --codex-tools`: the two tools, events and approvals of Codex's own server."""

from typing import Any

import pytest
import trio

from support.mcp_clients import HELLO, LIMIT_S, READY, RawClient, raw_client

pytestmark = pytest.mark.live
ASKED = "rm -rf build"
FORMS = {**HELLO, "params": {**HELLO["params"], "capabilities": {"elicitation": {}}}}


def call(number: int, name: str, **arguments: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call",
            "params": {"name": name, "arguments": arguments}}  # fmt: skip


async def answer_of(client: RawClient, number: int, decision: object) -> tuple[dict, list, list]:
    """The answer to a call, the events before it, and the approvals, which get this decision."""
    events, asked = [], []
    while True:
        heard = await client.hear()
        match heard:
            case {"id": got, "result": result} if got == number:
                return result, events, asked
            case {"method": "codex/event", "params": params}:
                events.append(params)
            case {"method": "elicitation/create", "id": request, "params": params}:
                asked.append(params)
                await client.say({"jsonrpc": "2.0", "id": request, "result": decision})


@pytest.mark.parametrize(
    ("decision", "is_gone"),
    [
        ({"decision": "approved"}, True),
        ({"action": "accept", "content": {"decision": "approve"}}, True),
        ({"decision": "denied"}, False),
        ({"decision": {"approved": True}}, False),
        ({"action": "accept", "content": {}}, False),
        ({}, False),
    ],
)
async def test_a_session_its_approval_and_a_reply(rig, decision, is_gone):
    (rig.work / "build").mkdir()
    provider = rig.script(
        {"calls": [{"name": "exec_command", "arguments": {"cmd": ASKED}}]},
        {"text": "Done"}, {"text": "Again: {last_user}"},
    )  # fmt: skip
    words = ("--codex-tools", "--provider", provider, "-s", "danger-full-access", "-a", "untrusted")
    with trio.fail_after(LIMIT_S):
        client = await raw_client(rig, *words)
        await client.say(FORMS)
        await client.hear()
        await client.say(READY, call(2, "codex", prompt="clean"))
        result, events, asked = await answer_of(client, 2, decision)
        thread = result["structuredContent"]["threadId"]
        assert thread == rig.run_id
        assert result["structuredContent"]["content"] == result["content"][0]["text"] == "Done"
        assert (rig.work / "build").exists() is not is_gone
        assert asked[0]["codex_elicitation"] == "exec-approval"
        assert asked[0]["message"] == f"Allow Codex to run `{ASKED}` in `{rig.work}`?"
        assert asked[0]["codex_cwd"] == str(rig.work)
        assert asked[0]["threadId"] == thread
        kinds = [one["msg"]["type"] for one in events]
        assert (kinds[0], kinds[-1]) == ("task_started", "task_complete")
        assert {one["_meta"]["threadId"] for one in events} == {thread}
        assert {one["_meta"]["requestId"] for one in events} == {2}
        await client.say(call(3, "codex-reply", prompt="more", threadId=thread))
        result, events, _ = await answer_of(client, 3, decision)
        assert result["content"][0]["text"] == "Again: more"
        assert [one["msg"]["type"] for one in events] == [
            "task_started", "agent_message", "task_complete"
        ]  # fmt: skip
        await client.process.stdin.aclose()
        await client.process.wait()
    assert rig.alive() == {}
