"""What no editor should do to `swarm acp`: garbage, far too much, and going without a word."""

import json
import os
import signal

import pytest
import trio

from support.acp_editor import LIMIT_S, command, said, start, use
from swarm.mailbox.protocol.records import AgentSpawned, RunCompleted

pytestmark = pytest.mark.live
DO_IT = [{"type": "text", "text": "do it"}]


async def test_garbage_is_answered_in_words_and_the_next_request_works(rig):
    with trio.fail_after(LIMIT_S):
        lines = await start(rig)
        garbage = [
            b"{",
            b"\xff\xfe",
            b"[1, 2]",
            b"7",
            b'{"method": 7}',
            b'{"id": {}, "method": "x"}',
        ]
        await lines.send(b"", *garbage, b"[" * 100_000)
        for _ in range(len(garbage) + 1):
            assert (await lines.reply(None))["error"]["code"] in {-32700, -32600}
        assert "error" in await lines.ask(1, "no/such/method")
        assert "error" in await lines.ask(2, "session/new", cwd="relative", mcpServers=[])
        assert "error" in await lines.ask(3, "session/prompt", sessionId="none", prompt=[])
        assert "error" in await lines.ask(
            4, "session/load", sessionId="none", cwd="/", mcpServers=[]
        )
        assert (
            "environment" in (await lines.ask(5, "authenticate", methodId="x"))["error"]["message"]
        )
        reply = await lines.ask(6, "initialize", protocolVersion=99)
        assert reply["result"]["protocolVersion"] == 1
        new = await lines.ask(7, "session/new", cwd=str(rig.work), mcpServers=[])
        name = new["result"]["sessionId"]
        big = [{"type": "text", "text": "x" * (50 << 20)}]
        reply = await lines.ask(8, "session/prompt", sessionId=name, prompt=big)
        assert "at most 524,288" in reply["error"]["message"]
        await lines.send(b"x" * (65 << 20))
        assert "64 MiB" in (await lines.reply(None))["error"]["message"]
        assert "error" in await lines.ask(9, "session/set_mode", sessionId=name, modeId="root")
        assert "result" in await lines.ask(10, "session/set_mode", sessionId=name, modeId="ask")


@pytest.mark.parametrize("dies", ["closes", "is killed"])
async def test_an_editor_that_goes_ends_its_runs_and_a_killed_agent_leaves_one_to_load(rig, dies):
    use(rig, command("sleep 60"), said("gone on"))
    with trio.fail_after(LIMIT_S):
        lines = await start(rig)
        await lines.ask(1, "initialize", protocolVersion=1)
        new = await lines.ask(2, "session/new", cwd=str(rig.work), mcpServers=[])
        name = new["result"]["sessionId"]
        prompt = {"sessionId": name, "prompt": DO_IT}
        request = {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}
        await lines.send(json.dumps(request).encode())
        await rig.wait_call()
        if dies == "closes":
            assert lines.process.stdin is not None
            await lines.process.stdin.aclose()
            await rig.wait(lambda: rig.bodies(RunCompleted))
            await rig.wait_gone()
            return
        os.kill(lines.process.pid, signal.SIGKILL)
        await lines.process.wait()
        again = await start(rig)
        await again.ask(1, "initialize", protocolVersion=1)
        loaded = await again.ask(
            2, "session/load", sessionId=name, cwd=str(rig.work), mcpServers=[]
        )
        assert "result" in loaded
        await again.send(
            json.dumps(
                {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": name}}
            ).encode()
        )
        reply = await again.ask(3, "session/prompt", **prompt)
        assert reply["result"]["stopReason"] in {"end_turn", "cancelled"}
        await again.ask(4, "session/close", sessionId=name)
        await rig.wait(lambda: rig.bodies(RunCompleted))


async def test_a_prompt_ends_with_its_turn_although_the_process_of_its_agent_died(rig):
    use(rig, command("sleep 60"), said("gone on"))
    with trio.fail_after(LIMIT_S):
        lines = await start(rig)
        await lines.ask(1, "initialize", protocolVersion=1)
        new = await lines.ask(2, "session/new", cwd=str(rig.work), mcpServers=[])
        prompt = {"sessionId": new["result"]["sessionId"], "prompt": DO_IT}
        request = {"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": prompt}
        await lines.send(json.dumps(request).encode())
        await rig.wait_call()
        os.kill(rig.bodies(AgentSpawned)[0].pid, signal.SIGKILL)
        assert (await lines.reply(3))["result"]["stopReason"] == "end_turn"
        assert [one.epoch for one in rig.bodies(AgentSpawned)] == [1, 2]
