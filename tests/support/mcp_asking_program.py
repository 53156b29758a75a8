"""An MCP server over stdio, written without any SDK, that asks the person things. Run as a program.

Tools: `ask` (sends `elicitation/create` with its argument `params`, or for a form of
`fields` fields; gives back the answer),
`ask_often` (asks `times` times; counts the answers by kind), `page_first` (needs a
page to be opened before it can be called), `done` (says that page `id` is done) and `sample` (asks
the model `times` times with `params`; gives back the answers). Marks as `mcp_server_program.py`.
"""

import json
import os
import sys
from typing import Any

FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "title": "Your name", "minLength": 2},
            "age": {"type": "integer", "minimum": 18, "default": 30},
            "colour": {"type": "string", "enum": ["red", "green"]},
            "mail": {"type": "string", "format": "email"},
        },
        "required": ["name", "colour"],
    },
}


def form_of(fields: int | None) -> dict[str, Any]:
    """A form of so many fields; without a number the usual one."""
    if fields is None:
        return FORM
    named = {f"f{at}": {"type": "string"} for at in range(fields)}
    return {"message": "all", "requestedSchema": {"type": "object", "properties": named}}


def mark(text: str) -> None:
    if path := os.environ.get("MARKS"):
        with open(path, "a") as file:
            file.write(f"{text}\n")


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(number: str, params: Any, method: str = "elicitation/create") -> Any:
    """What the client answered: the result, or the error."""
    send(id=number, method=method, params=params)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", message.get("error"))
        if message.get("method") == "notifications/cancelled":
            mark("cancelled")
            return {"cancelled": True}
    return None


def call(name: str, given: dict[str, Any]) -> Any:
    mark(f"call {name}")
    match name:
        case "ask":
            return ask("q", given.get("params") or form_of(given.get("fields")))
        case "ask_often":
            counts: dict[str, int] = {}
            for at in range(given["times"]):
                answer = ask(f"q{at}", given.get("params") or FORM)
                kind = answer.get("action", "refused")
                counts[kind] = counts.get(kind, 0) + 1
            return counts
        case "sample":
            method = "sampling/createMessage"
            return [ask(f"q{at}", given["params"], method) for at in range(given.get("times", 1))]
        case "done":
            send(method="notifications/elicitation/complete", params={"elicitationId": given["id"]})
            return {}
        case _:
            return None


def answer(message: dict[str, Any]) -> None:
    number, given = message.get("id"), message.get("params") or {}
    match message.get("method"):
        case "initialize":
            mark(json.dumps(given["capabilities"], sort_keys=True))
            send(id=number, result={
                "protocolVersion": given["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "asking", "version": "1"},
            })  # fmt: skip
        case "tools/list":
            names = ("ask", "ask_often", "page_first", "done", "sample")
            schema = {"type": "object"}
            hints = {"readOnlyHint": True}
            send(id=number, result={
                "tools": [{"name": one, "inputSchema": schema, "annotations": hints}
                          for one in names]
            })  # fmt: skip
        case "tools/call" if given["name"] == "page_first":
            page = {"mode": "url", "message": "Sign in", "elicitationId": "e1",
                    "url": "https://example.org/sign-in?x=1"}  # fmt: skip
            send(id=number, error={"code": -32042, "message": "page first",
                                   "data": {"elicitations": [page]}})  # fmt: skip
        case "tools/call":
            text = json.dumps(call(given["name"], given.get("arguments") or {}))
            send(id=number, result={"content": [{"type": "text", "text": text}]})
        case _ if number is not None:
            send(id=number, error={"code": -32601, "message": "Method not found"})


def main() -> None:
    mark(f"start {os.getpid()}")
    for line in sys.stdin:
        answer(json.loads(line))


if __name__ == "__main__":
    main()
