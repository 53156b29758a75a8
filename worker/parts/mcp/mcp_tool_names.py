"""The names of MCP tools for models: `mcp__SERVER__TOOL`, unique, at most 64 characters. Pure.

Source: Codex's rules (tools sheet 12.2), without its namespaces: one name holds both parts.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_NAME = 64
_HASH_CHARS = 12
_MAX_PREFIX = MAX_NAME - _HASH_CHARS - 1
_UNFIT = re.compile(r"[^A-Za-z0-9_]")


class ToolIdentity(NamedTuple):
    """A tool by the raw names of its server and itself."""

    server: str
    tool: str

    @property
    def raw(self) -> str:
        return f"{self.server}\0mcp__{self.server}__\0\0callable\0{self.tool}"


def sanitize(text: str) -> str:
    """Replace every character that no provider accepts; an empty text becomes `_`."""
    return _UNFIT.sub("_", text) or "_"


def name_tools(tools: Sequence[ToolIdentity]) -> dict[ToolIdentity, str]:
    """The name of each tool. Exact duplicates count once; the result is sorted by raw identity.

    The same tools get the same names, in whatever order they are given.
    """
    ordered = sorted(set(tools), key=lambda one: one.raw)
    spaces = _namespaces({one.server for one in ordered})
    plain = [(spaces[one.server], sanitize(one.tool)) for one in ordered]
    used: set[str] = set()
    names: dict[ToolIdentity, str] = {}
    for one, (space, base) in zip(ordered, plain, strict=True):
        if plain.count((space, base)) > 1:
            base = f"{base}_{_digest(one.raw)}"
        names[one] = _fit(space, base, one.raw, used)
        used.add(names[one])
    return names


def _namespaces(servers: set[str]) -> dict[str, str]:
    """`mcp__SERVER__` for each server; those that would be equal get a hash before the end."""
    clean = {server: sanitize(server) for server in sorted(servers)}
    twice = [name for name in clean.values() if list(clean.values()).count(name) > 1]
    return {
        server: f"mcp__{name}_{_digest(f'{server}{chr(0)}mcp__{server}__{chr(0)}')}__"
        if name in twice
        else f"mcp__{name}__"
        for server, name in clean.items()
    }


def _fit(space: str, base: str, raw: str, used: set[str]) -> str:
    name = space + base
    attempt = 0
    while len(name) > MAX_NAME or name in used:
        seed = raw if attempt == 0 else f"{raw}\0{attempt}"
        suffix = f"_{_digest(seed)}"
        head = space if len(space) + len(suffix) <= MAX_NAME else space[:_MAX_PREFIX]
        name = head + base[: MAX_NAME - len(head) - len(suffix)] + suffix
        attempt += 1
    return name


def _digest(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
