"""`[mcp_servers.NAME]` → the MCP servers of a run, the credentials for its hub, and warnings.

A server that cannot be used costs its tools, not the run, unless its table says `required`. Values
of variables and headers leave for the hub under a key; the servers themselves name only that key.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.mcp import McpServer, McpServerSettings, McpToolApproval
from swarm.mailbox.protocol.values.base import with_shared
from swarm.mailbox.protocol.values.limits import McpAccess
from swarm.roles.config.layers.layer_check import describe_place
from swarm.roles.config.layers.merge import Layer, as_table
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.mcp_table import (
    McpServerTable,
    UnsetVariable,
    env_var_names,
    expand,
    transport_problem,
)
from swarm.roles.config.schema import Config
from swarm.roles.rights.narrow import narrow_role_servers
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles

from ....request.run_request import McpSettings

_UNCONFINED = 'this MCP server runs outside of the sandbox (`sandbox = "none"`)'
LITERAL = "mcp_servers."  # begins the key of a value that the configuration itself holds


class PreparedServers(NamedTuple):
    """`literals` are values by key; a key without the prefix is a variable's name."""

    settings: McpSettings
    literals: dict[str, str]


def build_mcp(
    config: Config,
    layers: Sequence[Layer],
    role: Role,
    *,
    chosen: tuple[str, ...],
    environment: dict[str, str],
    required: Requirements,
    warnings: list[str],
) -> PreparedServers:
    """The servers of this run, and which of them the root may use.

    Args:
        chosen: `--mcp NAME`: only these, also disabled ones; empty: all that are enabled.
        environment: Without any key; for `${VAR}`.
        required: What an administrator allows.

    Raises:
        UsageError: An unknown name, or a required server that cannot be used.
    """
    for name in chosen:
        if name not in config.mcp_servers:
            raise UsageError(f"--mcp {name}: {unknown_server(name, config.mcp_servers)}")
    servers: list[McpServer] = []
    literals: dict[str, str] = {}
    for name, table in config.mcp_servers.items():
        if name not in chosen if chosen else not table.enabled:
            continue
        place = server_place(name, layers)
        try:
            server = build_server(name, table, place, environment, literals)
            if (why := refused_server(server, required)) is not None:
                raise UsageError(f"{place}: {why}")
            servers.append(server)
            if not server.sandboxed:
                warnings.append(f"{place}: {_UNCONFINED}")
        except UsageError as error:
            if table.required:
                raise
            warnings.append(f"{error}; its tools are missing")
    every = tuple(McpAccess(server=one.name) for one in servers)
    settings = McpSettings(servers=tuple(servers), root=narrow_role_servers(every, role))
    return PreparedServers(settings, literals)


def build_server(
    name: str,
    table: McpServerTable,
    place: str,
    environment: dict[str, str],
    literals: dict[str, str],
) -> McpServer:
    """One server; its literal values are added to `literals`. Raises UsageError."""
    if (problem := transport_problem(table)) is not None:
        raise UsageError(f"{place}: {problem}")
    try:
        table = _expanded(table, environment)
    except UnsetVariable as error:
        raise UsageError(f"{place}: {error}") from error
    variables = _keep(f"{LITERAL}{name}.env", table.env, literals)
    headers = _keep(f"{LITERAL}{name}.http_headers", table.http_headers, literals)
    server = McpServer(
        name=name,
        command=table.command or "",
        url=table.url or "",
        environment={one: one for one in env_var_names(table)} | variables,
        headers={**table.env_http_headers, **headers},
        bearer=table.bearer_token_env_var or "",
        oauth_client_secret=table.oauth_client_secret_env_var or "",
        oauth_client_key=table.oauth_client_key_env_var or "",
        parallel=table.supports_parallel_tool_calls,
        startup_timeout_s=table.startup_timeout_s,
        tool_timeout_s=table.tool_timeout_s,
        approval=table.default_tools_approval_mode,
        tool_approvals=_tool_approvals(table),
        sandboxed=table.sandbox != "none",
        on_node=table.where == "node",
        idle_s=table.idle_sec,
        source=place,
    )
    return with_shared(server, McpServerSettings, table)


def _tool_approvals(table: McpServerTable) -> tuple[McpToolApproval, ...]:
    return tuple(
        McpToolApproval(tool=tool, mode=one.approval_mode, digest=one.approved_as)
        for tool, one in table.tools.items()
        if one.approval_mode is not None
    )


def refused_server(server: McpServer, required: Requirements) -> str | None:
    """Why the administrator's requirements do not allow this server; None: they do."""
    allowed = required.mcp_servers
    known = None if allowed is None else allowed.get(server.name)
    if allowed is not None:
        given = (server.command or None, server.url or None)
        if known is None or (known.command, known.url) != given:
            return f"{required.place('mcp_servers')} does not list a server of this name and target"
    if required.network is not None and required.network.enabled:
        place = required.place("experimental_network")
        if server.network:
            return f"`network = true` is not allowed: {place} keeps all programs to its hosts"
        if server.url and known is None:
            return f"{place} keeps all programs to its hosts; `mcp_servers` there may list this one"
    return None


def _expanded(table: McpServerTable, environment: dict[str, str]) -> McpServerTable:
    """The table with `${VAR}` replaced, if it asks for that. Raises UnsetVariable."""
    if not table.expand_variables:
        return table

    def values(given: Mapping[str, str]) -> dict[str, str]:
        return {key: expand(value, environment) for key, value in given.items()}

    return msgspec.structs.replace(
        table,
        command=None if table.command is None else expand(table.command, environment),
        args=tuple(expand(word, environment) for word in table.args),
        env=values(table.env),
        url=None if table.url is None else expand(table.url, environment),
        http_headers=values(table.http_headers),
    )


def _keep(above: str, given: Mapping[str, str], literals: dict[str, str]) -> dict[str, str]:
    """Keep the values under keys of their own; return name → key."""
    literals |= {f"{above}.{name}": value for name, value in given.items()}
    return {name: f"{above}.{name}" for name in given}


def server_place(name: str, layers: Sequence[Layer]) -> str:
    """`FILE, line N, mcp_servers.NAME` of the highest layer that says something of the server."""
    for layer in reversed(layers):
        if not layer.ignored and name in as_table(layer.values.get("mcp_servers")):
            return describe_place(layer, ("mcp_servers", name))
    return f"mcp_servers.{name}"


def credential_variables(config: Config) -> tuple[str, ...]:
    """Variables whose values are credentials for servers alone: they leave the environment."""
    names: list[str] = []
    for table in config.mcp_servers.values():
        single = (
            table.bearer_token_env_var,
            table.oauth_client_secret_env_var,
            table.oauth_client_key_env_var,
        )
        names += [name for name in single if name]
        names += table.env_http_headers.values()
    return tuple(dict.fromkeys(names))


def rebuild_mcp(
    saved: McpSettings,
    config: Config,
    layers: Sequence[Layer],
    *,
    environment: dict[str, str],
    required: Requirements,
    warnings: list[str],
) -> PreparedServers:
    """The servers of a resumed run, as they are configured now; its agents' rights stay."""
    names = dict.fromkeys(one.server for one in saved.root)
    known = tuple(name for name in names if name in config.mcp_servers)
    warnings += [
        f"the run used the MCP server `{name}`, which is not configured any more; its tools are "
        "missing"
        for name in names
        if name not in known
    ]
    if not known:
        return PreparedServers(saved, {})
    built = build_mcp(
        config,
        layers,
        Role(name=""),
        chosen=known,
        environment=environment,
        required=required,
        warnings=warnings,
    )
    settings = msgspec.structs.replace(saved, servers=built.settings.servers)
    return PreparedServers(settings, built.literals)


def collect_credentials(
    settings: McpSettings, literals: Mapping[str, str], *sources: Mapping[str, str]
) -> dict[str, str]:
    """The value of every key that a server names; variables come from the first source with one."""
    keys = {
        key
        for one in settings.servers
        for key in (
            *one.environment.values(),
            *one.headers.values(),
            one.bearer,
            one.oauth_client_secret,
            one.oauth_client_key,
        )
    }
    found = {key: literals[key] for key in keys if key in literals}
    for source in reversed(sources):
        found |= {key: source[key] for key in keys - literals.keys() if key in source}
    return found


def check_role_servers(roles: Roles, config: Config) -> Roles:
    """The roles without those that name a server which is not configured.

    A role of an agent file only loses that server: such files are written for other programs.
    """
    broken, known = dict(roles.broken), dict(roles.known)
    notes: list[str] = []
    for name, role in roles.known.items():
        named = (*(role.mcp_servers or ()), *role.without_servers)
        wanted = (*named, *(one.server for one in role.mcp_tools))
        missing = [server for server in dict.fromkeys(wanted) if server not in config.mcp_servers]
        whys = [f"{role.source}: mcp_servers: {unknown_server(one, config.mcp_servers)}"
                for one in missing]  # fmt: skip
        if whys and role.is_agent_file:
            known[name] = _without_servers(role, missing, whys)
        elif whys:
            broken[name] = whys[-1]
            del known[name]
            notes.append(f"ignoring malformed agent role definition: {whys[-1]}")
    return msgspec.structs.replace(
        roles, known=known, broken=broken, warnings=(*roles.warnings, *notes)
    )


def _without_servers(role: Role, missing: Sequence[str], whys: Sequence[str]) -> Role:
    servers = role.mcp_servers
    return msgspec.structs.replace(
        role,
        mcp_servers=servers and tuple(one for one in servers if one not in missing),
        mcp_tools=tuple(one for one in role.mcp_tools if one.server not in missing),
        warnings=(*role.warnings, *whys),
    )


def unknown_server(name: str, known: Mapping[str, McpServerTable]) -> str:
    """The message about a name that is not configured, with the nearest one that is."""
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`swarm mcp list` shows those that are"
    return f"there is no MCP server `{name}`; {hint}"
