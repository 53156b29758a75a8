"""Checks one layer: types, rules between keys, unknown keys, patterns of variables. No I/O.

A message names file, line and key; if there is no file, it names the layer.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.near_names import near_or_all
from swarm.mailbox.parts.tool_names import unknown_tool

from ..dotted_key import format_key
from ..key_positions import ANY_KEY, KeyPath, TextPosition, find_key_positions, find_position
from ..mcp_table import McpServerTable, McpToolTable, table_problems
from ..model_keys import ModelKeys, ToolsTable
from ..part_keys import PROVIDER_PART_TABLES
from ..schema import (
    CODEX_INNER_KEYS,
    CODEX_KEYS,
    RESERVED_PROVIDERS,
    AgentsTable,
    AuthTable,
    Config,
    KeyringTable,
    PermissionProfile,
    ProviderTable,
    RoleTable,
    ShellTable,
    Toml,
)
from ..validation_words import explain_mismatch
from .merge import Layer, as_table, is_table
from .no_effect import keys_without_effect

_T = TypeVar("_T", bound=msgspec.Struct)
_MOST_NAMED = 20
_BEARER_TOKEN = "bearer_token is not supported; name a variable with bearer_token_env_var"
_AT = re.compile(r" - at `\$\.?([^`]*)`")


def check_layer(layer: Layer) -> None:
    """Raises UsageError for an invalid value."""
    values = layer.values
    if "profile" in values:
        name = values["profile"]
        raise error_at(
            layer,
            "profile",
            f'`profile = "{name}"` is not supported; use '
            f"`--profile {name}` with {name}.config.toml beside config.toml",
        )
    providers = as_table(values.get("model_providers"))
    tables = {name: _typed(layer, ("model_providers", name), table, ProviderTable)
              for name, table in providers.items()}  # fmt: skip
    servers = as_table(values.get("mcp_servers"))
    for name, table in servers.items():
        if is_table(table) and "bearer_token" in table:
            raise error_at(layer, ("mcp_servers", name, "bearer_token"), _BEARER_TOKEN)
        server = _typed(layer, ("mcp_servers", name), table, McpServerTable)
        for key, problem in table_problems(name, server):
            raise error_at(layer, ("mcp_servers", name, *([key] if key else [])), problem)
    agents = as_table(values.get("agents"))
    for name, role in agents.items():
        if name not in AgentsTable.__struct_fields__ and is_table(role):
            check_tools(layer, ("agents", name), _typed(layer, ("agents", name), role, RoleTable))
    fixed = _typed(layer, ("agents",), agents, AgentsTable)
    config = _typed(layer, (), values, Config)
    check_tools(layer, (), config)
    for path, text in find_shell_table_errors(config.shell_environment_policy):
        raise error_at(layer, ("shell_environment_policy", *path), text)
    for key in ("max_threads", "max_concurrent_threads_per_session", "max_depth", "max_total"):
        number = getattr(fixed, key)
        if number is not None and number < 0:
            raise error_at(layer, f"agents.{key}", "must not be negative")
    if fixed.job_max_runtime_seconds is not None and fixed.job_max_runtime_seconds < 1:
        raise error_at(layer, "agents.job_max_runtime_seconds", "must be at least 1")
    for name, provider in tables.items():
        _check_provider(layer, name, provider)


def check_tools(layer: Layer, above: KeyPath, keys: ModelKeys) -> None:
    """Raises UsageError, with file, line and the list, for a name that no tool has."""
    choice = keys.tool_choice
    only = ("tools",) if isinstance(keys.tools, tuple) else ("tools", "only")
    for path, names in ((only, choice.only or ()), (("tools", "exclude"), choice.exclude)):
        if problem := unknown_tool(names):
            raise error_at(layer, (*above, *path), problem)


def _typed(layer: Layer, above: KeyPath, table: object, kind: type[_T]) -> _T:
    """Convert the table to its struct. Raises UsageError with file, line and key."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(explain_error(layer, error, above, kind=kind)) from error


def _check_provider(layer: Layer, name: str, provider: ProviderTable) -> None:
    if name in RESERVED_PROVIDERS:
        raise error_at(
            layer,
            ("model_providers", name),
            f"built-in providers cannot be redefined; rename it, for example to {name}-custom",
        )
    if (problem := key_source_problem(provider)) is not None:
        key, why = problem
        place = describe_place(layer, ("model_providers", name, *key.split(".")))
        raise UsageError(f"{place}: {why}")
    for key in ("request_max_retries", "stream_max_retries", "stream_idle_timeout_ms"):
        if getattr(provider, key) < 0:
            place = describe_place(layer, ("model_providers", name, key))
            raise UsageError(f"{place}: must not be negative")


def explain_error(
    layer: Layer, error: msgspec.ValidationError, above: KeyPath = (), *, kind: type | None = None
) -> str:
    """What is wrong, preceded by file, line and key. `kind`: what was converted to."""
    text = str(error)
    found = _AT.search(text)
    steps = found[1].replace("[...]", f".{ANY_KEY}").split(".") if found else []
    inner = tuple(re.sub(r"\[\d+\]", "", step) for step in steps if step)
    sentence = text[: found.start()] if found else text
    if kind is not None:
        sentence = explain_mismatch(sentence, inner, kind)
    return f"{describe_place(layer, (*above, *inner))}: {sentence}"


def error_at(layer: Layer, key: str | KeyPath, problem: str) -> UsageError:
    """An error that names file, line and key."""
    return UsageError(f"{describe_place(layer, key)}: {problem}")


def describe_place(layer: Layer, key: str | KeyPath) -> str:
    """`FILE, line N, KEY`, as far as known."""
    path = tuple(key.split(".")) if isinstance(key, str) else key
    shown = ".".join(step if step == ANY_KEY else format_key((step,)) for step in path)
    if not layer.source:
        return f"{layer.name}, {shown}" if shown else layer.name
    place = find_key_position(layer, path)
    line = f", line {place.line}" if place else ""
    return f"{layer.source}{line}{', ' if shown else ''}{shown}"


def find_key_position(layer: Layer, path: KeyPath) -> TextPosition | None:
    """The position of this key, or of the table around it, in the layer's text."""
    return find_position(find_key_positions(layer.text), path) if layer.text else None


_PROVIDER_TABLES: dict[str, type[msgspec.Struct]] = {
    "auth": AuthTable,
    "keyring": KeyringTable,
    **PROVIDER_PART_TABLES,
}
_UnknownKey = tuple[KeyPath, Sequence[str]]  # and what is known in its place


def unknown_keys(layer: Layer) -> Iterator[str]:
    """One message for each key that neither swarm nor Codex has; one for all that are too many."""
    found = _unknown_paths(layer)
    for path, known in islice(found, _MOST_NAMED):
        yield unknown_key(layer, path, known)
    if more := sum(1 for _ in found):
        yield f"{layer.source or layer.name}: {more:,} more unknown keys"


def _unknown_paths(layer: Layer) -> Iterator[_UnknownKey]:
    known = (*Config.__struct_fields__, *CODEX_KEYS)
    for key, value in layer.values.items():
        if key not in known:
            yield (key,), known
        elif key == "model_providers":
            for name, table in as_table(value).items():
                yield from _unknown_in((key, name), table, ProviderTable)
                for inner, kind in _PROVIDER_TABLES.items():
                    within = as_table(table).get(inner)
                    yield from _unknown_in((key, name, inner), within, kind)
        elif key == "mcp_servers":
            yield from _unknown_server_keys(as_table(value))
        elif key == "tools":
            yield from _unknown_in((key,), value, ToolsTable)
        elif key == "permissions":
            for name, table in as_table(value).items():
                yield from _unknown_in((key, name), table, PermissionProfile)
        elif key == "agents":
            yield from _unknown_agent_keys(as_table(value))
        elif is_table(value) and key in Config.__struct_fields__:
            default = getattr(Config(), key)
            if isinstance(default, msgspec.Struct):
                yield from _unknown_in((key,), value, type(default))


def _unknown_agent_keys(agents: Toml) -> Iterator[_UnknownKey]:
    for name, table in agents.items():
        if is_table(table) and name not in AgentsTable.__struct_fields__:
            yield from _unknown_in(("agents", name), table, RoleTable)
        elif name not in AgentsTable.__struct_fields__ and (
            f"agents.{name}" not in CODEX_INNER_KEYS
        ):
            yield ("agents", name), AgentsTable.__struct_fields__


def _unknown_server_keys(servers: Toml) -> Iterator[_UnknownKey]:
    for name, table in servers.items():
        yield from _unknown_in(("mcp_servers", name), table, McpServerTable)
        for tool, inside in as_table(as_table(table).get("tools")).items():
            path = ("mcp_servers", name, "tools", tool)
            yield from _unknown_in(path, inside, McpToolTable)


def idle_keys(layer: Layer) -> Iterator[str]:
    """One message that lists the layer's Codex keys without effect here."""
    named: list[str] = []
    for path in keys_without_effect(layer):
        place = find_key_position(layer, path)
        named.append(f"{'.'.join(path)}{f' (line {place.line})' if place else ''}")
    if named:
        more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
        keys = ", ".join(named[:_MOST_NAMED])
        yield f"{layer.source or layer.name}: keys of Codex that have no effect here: {keys}{more}"


def _unknown_in(
    above: KeyPath, table: object, known: type[msgspec.Struct]
) -> Iterator[_UnknownKey]:
    for key in as_table(table):
        if key not in known.__struct_encode_fields__:
            yield (*above, key), known.__struct_encode_fields__


def unknown_key(layer: Layer, path: KeyPath, known: Sequence[str]) -> str:
    """The error text of a key that nothing has, with the nearest one."""
    return f"{describe_place(layer, path)}: unknown key{near_or_all(path[-1], known)}"


_MAX_CHARS = 256
_MAX_PATTERNS = 1_000


def find_shell_table_errors(table: ShellTable) -> Iterator[tuple[KeyPath, str]]:
    """(key within the table, error text) for each error.

    A pattern that can match no variable is a mistake. This table keeps secrets away from commands,
    so its mistakes are reported before anything starts.
    """
    for key in ("exclude", "include_only"):
        patterns: tuple[str, ...] = getattr(table, key)
        if len(patterns) > _MAX_PATTERNS:
            yield (key,), f"more than {_MAX_PATTERNS} patterns"
        for pattern in patterns:
            if why := _name_error(pattern):
                yield (key,), f"{pattern!r} is not a pattern for a variable's name: {why}"
    for name, value in table.set.items():
        if why := _name_error(name):
            yield ("set", name), f"{name!r} is not a variable's name: {why}"
        elif "\0" in value:
            yield ("set", name), "a value cannot hold a NUL"


def _name_error(name: str) -> str:
    if not name.strip():
        return "it is empty"
    if len(name) > _MAX_CHARS:
        return f"it is longer than {_MAX_CHARS} characters"
    if "=" in name:
        return "no name holds a ="
    return "" if name.isprintable() else "it holds a control character"


_MAX_TIMEOUT_MS = 600_000


def key_sources(table: ProviderTable) -> Iterator[str]:
    """The keys of the table that name a source, in the order in which errors list them."""
    given: dict[str, object] = {
        "env_key": table.env_key,
        "experimental_bearer_token": table.experimental_bearer_token,
        "requires_openai_auth": table.requires_openai_auth,
        "key_file": table.key_file,
        "keyring": table.keyring,
        **{name: getattr(table, name) for name in PROVIDER_PART_TABLES},
    }
    return (key for key, value in given.items() if value)


def key_source_problem(table: ProviderTable) -> tuple[str, str] | None:
    """(key, reason) of the first error in the key sources; None if there is none.

    Source: Codex's rules for `auth`, plus rules for the sources that only swarm has.
    """
    others = list(key_sources(table))
    if table.auth is not None:
        if others:
            return "auth", f"provider auth cannot be combined with {', '.join(others)}"
        return _auth_problem(table.auth)
    for ours in ("key_file", "keyring", *PROVIDER_PART_TABLES):
        rest = [other for other in others if other != ours]
        if ours in others and rest:
            return ours, f"cannot be combined with {', '.join(rest)}"
    if table.keyring is not None and not table.keyring.service.strip():
        return "keyring.service", "must not be empty"
    return None


def _auth_problem(auth: AuthTable) -> tuple[str, str] | None:
    if not auth.command.strip():
        return "auth.command", "provider auth.command must not be empty"
    if not 0 < auth.timeout_ms <= _MAX_TIMEOUT_MS:
        return "auth.timeout_ms", f"must be between 1 and {_MAX_TIMEOUT_MS}"
    if auth.refresh_interval_ms < 0:
        return "auth.refresh_interval_ms", "must not be negative; 0 = only when a key is refused"
    return None
