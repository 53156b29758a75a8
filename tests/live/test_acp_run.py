"""`swarm acp` and an editor: the official SDK's client, and lines that no client should send."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import anyio
import pytest
import trio
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    ReadTextFileResponse,
    RequestPermissionResponse,
)

from swarm.mailbox.protocol.ops import ImageInput
from swarm.mailbox.protocol.records import AgentSpawned, InputPosted, RunCompleted

pytestmark = pytest.mark.live
LIMIT_S = 90
PROGRAM = str(Path(sys.executable).parent / "swarm")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "f8cf500f0003860180b4bb6b400000000049454e44ae426082"
)


class Editor:
    """A client of the SDK that keeps what it was shown, and gives one answer to every question."""

    def __init__(self, answer: str | None = "once") -> None:
        self.answer = answer
        self.is_working = asyncio.Event()  # a tool call has begun
        self.updates: list[dict[str, Any]] = []
        self.asked: list[str] = []

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update.model_dump(by_alias=True, exclude_none=True))
        if self.updates[-1]["sessionUpdate"] == "tool_call":
            self.is_working.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append(tool_call.title)
        if self.answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        assert self.answer in {option.option_id for option in options}
        outcome = AllowedOutcome(outcome="selected", option_id=self.answer)
        return RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **_):
        return ReadTextFileResponse(content=f"not saved yet: {path}")

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.updates if one["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        return "".join(one["content"]["text"] for one in self.of("agent_message_chunk"))


def use(rig, *turns: dict[str, Any]) -> None:
    (rig.home / "config.toml").write_text(f'model_provider = "{rig.script(*turns)}"\n')


def command(script: str) -> dict[str, Any]:
    return {
        "agent": "/root",
        "calls": [{"name": "exec_command", "arguments": {"cmd": script}}],
    }


def said(text: str, agent: str = "/root") -> dict[str, Any]:
    return {"agent": agent, "text": text}


@asynccontextmanager
async def connected(rig, editor: Editor) -> AsyncIterator[Any]:
    """A connection of the SDK to `swarm acp`; the process ends with the block."""
    async with acp.spawn_agent_process(
        editor, PROGRAM, "acp", env=rig.environment, cwd=str(rig.work)
    ) as (connection, _):
        capabilities = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True))
        await connection.initialize(protocol_version=1, client_capabilities=capabilities)
        yield connection


async def play(body: Callable[[], Awaitable[None]]) -> None:
    """Run an asyncio client in a thread."""

    async def bounded() -> None:
        with anyio.fail_after(LIMIT_S):
            await body()

    await trio.to_thread.run_sync(lambda: anyio.run(bounded, backend="asyncio"))


async def test_a_session_works_is_listed_loaded_and_goes_on(rig):
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"
    apply = {"name": "apply_patch", "custom": True, "arguments": patch}
    plan = {"plan": [{"step": "write", "status": "completed"}]}
    update_plan = {"name": "update_plan", "arguments": plan}
    use(
        rig,
        {"agent": "/root", "reasoning": "a file", "calls": [apply, update_plan]},
        said("Written."),
        said("Again: {last_user}"),
    )  # fmt: skip
    first, later = Editor(), Editor()
    text = [acp.text_block("Write a.txt.")]

    async def client() -> None:
        async with connected(rig, first) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            reply = await connection.prompt(session_id=session.session_id, prompt=text)
            assert reply.stop_reason == "end_turn"
            assert first.text == "Written."
        async with connected(rig, later) as connection:
            (listed,) = (await connection.list_sessions(cwd=str(rig.work))).sessions
            assert (listed.session_id, listed.title) == (session.session_id, "Write a.txt.")
            await connection.load_session(
                cwd=str(rig.work), session_id=listed.session_id, mcp_servers=[]
            )
            assert later.text == "Written."
            assert later.of("user_message_chunk")[0]["content"]["text"] == "Write a.txt."
            more = [acp.text_block("And now?")]
            reply = await connection.prompt(session_id=session.session_id, prompt=more)
            assert later.text == "Written.Again: And now?"

    await play(client)
    assert (rig.work / "a.txt").read_text() == "hello\n"
    assert first.of("agent_thought_chunk")[0]["content"]["text"] == "a file"
    assert first.of("plan")[0]["entries"][0]["content"] == "write"
    (call,) = first.of("tool_call")
    where = {"path": str(rig.work / "a.txt"), "line": 1}
    assert (call["kind"], call["locations"]) == ("edit", [where])
    assert call["content"][0] == {
        "type": "diff", "path": str(rig.work / "a.txt"), "newText": "hello\n",
    }  # fmt: skip
    with trio.fail_after(LIMIT_S):
        await rig.wait_gone()


@pytest.mark.parametrize(("answer", "made"), [("once", True), ("deny", False), (None, False)])
async def test_the_editor_is_asked_in_the_mode_ask_and_its_answer_counts(rig, answer, made):
    use(rig, command("touch made"), said("{last_output}"))
    editor = Editor(answer)

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            name = session.session_id
            await connection.set_session_mode(session_id=name, mode_id="ask")
            await connection.set_config_option(session_id=name, config_id="effort", value="low")
            await connection.prompt(session_id=name, prompt=[acp.text_block("do it")])

    await play(client)
    assert editor.asked == ["touch made"]
    assert (rig.work / "made").exists() is made
    assert rig.bodies(AgentSpawned)[0].effort == "low"


async def test_images_resources_and_files_that_are_not_saved_reach_the_agent(rig):
    use(rig, said("seen"))
    image = acp.image_block(base64.b64encode(PIXEL).decode(), "image/png")
    inside = acp.resource_block(acp.embedded_text_resource("file:///n.md", "a note"))
    link = acp.resource_link_block("x.py", f"file://{rig.work}/x.py")

    async def client() -> None:
        async with connected(rig, Editor()) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            blocks = [acp.text_block("Look:"), image, inside, link]
            await connection.prompt(session_id=session.session_id, prompt=blocks)

    await play(client)
    *images, words = rig.bodies(InputPosted)[0].parts
    assert [type(part) for part in images] == [ImageInput]
    assert "a note" in words.text
    assert f"not saved yet: {rig.work}/x.py" in words.text


async def test_a_sub_agent_is_a_tool_call_with_its_own_progress(rig):
    spawn = {"name": "spawn_agent", "arguments": {"task_name": "scout", "message": "look around"}}
    wait = {"name": "wait_agent", "arguments": {"targets": ["/root/scout"]}}
    use(
        rig,
        {"agent": "/root", "calls": [spawn]},
        {"agent": "/root", "calls": [wait]},
        {
            "agent": "/root/scout",
            **{k: v for k, v in command("echo found").items() if k == "calls"},
        },
        said("All seen.", "/root/scout"),
        said("Done."),
    )
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            await connection.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])

    await play(client)
    (agent,) = [one for one in editor.of("tool_call") if one["toolCallId"].startswith("agent-")]
    assert agent["title"].startswith("Agent scout")
    told = [
        one for one in editor.of("tool_call_update") if one["toolCallId"] == agent["toolCallId"]
    ]
    assert any("echo found" in str(one.get("content")) for one in told)
    assert (told[-1]["status"], "All seen." in str(told[-1]["content"])) == ("completed", True)


async def test_a_cancelled_turn_ends_twice_over_and_the_session_goes_on(rig):
    use(rig, command("sleep 60"), said("gone on"))
    editor = Editor()

    async def client() -> None:
        async with connected(rig, editor) as connection:
            session = await connection.new_session(cwd=str(rig.work), mcp_servers=[])
            name, words = session.session_id, [acp.text_block("do it")]
            replies = []
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    replies.append(await connection.prompt(session_id=name, prompt=words))

                tasks.start_soon(ask)
                await editor.is_working.wait()
                with pytest.raises(acp.RequestError, match="still being worked on"):
                    await connection.prompt(session_id=name, prompt=words)
                await connection.cancel(session_id=name)
                await connection.cancel(session_id=name)
            assert replies[0].stop_reason == "cancelled"
            assert (
                await connection.prompt(session_id=name, prompt=words)
            ).stop_reason == "end_turn"
            assert editor.text == "gone on"

    await play(client)


class Lines:
    """`swarm acp` and its lines, one JSON value each."""

    def __init__(self, process: trio.Process) -> None:
        self.process, self._rest = process, b""

    async def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(b"".join(line + b"\n" for line in lines))

    async def ask(self, number: int, method: str, **params: object) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        await self.send(json.dumps(request).encode())
        return await self.reply(number)

    async def reply(self, number: int | None) -> dict[str, Any]:
        while True:
            message = json.loads(await self._line())
            if "method" not in message and message["id"] == number:
                return message

    async def _line(self) -> bytes:
        assert self.process.stdout is not None
        while b"\n" not in self._rest:
            part = await self.process.stdout.receive_some()
            assert part, "it ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line


async def start(rig) -> Lines:
    process = await trio.lowlevel.open_process(
        [PROGRAM, "acp"], stdin=-1, stdout=-1, env=rig.environment, cwd=rig.work
    )
    return Lines(rig.adopt(process))


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
        prompt = {"sessionId": name, "prompt": [{"type": "text", "text": "do it"}]}
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
