"""The tools of one agent, in the order in which models are told of them.

Rule guarded: order and bytes of the list never change over a conversation (prompt caches).
"""

from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from .spec import Tool


class Registry:
    """Tools by name."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self._tools = {tool.name: tool for tool in tools}

    def find(self, name: str) -> Tool | None:
        """The tool of this name, whether or not this model was told of it."""
        return self._tools.get(name)

    def specs(self, model: ModelInfo) -> tuple[ToolSpec, ...]:
        """What this model is told; nothing if it cannot call tools."""
        if not model.can_call_tools:
            return ()
        told = (tool.describe(model) for tool in self._tools.values())
        return tuple(spec for spec in told if spec is not None)
