"""The JSON lines of `swarm exec`: exactly the events that Codex's SDKs decode, and no others.

Made from the lines of `--json`: those of the root agent alone, without our additions. Calls that
Codex does not know are shown as `mcp_tool_call` of a server named `swarm`. No I/O.
"""

import msgspec

from .json_lines import (
    AgentMessage,
    AnyJsonItem,
    CommandExecution,
    ErrorLine,
    FileChangeItem,
    ItemCompletedLine,
    ItemStartedLine,
    ItemUpdatedLine,
    JsonLine,
    JsonUsage,
    McpToolCallItem,
    ReasoningItem,
    ThreadStartedLine,
    TodoList,
    ToolCall,
    TurnCompletedLine,
    TurnFailedLine,
    TurnStartedLine,
    WarningLine,
)

CodexObject = dict[str, object]
_encode = msgspec.json.Encoder().encode
_SERVER = "swarm"


class CodexLines:
    """Renders the lines of one process, in order. Item ids count from `item_0`."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._count = 0

    def __call__(self, line: JsonLine, at: float) -> bytes | None:
        """The line as Codex writes it; None if it has no such line. `at` has no place in it."""
        del at
        if isinstance(line.agent, str):
            return None  # another agent's
        made = self._convert(line)
        return None if made is None else _encode(made)

    def _convert(self, line: JsonLine) -> CodexObject | None:
        match line:
            case ThreadStartedLine(run=run):
                return {"type": "thread.started", "thread_id": run}  # `resume` takes a run's id
            case TurnStartedLine():
                return {"type": "turn.started"}
            case ItemStartedLine(item=item):
                return self._item("item.started", item)
            case ItemUpdatedLine(item=item):
                return self._item("item.updated", item)
            case ItemCompletedLine(item=item):
                return self._item("item.completed", item)
            case WarningLine(message=message):
                item_id = self._next_id()
                note = {"id": item_id, "type": "error", "message": message}
                return {"type": "item.completed", "item": note}
            case TurnCompletedLine(total_usage=total):
                return {"type": "turn.completed", "usage": _usage(total)}
            case TurnFailedLine(reason="interrupted" | "replaced" | "run_ended"):
                return None  # only the exit code tells
            case TurnFailedLine(error=error):
                return {"type": "turn.failed", "error": {"message": error.message}}
            case ErrorLine(message=message):
                return {"type": "error", "message": message}
            case _:
                return None

    def _item(self, kind: str, item: AnyJsonItem) -> CodexObject:
        if item.id not in self._ids:
            self._ids[item.id] = self._next_id()
        item_id = self._ids[item.id]
        if kind == "item.completed":
            del self._ids[item.id]  # a run may have any number of items
        return {"type": kind, "item": {"id": item_id, **_fields(item)}}

    def _next_id(self) -> str:
        self._count += 1
        return f"item_{self._count - 1}"


def _usage(usage: JsonUsage) -> CodexObject:
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_input_tokens": usage.cache_write_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_output_tokens,
    }


def _fields(item: AnyJsonItem) -> CodexObject:
    match item:
        case AgentMessage(text=text):
            return {"type": "agent_message", "text": text}
        case ReasoningItem(text=text):
            return {"type": "reasoning", "text": text}
        case CommandExecution():
            return {
                "type": "command_execution",
                "command": item.command,
                "aggregated_output": item.aggregated_output,
                "exit_code": item.exit_code,
                "status": _status(item.status),
            }
        case FileChangeItem():
            changes = [{"path": one.path, "kind": one.kind} for one in item.changes]
            return {"type": "file_change", "changes": changes, "status": _status(item.status)}
        case TodoList(items=steps):
            todo = [{"text": step.text, "completed": step.completed} for step in steps]
            return {"type": "todo_list", "items": todo}
        case McpToolCallItem():
            return _mcp_tool_call(item)
        case ToolCall():
            return _tool_call(item)


def _mcp_tool_call(item: McpToolCallItem) -> CodexObject:
    result = None
    if item.result is not None:
        result = {"content": list(item.result.content), "structured_content": None}
    return {
        "type": "mcp_tool_call",
        "server": item.server,
        "tool": item.tool,
        "arguments": item.arguments,
        "result": result,
        "error": None if item.error is None else {"message": item.error.message},
        "status": _status(item.status),
    }


def _tool_call(item: ToolCall) -> CodexObject:
    status = _status(item.status)
    content = [{"type": "text", "text": item.output}]
    result = {"content": content, "structured_content": None} if status == "completed" else None
    error = {"message": item.output or "the call failed"} if status == "failed" else None
    return {
        "type": "mcp_tool_call",
        "server": _SERVER,
        "tool": item.tool,
        "arguments": {"argument": item.argument} if item.argument else {},
        "result": result,
        "error": error,
        "status": status,
    }


def _status(status: str) -> str:
    """The SDKs know of no `declined`; the output says that it was refused."""
    return "failed" if status == "declined" else status
