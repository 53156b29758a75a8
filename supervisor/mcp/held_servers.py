"""Holds the programs of MCP servers that have rights which agents do not have.

At the run's start each is found once, as an absolute path. What it consists of is closed to agents
where that is possible. A server that cannot be held starts confined: no network, no credentials, no
folder to write; the person is told why, and what to change.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from swarm.mailbox.held_programs import Lookup
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.writable_places import WritablePlaces
from swarm.roles.started_programs import (
    StartedProgram,
    find_started,
    has_rights,
    parts_to_protect,
    server_folder,
    why_started_unheld,
)


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


def hold_servers(wanted: WantedServers, places: WritablePlaces) -> HeldServers:
    """Find the programs of this machine's servers. Reads files; blocks."""
    held = HeldServers()
    for server in wanted.servers:
        if places.everywhere or not has_rights(server):
            held = _with(held, server)
            continue
        folder = server_folder(server, wanted.environment.get("HOME", ""), wanted.cwd)
        lookup = Lookup(wanted.environment.get("PATH", ""), folder, places)
        values = {name: wanted.credentials.get(key, "") for name, key in server.environment.items()}
        program = find_started((server.command, *server.args), lookup, values)
        held = _hold(held, server, program, lookup) if program.path else _with(held, server)
    return held


def _with(held: HeldServers, server: McpServer) -> HeldServers:
    return msgspec.structs.replace(held, servers=(*held.servers, server))


def _hold(
    held: HeldServers, server: McpServer, program: StartedProgram, lookup: Lookup
) -> HeldServers:
    # what lies on other machines is closed to nobody there
    closing = () if server.on_node else parts_to_protect(program, lookup)
    shut = (*lookup.places.shut, *closing)
    closed = lookup._replace(places=msgspec.structs.replace(lookup.places, shut=shut))
    named = f"MCP server `{server.name}` ({server.source})"
    if why := why_started_unheld(program, closed):
        warning = (
            f"{named} runs without network, credentials and folders to write, since agents could "
            f"exchange what it runs: {why}. Keep it in a folder that agents do not write"
        )
        return msgspec.structs.replace(
            _with(held, server),
            warnings=(*held.warnings, warning),
            refusals=(*held.refusals, warning),
        )
    if server.on_node:  # found there, when it starts
        return _with(held, server)
    held = _with(held, msgspec.structs.replace(server, command=program.path))
    if not closing:
        return held
    listed = ", ".join(closing)
    return msgspec.structs.replace(
        held,
        protected=tuple(dict.fromkeys((*held.protected, *closing))),
        warnings=(
            *held.warnings,
            f"no command of this run may change {listed}: {named} runs it with rights that agents "
            "do not have",
        ),
    )
