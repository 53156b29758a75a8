"""Which tools of MCP servers an agent was offered, and what is different in its next list.

A list is part of each request, so another one makes what the provider has cached of no use.
"""

from collections.abc import Sequence

from swarm.mailbox.protocol.mcp import McpTool, McpTools

MAX_AGENTS = 1_000  # whose lists are remembered; the oldest are forgotten first
_NAMED = 12  # tools of one server
_Listed = dict[tuple[str, str], str]  # server and name → digest of what the server says of it


class OfferedTools:
    """The last list of each agent, by its id. Agents with equal lists share one."""

    def __init__(self) -> None:
        self._of_agent: dict[str, _Listed] = {}
        self._newest: _Listed = {}

    def note(self, agent_id: str, found: McpTools) -> str:
        """Remember a list; what is different from the agent's last one, or ""."""
        before = self._of_agent.pop(agent_id, None)
        now = listed(found.tools)
        failed = {one.server for one in found.failures} - {one.server for one in found.tools}
        if before is not None:  # a server that cannot be asked has not taken its tools away
            now |= {key: digest for key, digest in before.items() if key[0] in failed}
        self._newest = now = self._newest if now == self._newest else now
        self._of_agent[agent_id] = now
        if len(self._of_agent) > MAX_AGENTS:
            del self._of_agent[next(iter(self._of_agent))]
        return "" if before is None else "; ".join(describe_changes(before, now))


def listed(tools: Sequence[McpTool]) -> _Listed:
    """What two lists are compared by."""
    return {(one.server, one.name): one.digest for one in tools}


def describe_changes(before: _Listed, now: _Listed) -> list[str]:
    """A line for each server that offers other tools than before; [] if none does."""
    changes: dict[str, list[str]] = {}
    for server, name in sorted(before.keys() | now.keys()):
        then, here = before.get((server, name)), now.get((server, name))
        if then != here:
            word = "new" if then is None else "gone" if here is None else "changed"
            changes.setdefault(server, []).append(f"{name} ({word})")
    return [
        f"tools of MCP server `{server}`: {_joined(names)}" for server, names in changes.items()
    ]


def _joined(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
