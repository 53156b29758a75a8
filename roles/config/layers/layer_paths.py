"""Makes a layer's relative paths absolute, against the layer's folder; `~` is the home folder.

Its only I/O is looking up the home folder.
"""

import os
from pathlib import Path
from typing import TypeGuard

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.model_reference import SCRIPTED

from ..schema import Toml
from .merge import as_table, is_table

_PATH_KEYS = ("model_instructions_file", "experimental_compact_prompt_file")


def absolute_paths(values: Toml, folder: Path) -> Toml:
    """The table with every path-valued key resolved against the layer's folder."""
    fixed = dict(values)
    for key in _PATH_KEYS:
        if isinstance(path := fixed.get(key), str):
            fixed[key] = _absolute(path, folder)
    if isinstance(provider := fixed.get("model_provider"), str):
        fixed["model_provider"] = scripted_path(provider, folder)
    workspace = as_table(fixed.get("sandbox_workspace_write"))
    if is_list(roots := workspace.get("writable_roots")):
        resolved = [_absolute(r, folder) if isinstance(r, str) else r for r in roots]
        fixed["sandbox_workspace_write"] = {**workspace, "writable_roots": resolved}
    agents = as_table(fixed.get("agents"))
    for name, role in agents.items():
        table = as_table(role)
        if isinstance(path := table.get("config_file"), str):
            agents[name] = {**table, "config_file": _absolute(path, folder)}
    if agents:
        fixed["agents"] = agents
    servers = as_table(fixed.get("mcp_servers"))
    if servers:
        fixed["mcp_servers"] = {
            name: _server_paths(as_table(table), folder) if is_table(table) else table
            for name, table in servers.items()
        }
    providers = as_table(fixed.get("model_providers"))
    if providers:
        fixed["model_providers"] = {
            name: _provider_paths(as_table(table), folder) if is_table(table) else table
            for name, table in providers.items()
        }
    return fixed


def scripted_path(provider: str, folder: Path) -> str:
    """`scripted:FILE` with the file's absolute path; any other provider as it is."""
    if not provider.startswith(SCRIPTED):
        return provider
    return SCRIPTED + _absolute(provider.removeprefix(SCRIPTED), folder)


def is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _server_paths(table: Toml, folder: Path) -> Toml:
    """Resolve `cwd`, `writable_roots`, and a `command` with a slash but without a variable."""
    fixed = dict(table)
    if isinstance(path := fixed.get("cwd"), str):
        fixed["cwd"] = _absolute(path, folder)
    if isinstance(path := fixed.get("command"), str) and "/" in path and "${" not in path:
        fixed["command"] = _absolute(path, folder)
    if is_list(roots := fixed.get("writable_roots")):
        fixed["writable_roots"] = [_absolute(r, folder) if isinstance(r, str) else r for r in roots]
    return fixed


def _provider_paths(table: Toml, folder: Path) -> Toml:
    """Resolve the key file, and the `cwd` and `command` of `auth` (if the command has a slash)."""
    fixed = dict(table)
    if isinstance(path := fixed.get("key_file"), str) and path:
        fixed["key_file"] = _absolute(path, folder)
    if is_table(google := fixed.get("google")):
        given = as_table(google)
        if isinstance(path := given.get("credentials_file"), str) and path:
            given["credentials_file"] = _absolute(path, folder)
        fixed["google"] = given
    if is_table(auth := fixed.get("auth")):
        given = as_table(auth)
        if isinstance(path := given.get("cwd"), str):
            given["cwd"] = _absolute(path, folder)
        if isinstance(path := given.get("command"), str) and "/" in path:
            given["command"] = _absolute(path, folder)
        fixed["auth"] = given
    return fixed


def _absolute(path: str, folder: Path) -> str:
    """Expand only `~` and `~/…`; `~name` is an ordinary folder name. Raises UsageError."""
    if "\0" in path:
        raise UsageError(f"{folder}: {path!r} cannot be a path")
    spread = Path(path).expanduser() if path == "~" or path.startswith("~/") else Path(path)
    return os.path.normpath(spread if spread.is_absolute() else folder / spread)
