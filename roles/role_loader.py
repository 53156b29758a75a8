"""Loads roles: built in, declared in a config file, or found in an `agents/` folder.

A faulty role file affects only agents that request that role; they get the reason. A role with a
setting that cannot be enforced is faulty.
"""

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.mailbox.protocol.spec import RoleCard
from swarm.mailbox.protocol.values.base import Value

from .agent_files.agent_roles import layer_agent_files, model_aliases, read_agent_roles
from .config.file_reading import decode_text, parse_toml, read_bounded
from .config.layers.layer_check import check_tools, explain_error
from .config.layers.layer_paths import absolute_paths
from .config.layers.merge import Layer, as_table, is_table
from .config.layers.requirements import NO_REQUIREMENTS, Requirements, role_refusal
from .config.schema import AgentsTable, RoleTable
from .markdown.markdown_discovery import FoundMarkdown
from .parts.plugins.plugin_choice import brought_plugins, with_plugin_choice
from .rights.role import Role, RoleFile, fill_missing, merge_sampling, role_from_file
from .rights.role_layer import obeyed_keys

REVIEW_ROLE = "code-reviewer"
_HERE = Path(__file__).parent
_FILE_BYTES = 256 << 10
_MAX_FILES = 500
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,63}\Z")
_NICKNAME = re.compile(r"[A-Za-z0-9 _-]+\Z")
_ReadFile = Callable[[Path], bytes]  # raises UsageError


class Roles(Value):
    """All roles by name; `broken` says why others cannot be used."""

    known: dict[str, Role] = {}
    broken: dict[str, str] = {}
    warnings: tuple[str, ...] = ()

    def cards(self, *, with_copies: bool) -> tuple[RoleCard, ...]:
        """The roles, as agents that may start others see them: the person's, then built-in ones.

        Built-in ones that merge are only of use in a run `with_copies`.
        """
        mine = [role for role in self.known.values() if role.source != "built-in"]
        ours = [
            role
            for role in self.known.values()
            if role.source == "built-in" and (with_copies or not role.merges)
        ]
        return tuple(
            RoleCard(
                name=role.name,
                description=role.description,
                model=role.model,
                provider=role.model_provider,
                effort=role.effort,
            )
            for role in (*mine, *ours)
            if role.name != "guardian"
        )


class UnusableRole(UsageError):
    """A role file is invalid, or sets something that cannot be enforced."""


def load_roles(layers: Sequence[Layer], required: Requirements = NO_REQUIREMENTS) -> Roles:
    """Built-in roles, then those of each layer, lowest first; a higher layer's role wins.

    A layer's declared roles (`[agents.NAME]`) come before the files in `agents/` beside it, those
    before Markdown files. A role that the requirements do not allow cannot be used.
    """
    loading = _Loading({role.name: role for role in _built_in()}, model_aliases(layers))
    for layer in layers:
        if not layer.ignored:
            seen = loading.add_layer(layer)
            loading.add_files(layer_agent_files(layer), layer.source, seen)
    loaded = loading.result()
    brought, warnings = brought_plugins(layers), list(loaded.warnings)
    known = {
        name: with_plugin_choice(role, brought, warnings) for name, role in loaded.known.items()
    }
    loaded = msgspec.structs.replace(loaded, known=known, warnings=tuple(warnings))
    return apply_role_requirements(loaded, required)


class _Loading:
    """Roles while they are loaded. `known`: those of lower layers."""

    def __init__(self, known: dict[str, Role], aliases: Mapping[str, str]) -> None:
        self._known, self._aliases = known, aliases
        self._broken: dict[str, str] = {}
        self._faults: dict[str, str] = {}  # of Markdown files: they hide no role of their name
        self._warnings: list[str] = []

    def add_layer(self, layer: Layer) -> set[str]:
        """Add the roles of TOML; return their names."""
        seen: set[str] = set()
        for name, role in _layer_roles(layer, self._known):
            if name in seen:
                self._warnings.append(f"duplicate agent role name `{name}` in {layer.source}")
                continue
            seen.add(name)
            if isinstance(role, str):
                self._broken[name] = role
            else:
                self._add(name, role)
        return seen

    def add_files(
        self, files: Iterable[FoundMarkdown], source: str, seen: Collection[str] = ()
    ) -> None:
        """Add the roles of Markdown files, but those whose name the same layer has already."""
        read = read_agent_roles(files, self._aliases)
        self._faults |= read.faults
        names = set(seen)
        for role in read.roles:
            if role.name in names:
                where = source if role.name in seen else role.source
                self._warnings.append(f"duplicate agent role name `{role.name}` in {where}")
                continue
            names.add(role.name)
            self._add(role.name, role)

    def _add(self, name: str, role: Role) -> None:
        low = self._known.get(name)
        role = fill_missing(role, low) if low is not None else role
        if not role.description:
            self._broken[name] = f"{role.source}: agent role `{name}` must define a description"
            return
        self._known[name] = role
        self._broken.pop(name, None)
        self._warnings += () if role.is_agent_file else role.warnings

    def result(self) -> Roles:
        """All that was added; a broken role does not fall back to the built-in of that name."""
        known = {name: role for name, role in self._known.items() if name not in self._broken}
        faults = {name: why for name, why in self._faults.items() if name not in known}
        whys = [*self._broken.values(), *self._faults.values()]
        noted = [name for name, role in known.items() if role.is_agent_file and role.warnings]
        if noted:
            self._warnings.append(
                f"agent files: not all that they say holds here: {', '.join(sorted(noted))}; "
                "`swarm roles list` says what, with file and line"
            )
        malformed = [f"ignoring malformed agent role definition: {why}" for why in whys]
        return Roles(
            known=known, broken=faults | self._broken,
            warnings=tuple(dict.fromkeys((*self._warnings, *malformed))),
        )  # fmt: skip


def apply_review_model(roles: Roles, model: str | None) -> Roles:
    """Set `review_model` on the code review role, unless the role names a model."""
    role = roles.known.get(REVIEW_ROLE)
    if model is None or role is None or role.model is not None:
        return roles
    reviewing = msgspec.structs.replace(role, model=model)
    return msgspec.structs.replace(roles, known=roles.known | {REVIEW_ROLE: reviewing})


def apply_role_requirements(roles: Roles, required: Requirements) -> Roles:
    """The roles without those that the requirements do not allow.

    Built-in roles stay: they only set narrower limits. The reviewer's `never` is safe because it
    has no rights.
    """
    refused = {
        name: f"{role.source}: {why}"
        for name, role in roles.known.items()
        if role.source != "built-in"
        and (
            why := role_refusal(
                role.approval,
                role.sandbox_mode,
                role.model,
                required,
                provider=role.model_provider,
            )
        )
        is not None
    }
    if not refused:
        return roles
    known = {name: role for name, role in roles.known.items() if name not in refused}
    return msgspec.structs.replace(roles, known=known, broken=roles.broken | refused)


def find_role(roles: Roles, name: str) -> Role:
    """The role of this name. Raises UsageError if it is unknown (with a hint) or broken."""
    if name in roles.known:
        return roles.known[name]
    if name in roles.broken:
        raise UnusableRole(f"role `{name}` cannot be used: {roles.broken[name]}")
    near = get_close_matches(name, roles.known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else "."
    known = ", ".join(sorted(roles.known))
    raise UsageError(f"unknown role `{name}`{hint} Known roles: {known}")


def built_in_role(name: str) -> Role:
    """A role that comes with swarm."""
    return _read_role(_HERE / "data" / f"{name}.toml", _from_disk, source="built-in")


def _built_in() -> Iterator[Role]:
    for path in sorted((_HERE / "data").glob("*.toml")):
        yield _read_role(path, _from_disk, source="built-in")


def _from_disk(path: Path) -> bytes:
    try:
        return read_bounded(path, limit_bytes=_FILE_BYTES)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such file") from error


def _reader(layer: Layer) -> _ReadFile:
    """The reader for this layer's files: a project's files are never read again from disk."""
    files = layer.files
    if files is None:
        return _from_disk

    def read(path: Path) -> bytes:
        if str(path) not in files:
            raise UsageError(f"{path}: it is no part of what was trusted")
        return files[str(path)]

    return read


def _find_role_files(layer: Layer) -> list[Path]:
    """The role files beside the layer's configuration, sorted."""
    if not layer.source:
        return []
    folder = Path(layer.source).parent / "agents"
    if layer.files is not None:
        paths = [Path(name) for name in layer.files if name.startswith(f"{folder}{os.sep}")]
        return sorted(path for path in paths if path.suffix == ".toml")[:_MAX_FILES]
    try:
        return sorted(folder.rglob("*.toml"))[:_MAX_FILES] if folder.is_dir() else []
    except OSError:
        return []  # requesting one of these roles reports it as unknown


def _layer_roles(layer: Layer, known: Mapping[str, Role]) -> Iterator[tuple[str, Role | str]]:
    """(name, role or error text), declared roles first. `known`: those of lower layers."""
    read = _reader(layer)
    declared: set[Path] = set()
    for name, table in as_table(layer.values.get("agents")).items():
        if name in AgentsTable.__struct_fields__ or not is_table(table):
            continue
        try:
            given = _role_table(layer, name, table)
            if given.config_file is not None:
                declared.add(Path(given.config_file))
            role = _read_declared_role(layer, name, given, read, known.get(name))
        except UsageError as error:
            yield name, str(error)
        else:
            sets = role if given.config_file is not None else given
            yield role.name, _check_project_role(role, sets) if layer.files is not None else role
    for path in _find_role_files(layer):
        if path in declared:
            continue
        try:
            role = _read_role(path, read, source=str(path))
        except UsageError as error:
            yield path.stem, str(error)
        else:
            yield role.name, _check_project_role(role, role) if layer.files is not None else role


def _role_table(layer: Layer, name: str, table: object) -> RoleTable:
    try:
        return msgspec.convert(table, RoleTable)
    except msgspec.ValidationError as error:
        raise UnusableRole(explain_error(layer, error, ("agents", name), kind=RoleTable)) from error


def _check_project_role(role: Role, sets: Role | RoleTable) -> Role | str:
    """Refuse a project's role that names providers: it may not choose where data goes."""
    if sets.model_provider is None and sets.fallback is None:
        return role
    key = "fallback" if sets.model_provider is None else "model_provider"
    return f"{role.source}: a project's role may not set {key}"


def _read_declared_role(
    layer: Layer, name: str, table: RoleTable, read: _ReadFile, low: Role | None
) -> Role:
    """A table without a file refines the role `low` of that name, with its rights and texts."""
    if table.config_file is None:
        source = layer.source or layer.name
        own = Role(name=name)
        role = msgspec.structs.replace(low or own, source=source)
    else:
        path = Path(table.config_file)
        own = role = _read_role(path, read, source=str(path), name=name)
    return _check_names(
        msgspec.structs.replace(
            role,
            description=own.description or (table.description or "").strip() or role.description,
            nickname_candidates=(
                own.nickname_candidates or table.nickname_candidates or role.nickname_candidates
            ),
            model=table.model or role.model,
            model_provider=table.model_provider or role.model_provider,
            fallback=role.fallback if table.fallback is None else table.fallback,
            tools=role.tools.narrowed(table.tool_choice),
            prompt=table.prompt or role.prompt,
            sampling=merge_sampling(table.sampling, role.sampling),
        )
    )


def _read_role(path: Path, read: _ReadFile, *, source: str, name: str | None = None) -> Role:
    """Read one role file. `name` is the declared name; without it the file must set `name`."""
    file, warnings = _decode(path, read)
    if file.name is None and name is None:
        raise UnusableRole(f"{path}: a role file needs `name`")
    if name is None and source != "built-in" and not (file.developer_instructions or "").strip():
        raise UnusableRole(f"{path}: a role file needs `developer_instructions`")
    if file.developer_instructions is not None and not file.developer_instructions.strip():
        raise UnusableRole(f"{path}: developer_instructions must not be blank")
    if file.description is not None and not file.description.strip():
        raise UnusableRole(f"{path}: description must not be blank")
    if file.prompt_file is not None and source != "built-in":
        raise UnusableRole(
            f"{path}: `prompt_file` is for built-in roles; use developer_instructions"
        )
    role = role_from_file(file, name=file.name or name or "", source=source)
    instructions = role.developer_instructions
    if file.prompt_file is not None:
        instructions = _text(_HERE / "prompts" / file.prompt_file, read)
    base = _text(Path(file.model_instructions_file), read) if file.model_instructions_file else ""
    return _check_names(
        msgspec.structs.replace(
            role,
            developer_instructions=instructions,
            base_instructions=base,
            warnings=warnings,
        )
    )


def _decode(path: Path, read: _ReadFile) -> tuple[RoleFile, tuple[str, ...]]:
    """The file as a layer, and warnings. Raises UsageError with file, line and key."""
    text = decode_text(read(path), path)
    values = absolute_paths(parse_toml(text, path), path.parent)
    layer = Layer(name="role", source=str(path), values=values, text=text)
    obeyed, warnings = obeyed_keys(layer, RoleFile.__struct_fields__)
    try:
        file = msgspec.convert(obeyed, RoleFile)
    except msgspec.ValidationError as error:
        raise UnusableRole(explain_error(layer, error, kind=RoleFile)) from error
    check_tools(layer, (), file)
    return file, warnings


def _text(path: Path, read: _ReadFile) -> str:
    try:
        text = decode_written(read(path)).strip()
    except NotText as error:
        raise UnusableRole(f"failed to read model instructions file {path}, {error}") from error
    except UsageError as error:
        raise UnusableRole(f"failed to read model instructions file {error}") from error
    if not text:
        raise UnusableRole(f"failed to read model instructions file {path}: it is empty")
    return text


def _check_names(role: Role) -> Role:
    if not _NAME.match(role.name):
        raise UnusableRole(
            f"{role.source}: a role's name has letters, digits, blanks, - and _: {role.name!r}"
        )
    field = f"agents.{role.name}.nickname_candidates"
    names = [name.strip() for name in role.nickname_candidates]
    if not all(names):
        raise UnusableRole(f"{role.source}: {field} cannot contain blank names")
    if len(set(names)) != len(names):
        raise UnusableRole(f"{role.source}: {field} cannot contain duplicates")
    if not all(_NICKNAME.match(name) for name in names):
        raise UnusableRole(
            f"{role.source}: {field} may only contain ASCII letters, digits, spaces, hyphens, "
            "and underscores"
        )
    return msgspec.structs.replace(role, nickname_candidates=tuple(names))
