"""`swarm mcp-server --http`: the token, the headers, both protocol eras, and its end."""

import json
from typing import Any

import anyio
import httpx2
import mcp.types as types
import pytest
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client

from support.mcp_clients import http_server_of, poll, stdio_client_of, text_of_result, under_asyncio

pytestmark = pytest.mark.live
ASKED = "rm -rf build"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def command(script: str) -> dict[str, Any]:
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": script}}]}


def asking(rig: Any) -> tuple[str, ...]:
    (rig.work / "build").mkdir()
    provider = rig.script(command(ASKED), {"text": "Done"})
    return ("--provider", provider, "--sandbox", "danger-full-access", "-a", "untrusted")


async def accept(context: Any, params: Any) -> types.ElicitResult:
    assert ASKED in params.message
    return types.ElicitResult(action="accept", content={"decision": "approve"})


def with_token(token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60)


async def test_only_who_knows_the_token_and_speaks_to_this_host_is_served(rig):
    async def client() -> None:
        async with http_server_of(rig) as (url, token, _), with_token(token) as known:
            json_only = {"Accept": "application/json, text/event-stream"}

            async def status(**headers: str) -> int:
                reply = await known.post(url, json=PING, headers={**json_only, **headers})
                return reply.status_code

            assert await status(Authorization="Bearer wrong") == 401
            assert await status(Authorization=f"Bearer {token}x") == 401
            assert await status(Authorization="") == 401
            assert await status(Authorization=f"Basic {token}") == 401
            assert await status(Host="evil.example") == 421
            assert await status(Host="127.0.0.1:1") == 421
            assert await status(Origin="http://evil.example") == 403
            assert await status(Origin="http://localhost.evil.example:80") == 403
            large = await known.post(url, content=b"x" * (5 << 20), headers=json_only)
            assert large.status_code == 413
            chunks = (b"x" * (1 << 20) for _ in range(6))

            async def stream() -> Any:
                for chunk in chunks:
                    yield chunk

            streamed = await known.post(url, content=stream(), headers=json_only)
            assert streamed.status_code == 413
            assert (await known.get(url.replace("/mcp", "/"))).status_code == 404

    await under_asyncio(client)


async def test_a_run_an_approval_and_its_answer_over_http(rig):
    words = asking(rig)

    async def client() -> None:
        async with (
            http_server_of(rig, *words) as (url, token, _),
            with_token(token) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams, elicitation_callback=accept) as session,
        ):
            await session.initialize()
            result = await session.call_tool("swarm_run", {"task": "clean"})
            assert text_of_result(result) == "Done"

    await under_asyncio(client)
    assert not (rig.work / "build").exists()
    assert rig.alive() == {}


async def test_the_token_of_the_environment_is_used_and_no_run_sees_it(rig):
    provider = rig.script(command("echo [$SWARM_MCP_TOKEN]"), {"text": "Done"})
    rig.environment["SWARM_MCP_TOKEN"] = given = "a-token-of-26-characters-x"

    async def client() -> None:
        async with (
            http_server_of(rig, "--provider", provider, lines=1) as (url, _, _),
            with_token(given) as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams) as session,
        ):
            await session.initialize()
            assert text_of_result(await session.call_tool("swarm_run", {"task": "x"})) == "Done"

    await under_asyncio(client)
    assert "[]" in rig.outputs()[0]
    assert given not in rig.places.journal.joinpath("run.jsonl").read_text()


async def test_protocol_2026_07_28_asks_by_the_result_of_the_call(rig):
    words = asking(rig)
    versions: list[str] = []

    async def client() -> None:
        async with http_server_of(rig, *words) as (url, token, _), with_token(token) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="auto", elicitation_callback=accept) as modern:
                versions.append(modern.protocol_version)
                result = await modern.call_tool("swarm_run", {"task": "clean"})
                assert text_of_result(result) == "Done"

    await under_asyncio(client)
    assert versions == ["2026-07-28"]
    assert not (rig.work / "build").exists()


async def test_a_forged_or_used_state_answers_nothing(rig):
    async def client() -> None:
        async with stdio_client_of(rig) as session:
            reply = await session.call_tool(
                "swarm_run", {"task": "x"}, request_state="forged",
                input_responses={"a1": types.ElicitResult(action="accept", content={})},
            )  # fmt: skip
            assert reply.is_error
            assert "no longer waiting" in text_of_result(reply)

    await under_asyncio(client)
    assert not rig.has_run


async def test_sigterm_ends_the_runs_that_were_waited_for(rig):
    provider = rig.script(command("sleep 60"))

    async def client() -> None:
        async with (
            http_server_of(rig, "--provider", provider) as (url, token, process),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(call_and_lose, url, token)
            await poll(lambda: rig.has_run and "sleep 60" in str(rig.alive()))
            process.terminate()
            assert await process.wait() == 0
            tasks.cancel_scope.cancel()

    await under_asyncio(client)
    assert rig.alive() == {}


async def call_and_lose(url: str, token: str) -> None:
    """A call whose server ends: the connection may break in any way."""
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "swarm_run", "arguments": {"task": "go"},
                       "_meta": {"progressToken": "p"}}}  # fmt: skip
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"}}}  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream"}
    async with with_token(token) as http:
        begun = await http.post(url, json=hello, headers=headers)
        headers["Mcp-Session-Id"] = begun.headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(url, json=ready, headers=headers)).status_code == 202
        try:
            await http.post(url, content=json.dumps(call), headers=headers | {
                "Content-Type": "application/json"})  # fmt: skip
        except httpx2.HTTPError:
            return


async def test_a_connection_that_breaks_loses_neither_the_run_nor_its_answer(rig):
    provider = rig.script(command("sleep 3"), {"text": "Still here."})

    async def client() -> None:
        async with http_server_of(rig, "--provider", provider) as (url, token, _):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call_and_lose, url, token)
                await poll(lambda: rig.has_run and "sleep 3" in str(rig.alive()))
                # the command may begin before the server has heard the id of its run
                await poll(lambda: (rig.places.folder / "mcp_server").exists())
                tasks.cancel_scope.cancel()  # the connection is closed in the middle of a call
            async with (
                with_token(token) as http,
                streamable_http_client(url, http_client=http) as streams,
                ClientSession(*streams) as session,
            ):
                await session.initialize()
                given = {"run": rig.run_id, "wait_s": 60}
                assert text_of_result(await session.call_tool("swarm_result", given)) == (
                    "Still here."
                )

    await under_asyncio(client)
