"""The tools of one agent, in the order in which they are described to models.

Order and bytes of the list never change during a conversation (prompt caches).
"""

from collections.abc import Callable

from swarm.mailbox.protocol.items import AnyCall, CustomToolCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from .tool_interface import Tool, ToolFailed

# A small model chooses among few tools; each further one costs its attention and 100 tokens.
_FOR_SMALL_MODELS = frozenset({"exec_command", "edit_file"})


class ToolRegistry:
    """Tools by name. `on_turn` is called with the turn id before each call is prepared."""

    def __init__(
        self, tools: tuple[Tool, ...], *, on_turn: Callable[[str], None] | None = None
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._on_turn = on_turn

    def enter_turn(self, turn_id: str) -> None:
        """Note that a call of this turn is about to be prepared."""
        if self._on_turn is not None:
            self._on_turn(turn_id)

    def find(self, name: str) -> Tool | None:
        """Return the tool of this name, even if it was not offered to this model."""
        return self._tools.get(name)

    def tool_for(self, call: AnyCall) -> Tool:
        """Return the tool for this call. Raises ToolFailed: unknown name, or wrong kind of call."""
        tool = self._tools.get(call.name)
        if tool is None:
            kind = "unsupported custom tool call" if isinstance(call, CustomToolCall) else None
            raise ToolFailed(f"{kind or 'unsupported call'}: {call.name}")
        if not tool.accepts(call):
            raise ToolFailed(f"tool {call.name} invoked with incompatible payload")
        return tool

    def specs(self, model: ModelInfo) -> tuple[ToolSpec, ...]:
        """Return the specs for this model; none if it cannot call tools."""
        if not model.can_call_tools:
            return ()
        offered = _FOR_SMALL_MODELS if model.constrained_calls else self._tools.keys()
        told = (tool.describe(model) for name, tool in self._tools.items() if name in offered)
        return tuple(spec for spec in told if spec is not None)
