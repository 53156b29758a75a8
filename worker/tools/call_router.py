"""Routing: find the tool for a model's call and decode its arguments.

Every call gets an output: a call that cannot be routed raises ToolFailed with a text for the model.
"""

from typing import TypeVar

import msgspec

from swarm.mailbox.protocol.items import AnyCall, CustomToolCall, FunctionCall

from .tool_errors import ToolFailed
from .tool_interface import Tool
from .tool_registry import ToolRegistry

Arguments = TypeVar("Arguments", bound=msgspec.Struct)


def find_tool(call: AnyCall, registry: ToolRegistry) -> Tool:
    """Return the tool for this call. Raises ToolFailed: unknown name, or wrong kind of call."""
    tool = registry.find(call.name)
    if tool is None:
        kind = "unsupported custom tool call" if isinstance(call, CustomToolCall) else None
        raise ToolFailed(f"{kind or 'unsupported call'}: {call.name}")
    if not tool.accepts(call):
        raise ToolFailed(f"tool {call.name} invoked with incompatible payload")
    return tool


def decode_arguments(call: AnyCall, kind: type[Arguments]) -> Arguments:
    """Return the call's arguments as the tool's struct. Raises ToolFailed, naming the wrong place.

    Empty arguments count as an empty object: models omit them where nothing is required. Small
    models write numbers as text or as 1000.0; both are accepted.
    """
    if not isinstance(call, FunctionCall):
        raise ToolFailed(f"tool {call.name} invoked with incompatible payload")
    try:
        return msgspec.json.decode(call.arguments or "{}", type=kind, strict=False)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ToolFailed(f"failed to parse function arguments: {error}") from error
