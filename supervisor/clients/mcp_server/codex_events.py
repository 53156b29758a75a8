"""A run's events as the messages of Codex's notification `codex/event`. Pure.

Only what a client shows of a session: the beginning and end of a turn, the agent's messages, its
commands. Of the root agent alone.
"""

import msgspec

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.items import Message
from swarm.mailbox.protocol.records import ItemRecorded

from ..client import Event

CodexMessage = dict[str, object]


class CodexEvents:
    """Give it the events of one session in order."""

    def __init__(self) -> None:
        self._commands: dict[str, CodexMessage] = {}  # by call: what began

    def convert(self, event: Event) -> CodexMessage | None:
        """The message for an event; None if Codex's clients see nothing of it."""
        if not isinstance(event, Recorded) or event.record.agent != ROOT_PATH:
            return None
        match event.record.body:
            case TurnStarted():
                return {"type": "task_started"}
            case ItemRecorded(source="model", item=Message() as item):
                text = "".join(str(getattr(part, "text", "")) for part in item.content)
                return {"type": "agent_message", "message": text}
            case CallBegan(call_id=call_id, detail=CommandCall() as call):
                return self._begin(call_id, call)
            case CallEnded() as ended if ended.call_id in self._commands:
                return self._end(ended)
            case TurnCompleted(last_message=text):
                return {"type": "task_complete", "last_agent_message": text}
            case TurnFailed(message=text):
                return {"type": "error", "message": text}
            case _:
                return None

    def _begin(self, call_id: str, call: CommandCall) -> CodexMessage:
        command: CodexMessage = {
            "call_id": call_id,
            "command": list(call.argv),
            "cwd": call.cwd,
            "parsed_cmd": msgspec.to_builtins(call.parsed_cmd),
        }
        self._commands[call_id] = command
        return {"type": "exec_command_begin", **command}

    def _end(self, ended: CallEnded) -> CodexMessage:
        span = {"secs": int(ended.duration_s), "nanos": int(ended.duration_s % 1 * 1e9)}
        return {
            "type": "exec_command_end", **self._commands.pop(ended.call_id),
            "stdout": ended.output, "stderr": "", "aggregated_output": ended.output,
            "exit_code": -1 if ended.exit_code is None else ended.exit_code,
            "duration": span, "formatted_output": ended.output,
        }  # fmt: skip
