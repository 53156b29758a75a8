"""Track open JSON items: each is started once and completed once, with one id. No I/O.

The item of a command that continues as a session stays open until the session ends; the item of a
plan stays open until the turn ends. No item stays open after its agent has ended.
"""

import shlex

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from swarm.mailbox.base.bounded_formats import decode_json
from swarm.mailbox.protocol.events import (
    AnyCallDetail,
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    McpCall,
    OtherCall,
    PatchCall,
    PlanCall,
    StdinCall,
)
from swarm.mailbox.protocol.items import AnyItem, Message, Reasoning, text_of
from swarm.mailbox.protocol.parsed_command import Unknown

from .json_lines import (
    AgentMessage,
    AnyJsonItem,
    CommandExecution,
    FileChangeItem,
    ItemCompletedLine,
    ItemStartedLine,
    ItemStatus,
    ItemUpdatedLine,
    JsonFileChange,
    JsonLine,
    McpError,
    McpResult,
    McpToolCallItem,
    ReasoningItem,
    Todo,
    TodoList,
    ToolCall,
)

_MAX_OUTPUT = 64 * 1024  # characters kept of a session's output over all its calls


def message_item(item: AnyItem, item_id: str) -> AgentMessage | ReasoningItem | None:
    """An item for the model's text or reasoning; None for calls and outputs, which have their
    own.
    """
    match item:
        case Message(role="assistant", content=content) if text := text_of(content):
            return AgentMessage(id=item_id, text=text)
        case Reasoning() if text := "\n".join(item.summary or item.content):
            return ReasoningItem(id=item_id, text=text)
        case _:
            return None


class OpenItems:
    """The open calls, sessions and plan of one agent."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[AnyCallDetail, AnyJsonItem | None]] = {}
        self._sessions: dict[int, CommandExecution] = {}
        self._todo: TodoList | None = None

    def begin(self, body: CallBegan, item_id: str) -> list[JsonLine]:
        """Begin a call's item. A plan and input to a session begin none."""
        item = _opened(body, item_id)
        self._calls[body.call_id] = (body.detail, item)
        return [] if item is None else [ItemStartedLine(item=item)]

    def end(self, body: CallEnded, item_id: str) -> list[JsonLine]:
        """End a call's item. A call that was refused before it began has only an end."""
        detail, item = self._calls.pop(body.call_id, (None, None))
        match detail, item:
            case StdinCall(session_id=session_id), _:
                return self._end_stdin(session_id, body)
            case PlanCall(), _:
                return self._plan(detail, item_id) if body.status == "completed" else []
            case _, CommandExecution() if body.session_id is not None and body.exit_code is None:
                going = replace(item, aggregated_output=body.output)
                self._sessions[body.session_id] = going
                return [ItemUpdatedLine(item=going)]
            case _, CommandExecution():
                return [_command_ended(item, body, body.output)]
            case _, FileChangeItem():
                changes = _changes(body.changes) if body.changes else item.changes
                done = replace(item, changes=changes, status=_only_failed(_status(body)))
                return [ItemCompletedLine(item=done)]
            case _, McpToolCallItem():
                return [ItemCompletedLine(item=_mcp_ended(item, body))]
            case _, ToolCall():
                done_call = replace(item, output=body.output, status=_status(body))
                return [ItemCompletedLine(item=done_call)]
            case _:
                made = ToolCall(
                    id=item_id, tool=body.tool, argument="", output=body.output,
                    status=_status(body),
                )  # fmt: skip
                return [ItemCompletedLine(item=made)]

    def close_turn(self) -> list[JsonLine]:
        """Complete the plan, and fail calls that never ended. Sessions continue."""
        opened = [item for _, item in self._calls.values() if item is not None]
        lines: list[JsonLine] = [ItemCompletedLine(item=_failed(item)) for item in opened]
        self._calls.clear()
        if self._todo is not None:
            lines.append(ItemCompletedLine(item=self._todo))
            self._todo = None
        return lines

    def close_all(self) -> list[JsonLine]:
        """The process has ended: complete its sessions too."""
        lines = self.close_turn()
        lines += [ItemCompletedLine(item=_failed(item)) for item in self._sessions.values()]
        self._sessions.clear()
        return lines

    def _end_stdin(self, session_id: int, body: CallEnded) -> list[JsonLine]:
        item = self._sessions.get(session_id)
        if item is None:
            return []
        output = (item.aggregated_output + body.output)[-_MAX_OUTPUT:]
        if body.exit_code is None:
            self._sessions[session_id] = going = replace(item, aggregated_output=output)
            return [ItemUpdatedLine(item=going)] if body.output else []
        del self._sessions[session_id]
        return [_command_ended(item, body, output)]

    def _plan(self, detail: PlanCall, item_id: str) -> list[JsonLine]:
        steps = tuple(
            Todo(text=step.step, completed=step.status == "completed") for step in detail.plan
        )
        if self._todo is None:
            self._todo = TodoList(id=item_id, items=steps)
            return [ItemStartedLine(item=self._todo)]
        self._todo = replace(self._todo, items=steps)
        return [ItemUpdatedLine(item=self._todo)]


def _opened(body: CallBegan, item_id: str) -> AnyJsonItem | None:
    match body.detail:
        case CommandCall(argv=argv, script=script, parsed_cmd=parsed):
            command = shlex.join(argv) if argv else script
            parsed = parsed or (Unknown(cmd=script or command),)
            return CommandExecution(id=item_id, command=command, parsed_cmd=parsed)
        case PatchCall(changes=changes):
            return FileChangeItem(id=item_id, changes=_changes(changes))
        case McpCall(server=server, tool=tool, arguments=arguments):
            return McpToolCallItem(
                id=item_id, server=server, tool=tool, arguments=_decoded(arguments)
            )
        case OtherCall(argument=argument):
            return ToolCall(id=item_id, tool=body.tool, argument=argument)
        case StdinCall() | PlanCall():
            return None


def _decoded(arguments: str) -> object:
    """The arguments as a JSON value; as text if they were cut."""
    try:
        return decode_json(arguments)
    except msgspec.DecodeError:
        return arguments


def _mcp_ended(item: McpToolCallItem, body: CallEnded) -> McpToolCallItem:
    status = _only_failed(_status(body))
    if status == "failed":
        return replace(item, status=status, error=McpError(message=body.output))
    result = McpResult(content=({"type": "text", "text": body.output},))
    return replace(item, status=status, result=result)


def _changes(changes: tuple[FileChange, ...]) -> tuple[JsonFileChange, ...]:
    return tuple(
        JsonFileChange(path=change.path, kind=change.kind, move_path=change.move_path or UNSET)
        for change in changes
    )


def _command_ended(item: CommandExecution, body: CallEnded, output: str) -> ItemCompletedLine:
    done = replace(item, aggregated_output=output, exit_code=body.exit_code, status=_status(body))
    return ItemCompletedLine(item=done)


def _status(body: CallEnded) -> ItemStatus:
    if body.status == "declined":
        return "declined"
    if body.status == "completed" and not body.exit_code:
        return "completed"
    return "failed"


def _only_failed(status: ItemStatus) -> ItemStatus:
    """A file change has no status `declined`."""
    return "failed" if status == "declined" else status


def _failed(item: AnyJsonItem) -> AnyJsonItem:
    if isinstance(item, CommandExecution | FileChangeItem | McpToolCallItem | ToolCall):
        return replace(item, status="failed")
    return item
