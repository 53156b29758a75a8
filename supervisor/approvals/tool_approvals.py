"""Questions about tools of MCP servers: what has changed since a yes, and what "always" saves.

An approval holds for a tool as its server described it. A server that describes it differently is
asked about again, and the question says what is different.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.protocol.approvals import ApprovalRequest, McpToolAction
from swarm.mailbox.protocol.mcp import McpAnnotations, McpServer

_MAX_KNOWN = 1_000
_MAX_NAME = 200  # characters of a tool's name that can be saved
_EXCERPT = 160
_CHANGED_SINCE_ALWAYS = (
    "you allowed this tool for always, and its server describes it differently now"
)
_CHANGED = "you approved this tool before, and its server describes it differently now"


class McpToolQuestions:
    """Completes the questions of one run.

    Args:
        servers: The run's.
        config_file: The person's own; "always" is saved there, for servers of this file.
        approved: Actions that people approved earlier in the run, the last of a tool last.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        config_file: Path,
        approved: Iterable[McpToolAction] = (),
    ) -> None:
        self._servers, self._file = servers, config_file
        self._approved: dict[tuple[str, str], McpToolAction] = {}
        for action in approved:
            self._keep(action)

    def complete(self, request: ApprovalRequest) -> ApprovalRequest:
        """The question with what has changed, and what "always" would save."""
        action = request.action
        if not isinstance(action, McpToolAction):
            return request
        changed: tuple[str, ...] = (_CHANGED_SINCE_ALWAYS,) if action.changed else ()
        before = self._approved.get((action.server, action.tool))
        if before is not None and before.digest != action.digest:
            changed = ((changed or (_CHANGED,))[0], *describe_change(before, action))
        always = self._setting(action) if request.keys else ""
        return replace(request, action=replace(action, changed=changed, always=always))

    def remember(self, request: ApprovalRequest) -> None:
        """Somebody has approved it."""
        if isinstance(request.action, McpToolAction):
            self._keep(request.action)

    def _keep(self, action: McpToolAction) -> None:
        key = action.server, action.tool
        if key in self._approved or len(self._approved) < _MAX_KNOWN:
            self._approved[key] = replace(action, arguments="")

    def _setting(self, action: McpToolAction) -> str:
        """`KEY = "approve"`; "" if it cannot be saved: the server is not the person's own."""
        server = self._servers.get(action.server)
        own = server is not None and server.source.startswith(f"{self._file},")
        fits = len(action.tool) <= _MAX_NAME and action.tool.isprintable() and bool(action.digest)
        if not own or not fits:
            return ""
        from swarm.roles.config.dotted_key import format_key  # seldom needed

        return f'{format_key(setting_path(action))} = "approve"'

    def save(self, action: McpToolAction) -> str:
        """Write the setting; returns what was saved, in words. Blocks. Raises SwarmError."""
        setting = self._setting(action)
        if not setting:
            raise SwarmError(
                f"the server `{action.server}` is not one of {self._file}, the only file where "
                "this can be saved; approve it for the session or the subtree"
            )
        save_tool_approval(self._file, action)
        return f"{setting} is in {self._file}, and holds while the server describes the tool as now"


def setting_path(action: McpToolAction) -> tuple[str, ...]:
    """The key of the tool's approval mode."""
    return "mcp_servers", action.server, "tools", action.tool, "approval_mode"


def save_tool_approval(file: Path, action: McpToolAction) -> None:
    """Set mode and hash of the tool; comments stay. Blocks. Raises SwarmError, UsageError."""
    from swarm.roles.config.layers.config_writer import write_edit  # with tomlkit, seldom needed
    from swarm.roles.config.layers.toml_edit import ConfigEdit
    from swarm.roles.config.mcp_table import McpServerTable, transport_problem

    def check(values: dict[str, object]) -> None:
        servers = cast("dict[str, object]", values.get("mcp_servers", {}))
        try:
            table = msgspec.convert(servers.get(action.server), McpServerTable)
        except msgspec.ValidationError as error:
            raise UsageError(f"{file}: mcp_servers.{action.server}: {error}") from error
        if (problem := transport_problem(table)) is not None:
            raise UsageError(f"{file}: mcp_servers.{action.server}: {problem}")

    value = {"approval_mode": "approve", "approved_as": action.digest}
    edit = ConfigEdit(steps=setting_path(action)[:-1], value=value, merge=True)
    write_edit(file, edit, if_version=None, check=check)


def describe_change(before: McpToolAction, now: McpToolAction) -> tuple[str, ...]:
    """What a server says differently of a tool, in a few lines."""
    lines: list[str] = []
    if before.description != now.description:
        lines += _then_and_now("description", before.description, now.description)
    if before.annotations != now.annotations:
        said = _hints(before.annotations), _hints(now.annotations)
        lines += [f"hints then: {said[0]}", f"hints now: {said[1]}"]
    if before.schema != now.schema:
        lines += _then_and_now("arguments", before.schema, now.schema)
    return tuple(lines) or ("what differs is the form of its results",)


def _then_and_now(what: str, before: str, now: str) -> list[str]:
    """Both texts around the first place where they differ."""
    pairs, end = zip(before, now, strict=False), min(len(before), len(now))
    same = next((at for at, (one, other) in enumerate(pairs) if one != other), end)
    at = max(same - _EXCERPT // 4, 0)
    lead = "…" if at else ""
    return [
        f"{what} then: {lead}{before[at : at + _EXCERPT]}",
        f"{what} now: {lead}{now[at : at + _EXCERPT]}",
    ]


def _hints(said: McpAnnotations) -> str:
    hints = cast("dict[str, object]", msgspec.to_builtins(said))
    shown = [f"{name} {str(value).lower()}" for name, value in hints.items() if value is not None]
    return ", ".join(shown) or "none"
