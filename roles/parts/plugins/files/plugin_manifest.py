"""Reads a plugin's `plugin.json`, in Codex's and in Claude's layout. Pure.

A manifest that is no usable JSON is an error with file and line. An entry that has no meaning here,
or a path that leads out, is left out with a warning that names it.
"""

from collections.abc import Iterator
from typing import TypeGuard, cast

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import read_written_object
from swarm.mailbox.protocol.hooks import HookForm
from swarm.mailbox.protocol.values.base import Value

from .plugin_id import LOCAL_VERSION, check_name, check_version

# In the order in which they are looked for; the first one counts.
MANIFESTS: dict[str, HookForm] = {
    ".swarm-plugin/plugin.json": "codex",
    ".codex-plugin/plugin.json": "codex",
    ".claude-plugin/plugin.json": "claude",
}
MANIFEST_BYTES = 256 << 10
_MAX_PATHS = 50
_MAX_TEXT = 1024
_KNOWN = frozenset((
    "$schema", "name", "version", "description", "author", "homepage", "repository", "license",
    "keywords", "interface", "skills", "commands", "agents", "hooks", "mcpServers",
))  # fmt: skip
_ABSENT = frozenset((
    "apps", "lspServers", "outputStyles", "monitors", "channels", "settings", "dependencies",
))  # fmt: skip


class PluginManifest(Value):
    """What `plugin.json` says. Paths are relative to the plugin's folder, without `./`.

    `hooks` and `servers` hold tables that stand in the manifest itself.
    """

    name: str
    path: str
    form: HookForm = "codex"
    version: str = LOCAL_VERSION
    description: str = ""
    display_name: str = ""
    author: str = ""
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    hook_files: tuple[str, ...] = ()
    server_files: tuple[str, ...] = ()
    hooks: dict[str, object] = {}
    servers: dict[str, object] = {}
    warnings: tuple[str, ...] = ()


def read_manifest(data: bytes, *, path: str, folder_name: str) -> PluginManifest:
    """Parse one manifest.

    Args:
        data: The file's content.
        path: Its path inside of the plugin: one of `MANIFESTS`; errors name it.
        folder_name: The name of a plugin whose manifest has none.

    Raises:
        UsageError: It is no JSON object, or its name or version cannot be used; with the line.
    """
    reader = _Reader(path, read_written_object(data, path), data)
    name = reader.text("name").strip() or folder_name
    with_line = f"{path}{reader.line('name')}"
    try:
        check_name(name, "plugin")
    except UsageError as error:
        raise UsageError(f"{with_line}: {error}") from error
    version = reader.text("version").strip() or LOCAL_VERSION
    try:
        check_version(version)
    except UsageError as error:
        raise UsageError(f"{path}{reader.line('version')}: {error}") from error
    interface = reader.table("interface")
    hook_files, hooks = reader.paths_or_table("hooks", "hooks/hooks.json")
    server_files, servers = reader.paths_or_table("mcpServers", ".mcp.json")
    author = reader.values.get("author")
    shown_author = author.get("name", "") if is_object(author) else author
    for key in reader.values:
        if key in _ABSENT:
            reader.warn(key, "has no meaning here; left out")
        elif key not in _KNOWN:
            reader.warn(key, "is not known here and has no effect")
    return PluginManifest(
        name=name,
        path=path,
        form=MANIFESTS.get(path, "codex"),
        version=version,
        description=one_line(reader.loose_text("description")),
        display_name=one_line(str(interface.get("displayName") or "")),
        author=one_line(str(shown_author or "")),
        skills=("skills", *reader.paths("skills")),
        commands=("commands", *reader.paths("commands")),
        agents=("agents", *reader.paths("agents")),
        hook_files=hook_files,
        server_files=server_files,
        hooks=hooks,
        servers=servers,
        warnings=tuple(reader.warnings),
    )


class _Reader:
    """The keys of one manifest, and what is to be said about them."""

    def __init__(self, path: str, values: dict[str, object], data: bytes) -> None:
        self.path, self.values, self.warnings = path, values, list[str]()
        self._data = data

    def line(self, key: str) -> str:
        """`, line N` of the key's first mention."""
        at = self._data.find(f'"{key}"'.encode())
        number = self._data.count(b"\n", 0, at) + 1
        return "" if at < 0 else f", line {number}"

    def warn(self, key: str, problem: str) -> None:
        self.warnings.append(f"{self.path}{self.line(key)}: {key[:64]!r} {problem}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{self.path}{self.line(key)}: `{key}` must be a text")
        return value or ""

    def loose_text(self, key: str) -> str:
        """A text that only people read; anything else is left out by name."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            self.warn(key, "is not text; left out")
            return ""
        return value or ""

    def table(self, key: str) -> dict[str, object]:
        value = self.values.get(key)
        return value if is_object(value) else {}

    def paths(self, key: str) -> tuple[str, ...]:
        """Paths inside of the plugin: one, or a list."""
        value = self.values.get(key)
        given = cast("list[object]", value) if isinstance(value, list) else [value]
        return tuple(self._inner_paths(key, [one for one in given if one is not None]))

    def paths_or_table(self, key: str, default: str) -> tuple[tuple[str, ...], dict[str, object]]:
        """(files, a table in the manifest itself); the default file if the key is missing."""
        value = self.values.get(key)
        if is_object(value):
            return (), value
        named = self.paths(key)
        return (named or (default,)), {}

    def _inner_paths(self, key: str, given: list[object]) -> Iterator[str]:
        for one in given[:_MAX_PATHS]:
            if not isinstance(one, str):
                self.warn(key, "holds something that is not a path; left out")
            elif (inner := inner_path(one)) is None:
                self.warn(key, f"holds the path {one[:80]!r}, which does not lie inside; left out")
            else:
                yield inner
        if len(given) > _MAX_PATHS:
            self.warn(key, f"holds more than {_MAX_PATHS} paths; the rest is left out")


def inner_path(text: str) -> str | None:
    """A `./path` without its `./`; "" for the folder itself; None if it may lead out."""
    if text in (".", "./"):
        return ""
    if not text.startswith("./") or "\0" in text or "\\" in text:
        return None
    parts = [part for part in text[2:].split("/") if part not in ("", ".")]
    return None if ".." in parts or not parts else "/".join(parts)


def one_line(text: str) -> str:
    """White space collapsed, at most 1,024 characters."""
    return " ".join(text.split())[:_MAX_TEXT]


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
