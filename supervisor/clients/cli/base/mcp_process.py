"""Runs the hub's code in a separate process for `swarm mcp tools|call|doctor|login|logout`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.base.short_places import find_short_base
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.hub import HubOrder, LoginDone, LoginOrder
from swarm.mailbox.protocol.mcp import McpOutcome, McpQuestion, McpServer, McpTools
from swarm.mailbox.protocol.spec import GuardedPlaces, HubSpec
from swarm.roles.config.layers.config_loader import LoadedConfig
from swarm.roles.pinned_programs import ComparedProgram, ProgramChanges, check_program
from swarm.roles.rights.role import Role

from ....base.safe_text import clean_line
from ....parts.mcp.held_servers import HeldServers, WantedServers, find_compared, hold_servers
from ....request.run_places import project_lookup
from ....runs.paths import find_user_paths
from ..run_setup.mcp_settings import (
    build_mcp,
    collect_credentials,
    credential_variables,
    unknown_server,
)
from ..run_setup.run_settings import find_cwd, key_variables, load_config_here

_MOST_CHARS = 1_000
_PROGRAM = ("-P", "-m", "swarm.worker.parts.mcp.hub_cli")


class ServerCall(NamedTuple):
    """A call that a person typed; `answers` as in `HubOrder`."""

    server: str
    tool: str
    arguments: bytes = b"{}"
    answers: dict[str, tuple[str, ...]] | None = None


def ask_hub(
    names: tuple[str, ...],
    *,
    call: ServerCall | None = None,
    question: McpQuestion | None = None,
    login: LoginOrder | None = None,
    logout: bool = False,
) -> bytes:
    """One request to these servers, or to all that are enabled; the reply as MessagePack.

    Raises UsageError for an unknown server, SwarmError if the hub's process fails.
    """
    import tempfile  # no other command of this group needs it

    folder = tempfile.mkdtemp(prefix="swarm-mcp-", dir=find_short_base())
    try:
        order = msgspec.structs.replace(_order(names, folder), login=login, logout=logout)
        if call is not None:
            order = msgspec.structs.replace(order, **call._asdict())
        elif question is not None:
            order = msgspec.structs.replace(order, server=names[0], question=question)
        inherited = () if login is None or login.paste_from < 0 else (login.paste_from,)
        done = subprocess.run(
            [sys.executable, *_PROGRAM], input=msgspec.msgpack.encode(order),
            stdout=subprocess.PIPE, check=False, pass_fds=inherited,
        )  # fmt: skip
    finally:
        remove_tree(folder)
    if done.returncode != 0:
        raise SwarmError(f"the MCP hub failed with exit code {done.returncode}")
    return done.stdout


def list_server_tools(names: tuple[str, ...]) -> McpTools:
    """The tools of these servers, or of all that are enabled. Raises as `ask_hub`."""
    return msgspec.msgpack.decode(ask_hub(names), type=McpTools)


def call_server_tool(call: ServerCall) -> McpOutcome:
    """Call a tool once. Raises as `ask_hub`."""
    reply = ask_hub((call.server,), call=call)
    return msgspec.msgpack.decode(reply, type=McpOutcome)


def ask_server(server: str, question: McpQuestion) -> McpOutcome:
    """Ask one server for resources or prompts. Raises as `ask_hub`."""
    reply = ask_hub((server,), question=question)
    return msgspec.msgpack.decode(reply, type=McpOutcome)


def log_in_to_server(server: str, login: LoginOrder) -> LoginDone:
    """Log in, with the person's help. Raises as `ask_hub`."""
    return msgspec.msgpack.decode(ask_hub((server,), login=login), type=LoginDone)


def log_out_of_server(server: str) -> LoginDone:
    """Forget the login, and have its tokens revoked. Raises as `ask_hub`."""
    return msgspec.msgpack.decode(ask_hub((server,), logout=True), type=LoginDone)


class ServerProgram(NamedTuple):
    """What a server consists of. `changes`: None if it is what ran before."""

    store: Path
    program: ComparedProgram
    changes: ProgramChanges | None


def server_program(name: str) -> ServerProgram | None:
    """This server's program, if it is compared from start to start. Raises UsageError."""
    wanted, _ = _wanted((name,))
    places = project_lookup(wanted.environment, wanted.cwd).places
    program = find_compared(wanted.servers[0], wanted, places)
    if program is None:
        return None
    return ServerProgram(wanted.programs, program, check_program(wanted.programs, program))


def _order(names: tuple[str, ...], folder: str) -> HubOrder:
    wanted, loaded = _wanted(names)
    held = _held(wanted)
    places = find_user_paths(dict(os.environ))
    spec = HubSpec(
        run_id="", epoch=1, endpoint="", identity=b"", secret=b"",
        servers=held.servers,
        environment=dict(wanted.environment),
        cwd=wanted.cwd,
        tmp_dir=folder,
        guarded=GuardedPlaces(
            hidden_paths=(*places.hidden, *loaded.requirements.deny_read), run_places=held.places
        ),
        sandbox_required=loaded.requirements.sandbox_required,
        logins=str(places.logins),
        server_programs=str(wanted.programs),
    )  # fmt: skip
    return HubOrder(spec=spec, credentials=dict(wanted.credentials))


def _wanted(names: tuple[str, ...]) -> tuple[WantedServers, LoadedConfig]:
    """These servers, or all that are enabled, as a run in this folder would have them."""
    loaded = load_config_here()
    for name in names:
        if name not in loaded.config.mcp_servers:
            raise UsageError(unknown_server(name, loaded.config.mcp_servers))
    environment = dict(os.environ)
    keys = take_keys(environment, key_variables(loaded.config))
    own = take_keys(environment, credential_variables(loaded.config))
    warnings: list[str] = []
    built = build_mcp(
        loaded.config,
        loaded.layers,
        Role(name=""),
        chosen=names,
        environment=environment,
        required=loaded.requirements,
        warnings=warnings,
    )
    if names and not built.settings.servers:
        raise UsageError("; ".join(warnings))
    for warning in warnings:
        sys.stderr.write(f"swarm: warning: {warning}\n")
    credentials = collect_credentials(built.settings, built.literals, own, keys, environment)
    programs = find_user_paths(dict(os.environ)).server_programs
    cwd = str(find_cwd(None))
    wanted = WantedServers(built.settings.servers, environment, cwd, credentials, programs)
    return wanted, loaded


class _Held(NamedTuple):
    servers: tuple[McpServer, ...]
    places: WritablePlaces


def _held(wanted: WantedServers) -> _Held:
    """As a run holds them: what agents of this folder could have exchanged starts confined, and the
    person is told why. What a run would close counts as held if its path was named: every run here
    closes it. A bare name counts only where agents never write.
    """
    places = project_lookup(wanted.environment, wanted.cwd).places
    servers: list[McpServer] = []
    shut: list[str] = []
    for server in wanted.servers:
        held = hold_servers(wanted._replace(servers=(server,)), places)
        refusals = held.refusals
        if held.protected and "/" not in server.command:
            held, refusals = HeldServers(servers=(server,)), (_found_open(server, held),)
        servers += held.servers
        shut += held.protected
        for warning in refusals:
            sys.stderr.write(f"swarm: warning: {clean_line(warning, limit=_MOST_CHARS)}\n")
    return _Held(tuple(servers), msgspec.structs.replace(places, shut=(*places.shut, *shut)))


def _found_open(server: McpServer, held: HeldServers) -> str:
    return (
        f"MCP server `{server.name}` ({server.source}) runs without network, credentials and "
        "folders to write, since agents could exchange what it runs: on PATH, "
        f"`{server.command}` needs {', '.join(held.protected)}, where agents may write. Name its "
        "path, or keep it in a folder that agents do not write"
    )
