"""Adds a server to a folder's `.mcp.json`, the form in which agents of others read it too."""

from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import encoding_of, read_written_object
from swarm.roles.config.atomic_replace import replace_file
from swarm.roles.config.file_reading import read_bounded
from swarm.roles.config.layers.project_config import MCP_FILE
from swarm.roles.config.mcp_table import json_servers

_KEYS = {"command": "command", "args": "args", "env": "env", "url": "url",
         "http_headers": "headers"}  # fmt: skip
_TOKEN = "bearer_token_env_var"


def add_to_mcp_json(folder: Path, name: str, table: Mapping[str, object]) -> Path:
    """Add the server, or replace the one of this name; all others stay. Returns the file.

    Args:
        table: Keys as in `[mcp_servers.NAME]`.

    Raises:
        UsageError: The table has a key without a place there, or the file cannot be changed.
    """
    path = folder / MCP_FILE
    try:
        if path.is_symlink():
            raise UsageError(f"{path} is a link; nothing was written: edit the file that it names")
        data = read_bounded(path) if path.exists() else b"{}"
        replace_file(path, with_server(data, name, table, str(path)))
    except OSError as error:
        raise UsageError(f"{path} was not changed: {error.strerror or error}") from error
    return path


def with_server(data: bytes, name: str, table: Mapping[str, object], path: str) -> bytes:
    """The file's new text; the other servers stay as they are. Raises UsageError."""
    if not encoding_of(data).startswith("utf-8"):
        raise UsageError(f"{path} is not UTF-8; nothing was written: save it as UTF-8 first")
    file = read_written_object(data, path)
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    others = json_servers(file, path)
    if strange := [other for other, entry in others.items() if not isinstance(entry, dict)]:
        raise UsageError(f"{path}: mcpServers.{strange[0]}: must be an object; nothing was written")
    servers = {**others, name: server_entry(table)}
    return mark + msgspec.json.format(msgspec.json.encode({**file, "mcpServers": servers})) + b"\n"


def server_entry(table: Mapping[str, object]) -> dict[str, object]:
    """The server as `.mcp.json` has it. Raises UsageError for a key without a place there."""
    strange = [key for key in table if key not in _KEYS and key != _TOKEN]
    if strange:
        raise UsageError(
            f"{MCP_FILE} has no place for {', '.join(strange)}; leave --scope project out, or "
            "write the server into .swarm/config.toml"
        )
    entry = {_KEYS[key]: value for key, value in table.items() if key in _KEYS}
    if "url" in entry:
        entry = {"type": "http", **entry}
    if _TOKEN in table:
        headers = cast("dict[str, str]", entry.get("headers", {}))
        entry["headers"] = {**headers, "Authorization": f"Bearer ${{{table[_TOKEN]}}}"}
    return entry
