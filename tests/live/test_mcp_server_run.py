"""`swarm mcp-server` over stdio: the official SDK's client, real runs, clients that misbehave."""

import json
import sys
from functools import partial
from typing import Any

import anyio
import mcp.types as types
import pytest
import trio
from mcp.shared.exceptions import MCPError

from support.mcp_clients import (
    HELLO,
    LIMIT_S,
    READY,
    poll,
    raw_client,
    stdio_client_of,
    text_of_result,
    under_asyncio,
)
from swarm.mailbox.protocol.events import CallEnded, TurnAborted
from swarm.mailbox.protocol.records import ApprovalResolved, InputPosted, RunCompleted

pytestmark = pytest.mark.live
ASKED = "rm -rf build"


def command(script: str) -> dict[str, Any]:
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": script}}]}


def asking(rig: Any) -> tuple[str, ...]:
    """A script whose first action is asked about, and the options that ask a person."""
    (rig.work / "build").mkdir()
    provider = rig.script(command(ASKED), {"text": "Done: {last_output}"})
    return ("--provider", provider, "--sandbox", "danger-full-access", "-a", "untrusted")


async def test_a_run_gives_its_answer_its_tree_and_its_journal(rig):
    provider = rig.script(command("echo one; sleep 1"), {"text": "It counts sheep."})
    shown: list[str] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        shown.append(message or "")

    async def client() -> None:
        async with stdio_client_of(rig, "--provider", provider) as session:
            names = [tool.name for tool in (await session.list_tools()).tools]
            assert names == [f"swarm_{name}" for name in
                             ("run", "status", "send", "result", "approve", "stop")]  # fmt: skip
            result = await session.call_tool(
                "swarm_run", {"task": "Look."}, progress_callback=on_progress
            )
            assert text_of_result(result) == "It counts sheep."
            report = result.structured_content
            assert (report["status"], report["alive"]) == ("completed", True)
            listed = [one.uri for one in (await session.list_resources()).resources]
            assert listed == [f"swarm://runs/{rig.run_id}", f"swarm://runs/{rig.run_id}/journal"]
            (journal,) = (await session.read_resource(listed[1])).contents
            lines = [json.loads(line) for line in journal.text.splitlines()]
            assert lines[0]["body"]["type"] == "run_started"
            late = await session.read_resource(f"{listed[1]}?after={lines[-2]['seq']}")
            assert json.loads(late.contents[0].text.splitlines()[0])["seq"] == lines[-1]["seq"]

    await under_asyncio(client)
    assert any("root running: exec_command echo one" in text for text in shown)
    assert rig.bodies(InputPosted)[0].parts[0].text == "Look."
    assert rig.alive() == {}  # a run that a client waited for ends with its server


async def test_a_run_in_the_background_outlives_the_server_and_is_found_again(rig):
    provider = rig.script(command("sleep 2"), {"text": "first"}, {"text": "second: {last_user}"})
    words = ("--provider", provider)

    async def client() -> None:
        async with stdio_client_of(rig, *words) as session:
            given = {"task": "go", "background": True}
            begun = (await session.call_tool("swarm_run", given)).structured_content
            assert begun["status"] == "working"
            run = begun["run"]
            early = await session.call_tool("swarm_result", {"run": run, "wait_s": 0})
            assert early.structured_content["status"] == "working"
        assert rig.alive()
        async with stdio_client_of(rig, *words) as session:
            rows = (await session.call_tool("swarm_status", {})).structured_content["runs"]
            assert [row["run"] for row in rows] == [run]
            done = await session.call_tool("swarm_result", {"run": run[-8:], "wait_s": 30})
            assert text_of_result(done) == "first"
            more = await session.call_tool("swarm_send", {"run": run, "text": "and?"})
            assert text_of_result(more) == "second: and?"
            stopped = await session.call_tool("swarm_stop", {"run": run})
            assert stopped.structured_content["alive"] is False
            again = await session.call_tool("swarm_send", {"run": run, "text": "once more"})
            assert again.structured_content["alive"] is True  # it was resumed
        async with stdio_client_of(rig, *words, "--sandbox", "read-only") as session:
            refused = await session.call_tool("swarm_result", {"run": run})
            assert "this server has no run" in text_of_result(refused)  # other rights, other runs

    await under_asyncio(client)


async def test_an_approval_is_an_elicitation_and_the_first_answer_counts(rig):
    words = asking(rig)
    asked: list[Any] = []

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"decision": "approve"})

    async def client() -> None:
        async with stdio_client_of(rig, *words, elicitation_callback=answer) as session:
            result = await session.call_tool("swarm_run", {"task": "clean"})
            assert text_of_result(result).startswith("Done")

    await under_asyncio(client)
    assert ASKED in asked[0].message
    assert asked[0].requested_schema["properties"]["decision"]["enum"][0] == "approve"
    assert not (rig.work / "build").exists()


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_an_elicitation_that_is_not_accepted_is_a_denial(rig, action):
    words = asking(rig)

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action=action)

    async def client() -> None:
        async with stdio_client_of(rig, *words, elicitation_callback=answer) as session:
            await session.call_tool("swarm_run", {"task": "clean"})

    await under_asyncio(client)
    assert (rig.work / "build").exists()
    assert [one.outcome for one in rig.bodies(ApprovalResolved)] == ["denied"]


@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_without_elicitation_an_approval_waits_for_the_tool(rig, decision):
    words = asking(rig)

    async def client() -> None:
        async with stdio_client_of(rig, *words) as session:
            result = await session.call_tool("swarm_run", {"task": "clean"})
            report = result.structured_content
            assert report["status"] == "approval_needed"
            (waiting,) = report["approvals"]
            assert ASKED in waiting["action"]
            given = {"run": report["run"], "approval_id": "zz", "decision": "approve"}
            refused = await session.call_tool("swarm_approve", given)
            assert refused.is_error
            given = {**given, "approval_id": waiting["id"], "decision": decision}
            assert not (await session.call_tool("swarm_approve", given)).is_error
            done = await session.call_tool("swarm_result", {"run": report["run"]})
            assert text_of_result(done).startswith("Done")

    await under_asyncio(client)
    assert (rig.work / "build").exists() == (decision == "deny")


async def test_a_cancelled_call_interrupts_its_turn_and_the_run_stays(rig):
    provider = rig.script(command("sleep 60"), {"text": "after"})

    async def client() -> None:
        async with stdio_client_of(rig, "--provider", provider) as session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.call_tool, "swarm_run", {"task": "go"})
                await poll(lambda: rig.has_run and "sleep 60" in str(rig.alive()))
                tasks.cancel_scope.cancel()
            await poll(lambda: rig.bodies(TurnAborted))
            after = await session.call_tool("swarm_send", {"run": rig.run_id, "text": "so?"})
            assert text_of_result(after) == "after"

    await under_asyncio(client)
    assert rig.bodies(CallEnded)[0].status == "interrupted"


async def test_a_caller_only_narrows(rig):
    provider = rig.script({"text": "ok"})
    words = (
        "--provider",
        provider,
        "-s",
        "read-only",
        "-a",
        "untrusted",
        "--budget-tokens",
        "99999",
    )
    too_wide = (
        {"sandbox": "workspace-write"}, {"sandbox": "danger-full-access"},
        {"approval": "on-request"}, {"approval": "never"}, {"budget": {"tokens": 100_000}},
        {"cwd": "/"}, {"cwd": "../.."}, {"role": "no-such-role"}, {"options": ["--yolo"]},
        {"model": "m\0"}, {"task": ""}, {"task": "x" * (2 << 20)},
    )  # fmt: skip

    async def client() -> None:
        async with stdio_client_of(rig, *words) as session:
            for more in too_wide:
                refused = await session.call_tool("swarm_run", {"task": "go", **more})
                assert refused.is_error, more
            assert not rig.has_run
            given = {
                "task": "go",
                "sandbox": "read-only",
                "isolation": "copy",
                "budget": {"tokens": 50_000},
            }
            assert not (await session.call_tool("swarm_run", given)).is_error
            with pytest.raises(MCPError, match="no tool"):
                await session.call_tool("swarm_delete", {})

    await under_asyncio(client)


async def test_more_runs_than_allowed_are_refused(rig):
    provider = rig.script(command("sleep 60"))

    async def client() -> None:
        async with stdio_client_of(rig, "--provider", provider, "--max-runs", "1") as session:
            start = partial(session.call_tool, "swarm_run", {"task": "go", "background": True})
            first = await start()
            assert "--max-runs" in text_of_result(await start())
            await session.call_tool("swarm_stop", {"run": first.structured_content["run"]})
            assert rig.bodies(RunCompleted)

    await under_asyncio(client)


# --- clients that misbehave ----------------------------------------------------------------------


async def test_garbage_is_answered_and_the_server_goes_on(rig):
    garbage = [b"not json", b"\xff\xfe\x00", b"[]", b"{}", b'{"jsonrpc":"2.0"}', b"[" * 100_000,
               b'{"jsonrpc":"2.0","id":{},"method":"ping"}', b"null", b"1e999999"]  # fmt: skip
    with trio.fail_after(LIMIT_S):
        client = await raw_client(rig)
        await client.say(*garbage)
        for line in garbage:
            answer = await client.hear()
            assert (answer["id"], answer["jsonrpc"]) == (None, "2.0"), line
            assert answer["error"]["code"] in {-32700, -32600}
        await client.say(HELLO)
        assert (await client.hear())["result"]["serverInfo"]["name"] == "swarm"
        await client.process.stdin.aclose()
        assert await client.process.wait() == 0
    assert rig.alive() == {}


async def test_an_argument_of_50_mb_is_refused_in_words_and_one_message_of_65_mb_is_skipped(rig):
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "swarm_run", "arguments": {"task": "x" * (50 << 20)}}}  # fmt: skip
    with trio.fail_after(LIMIT_S):
        client = await raw_client(rig)
        await client.say(HELLO)
        await client.hear()
        await client.say(READY, call)
        answer = await client.hear()
        assert (answer["id"], answer["result"]["isError"]) == (2, True)
        assert "task" in answer["result"]["content"][0]["text"]
        await client.say(b'{"x":"' + b"y" * (65 << 20) + b'"}')
        assert "64 MiB" in (await client.hear())["error"]["message"]
        await client.say({"jsonrpc": "2.0", "id": 3, "method": "tools/list"})
        assert len((await client.hear())["result"]["tools"]) == 6
    assert not rig.has_run


async def test_a_client_that_dies_ends_what_it_waited_for(rig):
    provider = rig.script(command("sleep 60"))
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "swarm_run", "arguments": {"task": "go"}}}  # fmt: skip
    with trio.fail_after(LIMIT_S):
        client = await raw_client(rig, "--provider", provider)
        await client.say(HELLO)
        await client.hear()
        await client.say(READY, call)
        await rig.wait_call()
        await client.process.stdin.aclose()
        await client.process.stdout.aclose()
        await client.process.wait()
        while rig.alive():  # noqa: ASYNC110 - processes tell nobody
            await trio.sleep(0.05)
    assert rig.completed.status in {"interrupted", "completed"}


async def test_nothing_but_messages_reaches_stdout(rig):
    program = (
        "import sys\n"
        "from swarm.supervisor.clients.mcp_server.message_lines import take_standard_streams\n"
        "import os; kept = take_standard_streams(); print('stray'); sys.stdout.flush()\n"
        "os.system('echo child'); kept.sink.write(b'message\\n'); kept.sink.flush()\n"
        "assert os.read(0, 9) == b''; assert kept.source.readline() == b'in\\n'\n"
    )
    done = await trio.run_process(
        [sys.executable, "-c", program], stdin=b"in\n", capture_stdout=True, capture_stderr=True
    )
    assert done.stdout == b"message\n"
    assert done.stderr == b"stray\nchild\n"


@pytest.mark.parametrize("error", [{"code": -32601, "message": "no forms here"}, "no", {}, None])
async def test_an_error_as_the_answer_to_an_elicitation_is_a_denial(rig, error):
    words = asking(rig)
    hello = json.loads(json.dumps(HELLO))
    hello["params"]["capabilities"] = {"elicitation": {}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "swarm_run", "arguments": {"task": "clean"}}}  # fmt: skip
    with trio.fail_after(LIMIT_S):
        client = await raw_client(rig, *words)
        await client.say(hello)
        await client.hear()
        await client.say(READY, call)
        while (heard := await client.hear()).get("id") != 2 or "method" in heard:
            if heard.get("method") == "elicitation/create":
                await client.say({"jsonrpc": "2.0", "id": heard["id"], "error": error})
        await client.process.stdin.aclose()
        await client.process.wait()
    assert (rig.work / "build").exists()
    assert [one.outcome for one in rig.bodies(ApprovalResolved)] == ["denied"]
