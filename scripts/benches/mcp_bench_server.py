"""An MCP server over stdio that answers at once: python mcp_bench_server.py FILE.

It writes a line into FILE for its start and for each call of its only tool, `count`.
"""

import json
import os
import sys
from typing import Any

_SCHEMA = {"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}
_TOOL = {"name": "count", "inputSchema": _SCHEMA, "annotations": {"readOnlyHint": True}}


def answer(method: str, given: dict[str, Any], file: int) -> dict[str, Any] | None:
    """The result; None for what it does not know."""
    match method:
        case "initialize":
            version = given["protocolVersion"]
            about = {"name": "bench", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [_TOOL]}
        case "tools/call":
            call = given["arguments"]["call"]
            os.write(file, f"call {call}\n".encode())
            return {"content": [{"type": "text", "text": call}]}
        case _:
            return None


def main() -> None:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, f"start {os.getpid()}\n".encode())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        result = answer(message["method"], message.get("params") or {}, file)
        error = {"code": -32601, "message": "Method not found"}
        reply |= {"error": error} if result is None else {"result": result}
        os.write(sys.stdout.fileno(), (json.dumps(reply) + "\n").encode())


if __name__ == "__main__":
    main()
