"""A client of the Python SDK with `swarm mcp-server` as its server.

Arguments: the folder of the SDK, or "" for the environment's own; the swarm command, its options.
Prints what the TypeScript client prints; SDKs that know no elicitation play only the first client.
"""

import json
import os
import sys
from inspect import signature
from typing import Any

if sys.argv[1]:
    sys.path.insert(0, sys.argv[1])

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client


async def play(*, can_be_asked: bool) -> dict[str, object]:
    """One client that never said it could be asked, or one that fails at every question."""
    asked = 0

    async def fail(context: object, params: object) -> Any:
        nonlocal asked
        asked += 1
        return types.ErrorData(code=-32603, message="no form can be shown here")

    server = StdioServerParameters(
        command=sys.argv[2], args=["mcp-server", *sys.argv[3:]], env=dict(os.environ)
    )
    given: dict[str, Any] = {"elicitation_callback": fail} if can_be_asked else {}
    async with stdio_client(server) as streams, ClientSession(*streams, **given) as session:
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        called = await session.call_tool("swarm_run", {"task": "Clean."})
        status = await session.call_tool("swarm_status")
    return {
        "tools": tools,
        "asked": asked,
        "run": structured(called),
        "hasRuns": bool(structured(status)),
    }


def structured(result: Any) -> object:
    """The structured content, which older SDKs keep without knowing it."""
    found = result.model_dump(by_alias=True)
    return found.get("structuredContent", found["content"])


async def main() -> None:
    """Play both, as far as this SDK can."""
    played = [await play(can_be_asked=False)]
    if "elicitation_callback" in signature(ClientSession.__init__).parameters:
        played.append(await play(can_be_asked=True))
    print(json.dumps(played))


anyio.run(main)
