"""Reads what an installed plugin brings, with the loaders of skills and hooks. Runs nothing."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import read_written_object
from swarm.mailbox.protocol.hooks import CommandHook, Hook, HookScript

from ...config.file_reading import read_bounded
from ...config.layers.layer_paths import absolute_paths
from ...config.layers.merge import as_table
from ...config.mcp_table import SERVER_NAME, McpServerTable, read_mcp_json, table_problems
from ..hooks.hook_file import HookFile, read_hook_json, read_hook_table
from ..hooks.hook_scripts import DATA_VARIABLES, ROOT_VARIABLES, hook_scripts
from ..skills.discovery import SkillFile, parse_skills, read_skill_file, skill_folders
from ..skills.skill_file import Skill
from .files.plugin_id import PluginId
from .files.plugin_manifest import (
    MANIFEST_BYTES,
    MANIFESTS,
    PluginManifest,
    inner_path,
    is_object,
    read_manifest,
)
from .files.plugin_parts import PluginParts
from .files.plugin_tree import read_folder_tree

_PLAIN_PATH = re.compile(r"[\w@%+=:,./-]+\Z", re.ASCII)
_MOST_FILES = 500  # commands or agents of one plugin


class PluginPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a version of a plugin lies, and its own folder for data; both canonical."""

    plugin_id: PluginId
    root: Path
    data: Path


def find_manifest(root: Path, *, default_name: str) -> PluginManifest:
    """The manifest of a plugin's folder; Claude's layout needs none.

    Raises UsageError with file and line.
    """
    for name in MANIFESTS:
        try:
            data = read_bounded(root / name, limit_bytes=MANIFEST_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        return read_manifest(data, path=name, folder_name=default_name)
    folders = ("skills", "commands", "agents", "hooks")
    if not any((root / name).is_dir() for name in folders) and not (root / ".mcp.json").is_file():
        raise UsageError(
            f"{root}: missing or invalid plugin.json: there is none of {', '.join(MANIFESTS)}"
        )
    empty = read_manifest(b"{}", path=".claude-plugin/plugin.json", folder_name=default_name)
    return msgspec.structs.replace(empty, path="")


def read_parts(place: PluginPlace, *, digest: str) -> PluginParts:
    """Everything that the plugin brings; a faulty part is left out with a warning.

    Raises UsageError if there is no usable manifest, OSError.
    """
    manifest = find_manifest(place.root, default_name=place.plugin_id.plugin)
    warnings = list(manifest.warnings)
    files = list(read_folder_tree(place.root))
    names = {str(place.root / one.name) for one in files}
    programs = tuple(one.name for one in files if getattr(one, "executable", False))
    return PluginParts(
        plugin_id=str(place.plugin_id),
        root=str(place.root),
        digest=digest,
        manifest=manifest,
        skills=_skills(place, manifest, warnings),
        hooks=_hooks(place, manifest, warnings),
        servers=dict(_servers(place, manifest, warnings)),
        commands=_named_files(place.root, manifest.commands, (".md",), names),
        agents=_named_files(place.root, manifest.agents, (".md",), names),
        programs=programs,
        warnings=tuple(warnings),
    )


def _skills(place: PluginPlace, manifest: PluginManifest, warnings: list[str]) -> tuple[Skill, ...]:
    files: list[SkillFile] = []
    for name in dict.fromkeys(manifest.skills):
        folder = place.root / name
        if name and name != "skills" and not folder.is_dir():
            warnings.append(f"{manifest.path}: skills: there is no folder {name!r}")
            continue
        files += (
            read_skill_file(found, "plugin", prefix=manifest.name)
            for found in skill_folders(folder, follow_links=False)
        )
    parsed = parse_skills(files)
    warnings += parsed.warnings
    return parsed.skills


def _hooks(place: PluginPlace, manifest: PluginManifest, warnings: list[str]) -> tuple[Hook, ...]:
    parts: list[HookFile] = []
    try:
        if manifest.hooks:
            table = manifest.hooks.get("hooks", manifest.hooks)
            source = f"{place.plugin_id}: {manifest.path}"
            parts.append(read_hook_table(table, source, form=manifest.form))
        for name in manifest.hook_files:
            try:
                data = read_bounded(place.root / name)
            except (FileNotFoundError, NotADirectoryError):
                if name != "hooks/hooks.json":
                    warnings.append(f"{manifest.path}: hooks: there is no file {name!r}")
                continue
            parts.append(read_hook_json(data, f"{place.plugin_id}: {name}", form=manifest.form))
    except UsageError as error:
        warnings.append(f"{error}; no hook of this plugin runs")
        return ()
    warnings += [line for part in parts for line in part.warnings]
    return tuple(_of_plugin(hook, place) for part in parts for hook in part.hooks)


def _of_plugin(hook: Hook, place: PluginPlace) -> Hook:
    """The hook with the plugin's folders in its command, and its scripts held."""
    import hashlib  # most runs have no plugins

    root, action = str(place.root), hook.action
    if isinstance(action, CommandHook) and action.args is not None:
        action = CommandHook(args=tuple(_with_folders(word, place) for word in action.args))
    command = _with_folders(hook.command, place)
    hook = msgspec.structs.replace(hook, command=command, action=action)
    scripts: list[HookScript] = []
    for path in hook_scripts(hook, root):
        try:
            data = read_bounded(Path(path), limit_bytes=1 << 20)
        except (FileNotFoundError, NotADirectoryError):
            continue
        scripts.append(HookScript(path=path, sha256=hashlib.sha256(data).hexdigest()))
    return msgspec.structs.replace(
        hook, scripts=tuple(scripts), plugin=root, plugin_data=str(place.data)
    )


def _with_folders(text: str, place: PluginPlace) -> str:
    """The variables of the plugin's folders replaced, as far as a shell would read them plainly."""
    for names, path in ((ROOT_VARIABLES, str(place.root)), (DATA_VARIABLES, str(place.data))):
        if _PLAIN_PATH.match(path):
            for name in names:
                text = text.replace(f"${{{name}}}", path)
    return text


def _servers(
    place: PluginPlace, manifest: PluginManifest, warnings: list[str]
) -> Iterator[tuple[str, dict[str, object]]]:
    for source, table in _server_tables(place, manifest, warnings):
        inner = table.get("mcpServers")
        for name, entry in (inner if is_object(inner) else table).items():
            try:
                yield name, _server(name, entry, place, source)
            except UsageError as error:
                warnings.append(f"{error}; this server is left out")


def _server_tables(
    place: PluginPlace, manifest: PluginManifest, warnings: list[str]
) -> Iterator[tuple[str, dict[str, object]]]:
    if manifest.servers:
        yield manifest.path, manifest.servers
    for name in manifest.server_files:
        try:
            yield name, read_written_object(read_bounded(place.root / name), name)
        except (FileNotFoundError, NotADirectoryError):
            if name != ".mcp.json":
                warnings.append(f"{manifest.path}: mcpServers: there is no file {name!r}")
        except UsageError as error:
            warnings.append(f"{error}; its servers are left out")


def _server(name: str, entry: object, place: PluginPlace, source: str) -> dict[str, object]:
    """The table of a server, in the sandbox. Raises UsageError."""
    where = f"{source}: mcpServers.{name[:64]}"
    if not SERVER_NAME.match(name):
        raise UsageError(f"{where}: a name has letters, digits, '-' and '_'")
    if not is_object(entry):
        raise UsageError(f"{where}: must be an object")
    given = {key: value for key, value in entry.items() if key != "cwd"}
    if given.get("type") == "streamable_http":
        given["type"] = "http"
    text = _replaced(json.dumps({"mcpServers": {name: given}}), place)
    table = read_mcp_json(text.encode(), source)[name]
    for key, why in table_problems(name, msgspec.convert(table, McpServerTable)):
        raise UsageError(f"{where}.{key}: {why}")
    if (cwd := entry.get("cwd")) is not None:
        folder = _cwd(cwd, place) if isinstance(cwd, str) else None
        if folder is None:
            raise UsageError(f"{where}.cwd: must be a path inside of the plugin")
        table["cwd"] = folder
    if table.get("command"):
        own = dict.fromkeys(ROOT_VARIABLES, str(place.root))
        own |= dict.fromkeys(DATA_VARIABLES, str(place.data))
        table["env"] = {**own, **as_table(table.get("env"))}
        table["writable_roots"] = [str(place.data)]
    whole = absolute_paths({"mcp_servers": {name: table}}, place.root)
    return as_table(as_table(whole["mcp_servers"])[name])


def _cwd(given: str, place: PluginPlace) -> str | None:
    text = _replaced(given, place)
    if text == str(place.root) or text.startswith(f"{place.root}/"):
        text = f"./{text[len(str(place.root)) + 1 :]}"
    inner = inner_path(text if text.startswith("./") else f"./{text}")
    return None if inner is None else os.path.normpath(place.root / inner)


def _replaced(text: str, place: PluginPlace) -> str:
    for names, path in ((ROOT_VARIABLES, place.root), (DATA_VARIABLES, place.data)):
        for name in names:
            text = text.replace(f"${{{name}}}", json.dumps(str(path))[1:-1])
    return text


def _named_files(
    root: Path, wanted: Iterable[str], suffixes: tuple[str, ...], names: set[str]
) -> tuple[str, ...]:
    """The files with these suffixes that are named, or lie below a folder that is named."""
    found: dict[str, None] = {}
    for name in wanted:
        place = os.path.normpath(root / name)
        fitting = (file for file in sorted(names) if file == place or file.startswith(f"{place}/"))
        found |= dict.fromkeys(file for file in fitting if file.endswith(suffixes))
    return tuple(found)[:_MOST_FILES]
