"""Holds the programs of MCP servers that have rights which agents do not have.

At the run's start each is found once, as an absolute path. What it consists of is closed to agents
where that is possible, and compared with its last start. A server that cannot be held, or is not
what it was, starts confined: no network, no credentials, no folder to write; the person is told
why, and what to change.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.held_programs import Lookup
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.base.started_programs import (
    StartedProgram,
    find_started,
    has_rights,
    parts_to_protect,
    server_folder,
    why_started_unheld,
)
from swarm.roles.pinned_programs import ComparedProgram, check_program, describe_changes


class HeldServers(Value):
    """The servers as they are started, and what holds them."""

    servers: tuple[McpServer, ...] = ()
    protected: tuple[str, ...] = ()  # closed to the commands of all agents
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()  # of the warnings, those of servers that start confined


class WantedServers(NamedTuple):
    """Servers, and what decides which programs they are."""

    servers: tuple[McpServer, ...]
    environment: Mapping[str, str]
    cwd: str
    credentials: Mapping[str, str]
    programs: Path  # the folder of what they consisted of


def hold_servers(wanted: WantedServers, places: WritablePlaces) -> HeldServers:
    """Find the programs of this machine's servers. Reads files; blocks."""
    held = HeldServers()
    for server in wanted.servers:
        if places.everywhere or not has_rights(server):
            held = _with(held, server)
            continue
        program, lookup = _find(server, wanted, places)
        if program.path:
            held = _hold(held, server, program, lookup, wanted.programs)
        else:
            held = _with(held, server)
    return held


def find_compared(
    server: McpServer, wanted: WantedServers, places: WritablePlaces
) -> ComparedProgram | None:
    """What of the server is compared from start to start; None: no part lies where agents write, or
    it cannot be held anyway. Reads files; blocks.
    """
    if places.everywhere or not has_rights(server) or server.on_node:
        return None
    program, lookup = _find(server, wanted, places)
    closing = parts_to_protect(program, lookup) if program.path else ()
    started = msgspec.structs.replace(server, command=program.path, closed=closing)
    return compared_program(started, lookup.cwd) if closing else None


def _find(
    server: McpServer, wanted: WantedServers, places: WritablePlaces
) -> tuple[StartedProgram, Lookup]:
    folder = server_folder(server, wanted.environment.get("HOME", ""), wanted.cwd)
    lookup = Lookup(wanted.environment.get("PATH", ""), folder, places)
    values = {name: wanted.credentials.get(key, "") for name, key in server.environment.items()}
    return find_started((server.command, *server.args), lookup, values), lookup


def compared_program(server: McpServer, folder: str) -> ComparedProgram:
    """A held server, as it is compared from start to start. `folder`: where it starts."""
    return ComparedProgram((server.command, *server.args), folder, server.closed)


def _with(held: HeldServers, server: McpServer) -> HeldServers:
    return msgspec.structs.replace(held, servers=(*held.servers, server))


def _hold(
    held: HeldServers, server: McpServer, program: StartedProgram, lookup: Lookup, programs: Path
) -> HeldServers:
    # what lies on other machines is closed to nobody there
    closing = () if server.on_node else parts_to_protect(program, lookup)
    shut = (*lookup.places.shut, *closing)
    closed = lookup._replace(places=msgspec.structs.replace(lookup.places, shut=shut))
    if why := why_started_unheld(program, closed):
        kept = "Keep it in a folder that agents do not write"
        return _confined(held, server, f"agents could exchange what it runs: {why}. {kept}")
    if server.on_node:  # found there, when it starts
        return _with(held, server)
    started = msgspec.structs.replace(server, command=program.path, closed=closing)
    if not closing:
        return _with(held, started)
    changes = check_program(programs, compared_program(started, lookup.cwd))
    if changes is not None:
        return _confined(held, server, describe_changes(server.name, changes))
    warning = (
        f"no command of this run may change {', '.join(closing)}: {_named(server)} runs it with "
        "rights that agents do not have"
    )
    return msgspec.structs.replace(
        _with(held, started),
        protected=tuple(dict.fromkeys((*held.protected, *closing))),
        warnings=(*held.warnings, warning),
    )


def _confined(held: HeldServers, server: McpServer, why: str) -> HeldServers:
    warning = (
        f"{_named(server)} runs without network, credentials and folders to write, since {why}"
    )
    return msgspec.structs.replace(
        _with(held, server),
        warnings=(*held.warnings, warning),
        refusals=(*held.refusals, warning),
    )


def _named(server: McpServer) -> str:
    return f"MCP server `{server.name}` ({server.source})"
