"""`[mcp_servers.NAME]` as values, the rules between its keys, and the shape of `.mcp.json`. Pure.

The keys are Codex's. `sandbox`, `writable_roots`, `network`, `per_agent`, `where`, `idle_sec`,
`open_world`, `sampling`, `expand_variables`, `oauth_client_id` and the other `oauth_…` keys but
`oauth_resource`, and a tool's `approved_as` are swarm's own.
"""

import re
from collections.abc import Iterator
from typing import Literal, TypeGuard

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import read_written_object
from swarm.mailbox.protocol.mcp import ApprovalMode, McpServerSettings
from swarm.mailbox.protocol.values.base import Value

from .validation_words import explain_conversion

SERVER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_MAX_SERVERS = 100  # of one file
_STDIO_KEYS = ("args", "env", "env_vars", "cwd", "writable_roots", "network", "sandbox")
_HTTP_KEYS = (
    "bearer_token_env_var", "http_headers", "env_http_headers", "oauth_resource", "scopes",
    "oauth_client_id", "oauth_client_secret_env_var", "oauth_grant", "oauth_client_key_env_var",
    "oauth_issuer",
)  # fmt: skip


class EnvVarTable(Value):
    """An entry of `env_vars` as a table; Codex's `remote` source does not exist here."""

    name: str
    source: Literal["local", "remote"] = "local"


class McpToolTable(Value):
    """`[mcp_servers.NAME.tools.TOOL]`."""

    approval_mode: ApprovalMode | None = None
    approved_as: str = ""  # `approval_mode` holds only while the tool is described as this hash


class McpServerTable(McpServerSettings):
    """`[mcp_servers.NAME]`: a server over stdio (`command`) or streamable HTTP (`url`)."""

    command: str | None = None
    env: dict[str, str] = {}
    env_vars: tuple[str | EnvVarTable, ...] = ()
    url: str | None = None
    bearer_token_env_var: str | None = None
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}
    oauth_client_secret_env_var: str | None = None
    oauth_client_key_env_var: str | None = None
    enabled: bool = True
    supports_parallel_tool_calls: bool = False
    startup_timeout_sec: float | None = None
    startup_timeout_ms: int | None = None
    tool_timeout_sec: float | None = None
    default_tools_approval_mode: ApprovalMode = "auto"
    tools: dict[str, McpToolTable] = {}
    experimental_environment: Literal["local", "remote"] = "local"
    sandbox: Literal["read-only", "none"] = "read-only"
    where: Literal["here", "node"] = "here"  # node: on the machine of the agent that calls
    idle_sec: float = 300.0
    expand_variables: bool = False  # `${VAR}` and `${VAR:-text}` are replaced, as in `.mcp.json`

    @property
    def startup_timeout_s(self) -> float:
        """Seconds win over milliseconds."""
        if self.startup_timeout_sec is not None:
            return self.startup_timeout_sec
        return 30.0 if self.startup_timeout_ms is None else self.startup_timeout_ms / 1000

    @property
    def tool_timeout_s(self) -> float:
        return 120.0 if self.tool_timeout_sec is None else self.tool_timeout_sec


def table_problems(name: str, table: McpServerTable) -> Iterator[tuple[str, str]]:
    """(key, reason) of each error that a table has whatever other layers say."""
    if not SERVER_NAME.match(name):
        yield "", f"invalid server name '{name}' (use letters, numbers, '-', '_')"
    numbers = {
        "startup_timeout_sec": table.startup_timeout_sec,
        "startup_timeout_ms": table.startup_timeout_ms,
        "tool_timeout_sec": table.tool_timeout_sec,
        "idle_sec": table.idle_sec,
    }
    for key, number in numbers.items():
        if number is not None and not 0 < number <= 86_400_000:
            yield key, "must be greater than zero, and at most a day"
    if table.where == "node" and table.command is None and table.url is not None:
        yield "where", "`node` is for servers that are started by a `command`"
    if table.experimental_environment == "remote":
        yield "experimental_environment", "only `local` exists here"
    if table.command is not None and not table.command.strip():
        yield "command", "must not be empty"
    for key in (*table.env, *(_variable(one) for one in table.env_vars)):
        if not key or "=" in key or not key.isprintable():
            yield "env", f"{key!r} is not a variable's name"


def transport_problem(table: McpServerTable) -> str | None:
    """What is wrong with the transport of a merged table; None: nothing."""
    if table.command is None and table.url is None:
        return "invalid transport: set `command` (a program) or `url` (streamable HTTP)"
    if table.command is not None and table.url is not None:
        return "url is not supported for stdio: keep either `command` or `url`"
    keys, kind = (_HTTP_KEYS, "stdio") if table.url is None else (_STDIO_KEYS, "streamable_http")
    empty = McpServerTable()
    for key in keys:
        if getattr(table, key) != getattr(empty, key):
            return f"{key} is not supported for {kind}"
    if table.url is not None and not re.match(r"https?://[^/\s]", table.url):
        return f"{table.url!r} is not an http address"
    if table.oauth_client_secret_env_var and not table.oauth_client_id:
        return "oauth_client_secret_env_var needs the oauth_client_id that it belongs to"
    return _grant_problem(table)


def _grant_problem(table: McpServerTable) -> str | None:
    """What is wrong with the login of a program; None: nothing, or there is none."""
    if table.oauth_grant == "authorization_code":
        given = table.oauth_client_key_env_var or table.oauth_issuer
        return 'only oauth_grant = "client_credentials" has a key and an issuer' if given else None
    if not table.oauth_client_id:
        return "client_credentials needs an oauth_client_id"
    if bool(table.oauth_client_secret_env_var) == bool(table.oauth_client_key_env_var):
        return (
            "client_credentials needs either oauth_client_secret_env_var or "
            "oauth_client_key_env_var"
        )
    if table.oauth_resource or table.bearer_token_env_var:
        return "client_credentials goes without oauth_resource and bearer_token_env_var"
    if table.oauth_issuer and not re.match(r"https?://[^/\s]", table.oauth_issuer):
        return f"oauth_issuer: {table.oauth_issuer!r} is not an http address"
    return None


def env_var_names(table: McpServerTable) -> tuple[str, ...]:
    """The variables that the server gets from the person's environment."""
    return tuple(_variable(one) for one in table.env_vars)


def _variable(entry: str | EnvVarTable) -> str:
    return entry if isinstance(entry, str) else entry.name


class _JsonServer(Value):
    """One server of a `.mcp.json`."""

    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    expand_variables: bool = True
    enabled: bool = True
    disabled: bool = False  # as editors write it


class McpFile(Value):
    """The servers of one `.mcp.json` that can be used, and a line for each other one."""

    servers: dict[str, dict[str, object]] = {}
    problems: tuple[str, ...] = ()


def read_mcp_json(data: bytes, path: str) -> dict[str, dict[str, object]]:
    """The tables that a `.mcp.json` stands for. Raises UsageError, naming file and server."""
    file = read_mcp_file(data, path)
    if file.problems:
        raise UsageError(file.problems[0])
    return file.servers


def read_mcp_file(data: bytes, path: str) -> McpFile:
    """As `read_mcp_json`, but a server that cannot be used costs only itself.

    Raises UsageError: it is no file of servers.
    """
    given = json_servers(read_written_object(data, path), path)
    servers: dict[str, dict[str, object]] = {}
    problems: list[str] = []
    for name, one in given.items():
        try:
            servers[name] = _as_table(name, one, path)
        except UsageError as error:
            problems.append(str(error))
    return McpFile(servers=servers, problems=tuple(problems))


def json_servers(root: dict[str, object], path: str) -> dict[str, object]:
    """The entries of `mcpServers`. Raises UsageError: they are no object, or too many."""
    given = root.get("mcpServers")
    if given is None:
        return {}
    if not _is_object(given):
        raise UsageError(f"{path}: `mcpServers` must be an object of servers")
    if len(given) > _MAX_SERVERS:
        raise UsageError(f"{path}: more than {_MAX_SERVERS} servers")
    return given


def _as_table(name: str, entry: object, path: str) -> dict[str, object]:
    where = f"{path}: mcpServers.{name[:64]}"
    if not _is_object(entry):
        raise UsageError(f"{where}: must be an object")
    given = {key: value for key, value in entry.items() if value is not None}
    if given.get("type") == "sse":
        raise UsageError(
            f"{where}: the transport `sse` is not supported; use `http`, which has replaced it"
        )
    try:
        one = msgspec.convert(given, _JsonServer)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {explain_conversion(error, _JsonServer)}") from error
    if one.command is None and one.url is None:
        raise UsageError(f"{where}: it has neither `command` (a program) nor `url`")
    table = _table_of(one)
    for key, problem in table_problems(name, msgspec.convert(table, McpServerTable)):
        raise UsageError(f"{where}{f'.{key}' if key else ''}: {problem}")
    return table


def _table_of(one: _JsonServer) -> dict[str, object]:
    values: dict[str, object] = {
        "command": one.command,
        "args": list(one.args),
        "env": dict(one.env),
        "url": one.url,
        "http_headers": dict(one.headers),
    }
    is_off: dict[str, object] = {"enabled": False} if one.disabled or not one.enabled else {}
    given = {key: value for key, value in values.items() if value}
    return given | is_off | {"expand_variables": one.expand_variables}


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class UnsetVariable(UsageError):
    """A `${VAR}` without a value and without a default."""


def expand(text: str, environment: dict[str, str]) -> str:
    """Replace `${VAR}` and `${VAR:-text}`. Raises UnsetVariable."""

    def value_of(found: re.Match[str]) -> str:
        name, fallback = found[1], found[2]
        if name in environment:
            return environment[name]
        if fallback is None:
            raise UnsetVariable(f"the variable {name} is not set; set it, or write ${{{name}:-…}}")
        return str(fallback)

    return _REFERENCE.sub(value_of, text)
