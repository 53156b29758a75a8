"""A stdio server as the SDKs of 2025 made them, with the oddity that its first argument names.

`ends` at a request before `initialize`, `silent` there, `strict` about missing arguments, `odd`
descriptions. It keeps a line for each start and each request in the file MARKS.
"""

import json
import os
import sys

ODD_TOOLS = [
    {"name": "empty", "inputSchema": {}},
    {"name": "no_schema"},
    {"description": "a tool without a name", "inputSchema": {"type": "object"}},
    {"name": "text_out", "inputSchema": {"type": "object"}, "outputSchema": {"type": "string"}},
    {"name": "either", "inputSchema": {"type": ["object", "null"], "properties": {"a": {}}}},
    "no table",
]
GOOD_TOOL = {"name": "good", "inputSchema": {"type": "object", "properties": {}}}


def mark(line):
    with open(os.environ["MARKS"], "a") as file:
        file.write(line + "\n")


def answer(request, oddity):
    """The result, or a pair of an error's code and message."""
    params = request.get("params", {})
    match request["method"]:
        case "initialize":
            told = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
            info = {"serverInfo": {"name": "old", "version": ""}}
            return told if oddity == "odd" else told | info
        case "tools/list":
            return {"tools": [GOOD_TOOL, *(ODD_TOOLS if oddity == "odd" else ())]}
        case "tools/call" if "arguments" not in params:
            return -32602, "expected object, received undefined"
        case "tools/call" if oddity == "odd":
            return {"content": [{"type": "text", "text": "ok"}, {"type": "hologram", "x": 1}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}
        case method:
            return -32601, f"unknown method {method}"


def main(oddity):
    mark("start")
    is_open = False
    for line in sys.stdin:
        request = json.loads(line)
        mark(request["method"])
        if "id" not in request:
            continue
        is_open = is_open or request["method"] == "initialize"
        if not is_open and oddity == "ends":
            sys.exit("expected initialize")
        if not is_open and oddity == "silent":
            continue
        told = answer(request, oddity)
        key = "result"
        if isinstance(told, tuple):
            key, told = "error", {"code": told[0], "message": told[1]}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], key: told}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
