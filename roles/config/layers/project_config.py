"""Reads a project's configuration: each `.swarm` folder from its root down to the working folder.

Every relevant file is read once; the same bytes are hashed, shown and used. No path of a project is
opened a second time. A folder that cannot be read completely is never trusted. A project cannot set
keys that decide where data is sent, who reviews, or what programs are started for the person.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ...base.guidance import find_project_root
from ...base.project_links import ProjectLinks
from ...markdown.markdown_discovery import has_markdown_folder, read_project_markdown
from ...parts.hooks.project_hooks import has_hook_file, read_hook_files, read_scripts
from ...parts.skills.discovery import has_skill_folder, read_project_skills
from ..file_reading import FILE_BYTES, decode_text, folder_warnings, parse_toml, read_bounded
from ..mcp_table import McpFile, read_mcp_file
from ..schema import Config, Toml
from .layer_check import find_key_position
from .layer_paths import absolute_paths, is_list
from .merge import Layer, as_table, is_table, merge_tables
from .project_servers import without_known_servers

PROJECT_FOLDER = ".swarm"
MCP_FILE = ".mcp.json"  # beside it, in the form that other agents read too
MAX_FOLDERS = 200  # between the root and the working folder
_MAX_FILES = 700
_MAX_ENTRIES = 5_000
_MAX_BYTES = 16 << 20  # of all folders together
_INSTRUCTIONS = "model_instructions_file"
DENIED_KEYS = (
    # where data and keys are sent
    "openai_base_url", "chatgpt_base_url", "model_provider", "model_providers", "oss_provider",
    "fallback", "login",
    "experimental_realtime_ws_base_url", "otel", "analytics", "feedback", "log_dir", "sqlite_home",
    "history", "cli_auth_credentials_store", "mcp_oauth_credentials_store",
    "mcp_oauth_callback_port", "mcp_oauth_callback_url", "forced_login_method",
    "forced_chatgpt_workspace_id", "experimental_compact_prompt_file",
    # which programs are started, and who reviews
    "notify", "auto_review", "zsh_path", "js_repl_node_path", "js_repl_node_module_dirs",
    # which layers and projects count
    "profile", "profiles", "projects", "project_root_markers", "marketplaces",
    # which machines get the project
    "hosts",
)  # fmt: skip

DENIED_INNER_KEYS = (("agents", "providers"), ("skills", "projects"), ("isolation", "prepare"))


class ProjectFolder(Value):
    """One `.swarm` folder as it was read."""

    folder: str  # canonical path of the folder that holds `.swarm`
    root: str  # of the project; canonical
    files: dict[str, bytes] = {}  # by absolute path, or as the configuration names it
    digest: str = ""
    problem: str = ""  # why it could not be read completely; such a folder cannot be trusted
    left_out: tuple[str, ...] = ()  # links that are not followed, and why
    # of a plugin: what a person is shown, for its files are read by its own loader
    title: str = ""
    described: tuple[str, ...] = ()

    @property
    def asks_for_trust(self) -> bool:
        """False: nothing was read here; there are only links that are left out."""
        return bool(self.files or self.problem)

    @property
    def config_file(self) -> Path:
        return Path(self.folder, PROJECT_FOLDER, "config.toml")

    @property
    def mcp_file(self) -> Path:
        return Path(self.folder, MCP_FILE)

    def files_by_name(self) -> dict[str, bytes]:
        """The files by their path relative to `.swarm`, sorted."""
        own, base = f"{self.folder}/", f"{self.config_file.parent}/"

        def name_of(path: str) -> str:
            if path.startswith(base):
                return path.removeprefix(base)
            if path.startswith(own):
                return f"../{path.removeprefix(own)}"
            return os.path.relpath(path, base)

        return {name_of(path): self.files[path] for path in sorted(self.files)}


DecideTrust = Callable[[Sequence[ProjectFolder]], Sequence[str]]
# For each folder the reason why it is ignored; "" if it is used.


def project_layers(
    cwd: Path, below: Toml, *, config_folder: Path, decide: DecideTrust
) -> tuple[Layer, ...]:
    """The project's layers from its root to `cwd`, the nearest last.

    Args:
        cwd: The agents' working folder.
        below: The merged layers below the project, including flags; it names the root's markers.
        config_folder: The person's own folder; never treated as a project's.
        decide: Called once, with all folders.

    Raises:
        UsageError: `project_root_markers` is no array of strings.
    """
    folders = read_project_folders(cwd, project_root_markers(below), config_folder=config_folder)
    decided = [one for one in folders if one.asks_for_trust]
    reasons = dict(zip(map(id, decided), decide(decided) if decided else (), strict=True))
    layers = (_layer(one, ignored=reasons.get(id(one), "")) for one in folders)
    return tuple(without_known_servers(layer, below) for layer in layers)


def project_root_markers(below: Toml) -> tuple[str, ...]:
    """The names that mark a project's root. Raises UsageError unless they are strings."""
    given = below.get("project_root_markers")
    if given is None:
        return Config().project_root_markers
    if not is_list(given) or not all(isinstance(one, str) for one in given):
        raise UsageError("project_root_markers must be an array of strings")
    return tuple(str(one) for one in given)


def read_project_folders(
    cwd: Path, markers: Sequence[str], *, config_folder: Path
) -> tuple[ProjectFolder, ...]:
    """Every `.swarm` folder with relevant files between the project's root and `cwd`."""
    real = Path(os.path.realpath(cwd))
    own = os.path.realpath(config_folder)
    try:
        root = find_project_root(real, markers)
    except OSError:
        root = real
    chain = [folder for folder in reversed((real, *real.parents)) if folder.is_relative_to(root)]
    found: list[ProjectFolder] = []
    left = _MAX_BYTES
    for folder in chain:
        inner = folder / PROJECT_FOLDER
        is_project = os.path.realpath(inner) != own
        reads_config = is_project and (_is_folder(inner) or os.path.lexists(folder / MCP_FILE))
        parts = (has_skill_folder, has_hook_file, has_markdown_folder)
        if not reads_config and not any(has_part(folder) for has_part in parts):
            continue
        one = _read_folder(folder, str(root), limit_bytes=left, reads_config=reads_config)
        if len(found) == MAX_FOLDERS:
            one = msgspec.structs.replace(
                one, files={}, problem=f"there are more than {MAX_FOLDERS} such folders"
            )
        left -= sum(map(len, one.files.values()))
        if one.files or one.problem or one.left_out:
            found.append(one)
        if len(found) > MAX_FOLDERS:
            break
    return tuple(found)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _read_folder(folder: Path, root: str, *, limit_bytes: int, reads_config: bool) -> ProjectFolder:
    files: dict[str, bytes] = {}
    blank = ProjectFolder(folder=str(folder), root=root)
    links = ProjectLinks(root)
    try:
        files.update(read_project_skills(folder, links))
        files.update(read_hook_files(folder, root))
        files.update(read_project_markdown(folder, links))
        inner = folder / PROJECT_FOLDER
        for path, limit in _config_files(inner, links) if reads_config else ():
            files[str(path)] = read_bounded(path, limit_bytes=limit)
        for name in _referenced(folder / PROJECT_FOLDER, files):
            if name not in files:
                files[name] = _read_referenced(Path(name), root)
        config = str(folder / PROJECT_FOLDER / "config.toml")
        table = _values(Path(config), files.get(config)).get("hooks")
        files.update(read_scripts(folder, files, table))
        if sum(map(len, files.values())) > limit_bytes:
            raise UsageError(f"{folder / PROJECT_FOLDER}: over {_MAX_BYTES >> 20} MiB in all")
    except (UsageError, OSError) as error:
        return msgspec.structs.replace(blank, problem=str(error))
    whole = msgspec.structs.replace(blank, files=files, left_out=tuple(links.left_out))
    return msgspec.structs.replace(whole, digest=_digest(whole))


def _config_files(inner: Path, links: ProjectLinks) -> Iterator[tuple[Path, int]]:
    """(file, size limit) of all relevant files. Raises UsageError if there are too many entries."""
    if os.path.lexists(inner.parent / MCP_FILE):
        yield inner.parent / MCP_FILE, FILE_BYTES
    if os.path.lexists(inner / "config.toml"):
        yield inner / "config.toml", FILE_BYTES
    seen = 0
    for top, suffix in (("rules", ".rules"), ("agents", ".toml")):
        for place, folders, names in os.walk(inner / top):
            seen += len(names) + len(folders)
            if seen > _MAX_ENTRIES:
                raise UsageError(f"{inner / top}: more than {_MAX_ENTRIES} entries")
            folders[:] = sorted(folders) if top == "agents" else []
            for name in folders:
                if Path(linked := str(Path(place, name))).is_symlink():
                    links.leave_out(linked, "role files (.toml) are read through no linked folder")
            for name in sorted(names):
                if name.endswith(suffix):
                    yield Path(place, name), 256 << 10


def _referenced(inner: Path, files: dict[str, bytes]) -> Iterator[str]:
    """Files named by the given files: declared roles, instructions of the run and of roles."""
    config = str(inner / "config.toml")
    values = _values(Path(config), files.get(config))
    yield from _named(values, _INSTRUCTIONS)
    roles = [path for path in files if path.endswith(".toml") and path != config]
    for table in as_table(values.get("agents")).values():
        for name in _named(as_table(table), "config_file"):
            yield name
            roles.append(name)
    if len(roles) > _MAX_FILES:
        raise UsageError(f"{inner}: more than {_MAX_FILES} files")
    for path in dict.fromkeys(roles):
        yield from _named(_values(Path(path), files.get(path)), _INSTRUCTIONS)


def _read_referenced(path: Path, root: str) -> bytes:
    """Read a file whose text goes to a model; it must lie inside the project."""
    if "\0" in str(path) or not Path(os.path.realpath(path)).is_relative_to(root):
        raise UsageError(f"{str(path)!r}: the configuration names a file outside of the project")
    try:
        return read_bounded(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"{path}: the configuration names it, but there is no such file"
        ) from error


def _named(table: Toml, key: str) -> Iterator[str]:
    if isinstance(name := table.get(key), str):
        yield name


def _values(path: Path, data: bytes | None) -> Toml:
    """The file's values; empty if it cannot be read (its layer reports why)."""
    try:
        if data is not None:
            return absolute_paths(parse_toml(decode_text(data, path), path), path.parent)
    except UsageError:
        pass
    return {}


def _digest(one: ProjectFolder) -> str:
    """Hash of the names and contents of all files; equal in every copy of the project."""
    import hashlib  # most folders have no project configuration

    hasher = hashlib.sha256(b"swarm project configuration 1\0")
    for name, data in one.files_by_name().items():
        label = os.fsencode(name)
        hasher.update(b"%d %d\0" % (len(label), len(data)) + label + data)
    return hasher.hexdigest()


def _layer(one: ProjectFolder, *, ignored: str) -> Layer:
    path = one.config_file
    data = one.files.get(str(path))
    own = f"{path.parent}/"
    has_config = any(name.startswith(own) for name in one.files)
    source = str(path) if has_config or one.problem else one.folder
    layer = Layer(
        name="project", source=source, ignored=ignored, exists=data is not None,
        files={} if ignored else one.files, project_folder=one.folder,
        warnings=() if ignored else one.left_out,
    )  # fmt: skip
    if ignored or not {str(path), str(one.mcp_file)} & one.files.keys():
        return layer
    try:
        text = "" if data is None else decode_text(data, path)
        values = absolute_paths(parse_toml(text, path), path.parent)
    except UsageError as error:
        return msgspec.structs.replace(layer, broken=str(error))
    servers = _mcp_servers(one)
    if servers.servers:
        named = absolute_paths({"mcp_servers": servers.servers}, Path(one.folder))
        values = merge_tables(named, values)
    kept = {key: value for key, value in values.items() if key not in DENIED_KEYS}
    for name, inner in DENIED_INNER_KEYS:
        if is_table(table := kept.get(name)):
            kept[name] = {key: value for key, value in table.items() if key != inner}
    layer = msgspec.structs.replace(layer, values=kept, text=text)
    warnings = (
        *layer.warnings,
        *folder_warnings(path.parent),
        *servers.problems,
        *_denied(layer, values),
    )
    return msgspec.structs.replace(layer, warnings=warnings)


def _mcp_servers(one: ProjectFolder) -> McpFile:
    """The servers of the folder's `.mcp.json`; what is wrong with it costs no more than them."""
    data = one.files.get(str(one.mcp_file))
    if data is None:
        return McpFile()
    try:
        file = read_mcp_file(data, str(one.mcp_file))
    except UsageError as error:
        return McpFile(problems=(f"{error}; its servers are left out",))
    told = tuple(f"{problem}; this server is left out" for problem in file.problems)
    return msgspec.structs.replace(file, problems=told)


def _denied(layer: Layer, values: Toml) -> Iterator[str]:
    names = [key for key in values if key in DENIED_KEYS]
    names += [
        f"{name}.{inner}"
        for name, inner in DENIED_INNER_KEYS
        if inner in as_table(values.get(name))
    ]
    if not names:
        return
    place = find_key_position(layer, tuple(names[0].split(".")))
    line = f", line {place.line}" if place else ""
    yield (
        f"{layer.source}{line}: a project may not set {', '.join(names)}: ignored. "
        "Set it in your own configuration if you want it"
    )
