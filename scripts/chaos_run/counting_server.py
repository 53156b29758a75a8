"""An MCP server over stdio that writes each call into a file before it answers. Run as a program.

    python counting_server.py FILE

Tools: `count` and `count_again`, which says that a second call does no harm (idempotentHint). Both
take `call`, which is written, and `pause`, the seconds until the answer. A line is one write, so
that a killed server leaves no part of one.
"""

import json
import os
import sys
import threading
from typing import Any

_SCHEMA = {
    "type": "object",
    "properties": {"call": {"type": "string"}, "pause": {"type": "number"}},
    "required": ["call", "pause"],
}


def send(number: Any, result: dict[str, Any]) -> None:
    data = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n"
    os.write(sys.stdout.fileno(), data.encode())


def count(number: Any, given: dict[str, Any], file: int) -> None:
    os.write(file, f"{given['call']}\n".encode())

    def answer() -> None:
        send(number, {"content": [{"type": "text", "text": f"did {given['call']}"}]})

    timer = threading.Timer(given["pause"], answer)
    timer.daemon = True
    timer.start()


def main() -> None:
    file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for line in sys.stdin:
        message = json.loads(line)
        number, given = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                send(number, {
                    "protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "counter", "version": "1"},
                })  # fmt: skip
            case "tools/list":
                hints = {"readOnlyHint": True}
                again = {**hints, "idempotentHint": True}
                named = (("count", hints), ("count_again", again))
                tools = [{"name": name, "inputSchema": _SCHEMA, "annotations": said}
                         for name, said in named]  # fmt: skip
                send(number, {"tools": tools})
            case "tools/call":
                count(number, given["arguments"], file)
            case _ if number is not None:
                error = {"code": -32601, "message": "Method not found"}
                data = json.dumps({"jsonrpc": "2.0", "id": number, "error": error}) + "\n"
                os.write(sys.stdout.fileno(), data.encode())


if __name__ == "__main__":
    main()
