"""Configuration from its files: read, checked layer by layer, merged, typed.

Rule: an error names file, line and key; an unknown key is a warning (an error with
`--strict-config`); a project's own file counts for nothing until it can be trusted.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypeGuard, TypeVar

import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.base import Value

from .merge import Layer, Merged, as_table, is_table, merge_layers
from .schema import (
    CODEX_INNER_KEYS,
    CODEX_KEYS,
    RESERVED_PROVIDERS,
    AgentsTable,
    Config,
    ProviderTable,
    RoleTable,
    Toml,
)

SYSTEM_FILE = Path("/etc/swarm/config.toml")
_FILE_BYTES = 1 << 20
_PATH_KEYS = ("model_instructions_file",)
_T = TypeVar("_T", bound=msgspec.Struct)
_AT = re.compile(r" - at `\$\.?([^`]*)`")


class Loaded(Value):
    """Everything the files and the caller's layers say."""

    layers: tuple[Layer, ...]
    merged: Merged
    config: Config
    warnings: tuple[str, ...] = ()


def read_layers(
    *, config_folder: Path, cwd: Path, profile: str | None = None, system_file: Path = SYSTEM_FILE
) -> tuple[Layer, ...]:
    """The file layers, lowest first: system, user, profile, and the project's (ignored for now).

    Raises UsageError for a file that is no TOML, or a profile that does not exist.
    """
    layers = [
        read_layer("system", system_file),
        read_layer("user", config_folder / "config.toml"),
    ]
    if profile is not None:
        if not re.fullmatch(r"[\w-]+", profile):
            raise UsageError(f"a profile's name has only letters, digits, - and _: {profile!r}")
        chosen = read_layer("profile", config_folder / f"{profile}.config.toml")
        if not chosen.exists:
            raise UsageError(f"config profile `{profile}` not found: {chosen.source} is missing")
        layers.append(chosen)
    layers.extend(_project_layers(cwd, config_folder))
    return tuple(layers)


def _project_layers(cwd: Path, config_folder: Path) -> Iterator[Layer]:
    for folder in reversed((cwd, *cwd.parents)):
        path = folder / ".swarm" / "config.toml"
        if path.is_file() and path.parent != config_folder:
            why = "project configuration is not obeyed yet: it needs trust in the project"
            yield Layer(name="project", source=str(path), ignored=why)


def read_layer(name: str, path: Path) -> Layer:
    """One file as a layer, its relative paths made absolute; a missing file is an empty layer."""
    try:
        if path.stat().st_size > _FILE_BYTES:
            raise UsageError(f"{path}: over 1 MiB; this is no configuration")
        text = path.read_bytes().decode("utf-8-sig")
        values = tomllib.loads(text)
    except FileNotFoundError:
        return Layer(name=name, source=str(path), exists=False)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    return Layer(name=name, source=str(path), values=absolute_paths(values, path.parent))


def absolute_paths(values: Toml, folder: Path) -> Toml:
    """The table with every path-typed key resolved against the layer's own folder."""
    fixed = dict(values)
    for key in _PATH_KEYS:
        if isinstance(path := fixed.get(key), str):
            fixed[key] = _absolute(path, folder)
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
    return fixed


def is_list(value: object) -> TypeGuard[list[object]]:
    """True for an array."""
    return isinstance(value, list)


def _absolute(path: str, folder: Path) -> str:
    spread = Path(path).expanduser() if path.startswith("~") else Path(path)
    return str(spread if spread.is_absolute() else folder / spread)


def load_config(layers: Sequence[Layer], *, strict: bool = False) -> Loaded:
    """Check every layer that counts, merge them, and give the result its types.

    Raises:
        UsageError: A value of the wrong type, a rule broken, or with `strict` an unknown key;
            names the layer, its line where there is one, and the key.
    """
    warnings: list[str] = []
    for layer in layers:
        if layer.ignored:
            warnings.append(f"{layer.source}: {layer.ignored}")
            continue
        check_layer(layer)
        for complaint in unknown_keys(layer):
            if strict:
                raise UsageError(complaint)
            warnings.append(complaint)
    merged = merge_layers(layers)
    try:
        config = msgspec.convert(merged.values, Config)
    except msgspec.ValidationError as error:
        raise UsageError(f"the configuration as a whole: {error}") from error
    return Loaded(layers=tuple(layers), merged=merged, config=config, warnings=tuple(warnings))


def check_layer(layer: Layer) -> None:
    """Raises UsageError for a value that cannot be."""
    values = layer.values
    if isinstance(values.get("profile"), str):
        name = values["profile"]
        raise UsageError(
            f'{where(layer, "profile")}: `profile = "{name}"` is not supported; use '
            f"`--profile {name}` with {name}.config.toml beside config.toml"
        )
    providers = as_table(values.get("model_providers"))
    tables = {name: _typed(layer, f"model_providers.{name}", table, ProviderTable)
              for name, table in providers.items()}  # fmt: skip
    agents = as_table(values.get("agents"))
    for name, role in agents.items():
        if name not in AgentsTable.__struct_fields__ and is_table(role):
            _typed(layer, f"agents.{name}", role, RoleTable)
    fixed = _typed(layer, "agents", agents, AgentsTable)
    _typed(layer, "", values, Config)
    for key in ("max_threads", "max_depth", "max_total"):
        number = getattr(fixed, key)
        if number is not None and number < 0:
            raise UsageError(f"{where(layer, f'agents.{key}')}: must not be negative")
    for name, provider in tables.items():
        _check_provider(layer, name, provider)


def _typed(layer: Layer, prefix: str, table: object, kind: type[_T]) -> _T:
    """The table as its struct. Raises UsageError with file, line and key."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(explain(layer, error, prefix)) from error


def _check_provider(layer: Layer, name: str, provider: ProviderTable) -> None:
    place = where(layer, f"model_providers.{name}")
    if name in RESERVED_PROVIDERS:
        raise UsageError(
            f"{place}: built-in providers cannot be redefined; rename it, for example to "
            f"{name}-custom"
        )
    for key in ("request_max_retries", "stream_max_retries", "stream_idle_timeout_ms"):
        if getattr(provider, key) < 0:
            raise UsageError(f"{place}.{key}: must not be negative")


def explain(layer: Layer, error: msgspec.ValidationError, prefix: str) -> str:
    """msgspec's sentence with file, line and key put first."""
    text = str(error)
    found = _AT.search(text)
    key = ".".join(part for part in (prefix, found[1] if found else "") if part)
    return f"{where(layer, key)}: {text[: found.start()] if found else text}"


def where(layer: Layer, key: str) -> str:
    """`FILE, line N, KEY`, as far as it is known."""
    if not layer.source:
        return f"{layer.name}, {key}"
    line = line_of(layer.source, key)
    return f"{layer.source}, line {line}, {key}" if line else f"{layer.source}, {key}"


def line_of(source: str, key: str) -> int | None:
    """The first line that could set this key. TOML readers keep no places, so it is a search."""
    steps = [step for step in re.split(r"\.|\[.*?\]", key) if step]
    try:
        lines = Path(source).read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    table = ".".join(steps[:-1])
    inside = not table
    fallback = None
    for number, line in enumerate(lines, 1):
        bare = line.split("#")[0].strip().replace('"', "").replace("'", "").replace(" ", "")
        if bare.startswith("["):
            name = bare.strip("[]")
            inside = name == table
            if name == key.replace('"', ""):
                return number
        elif bare.startswith(f"{'.'.join(steps)}=") or (
            inside and bare.startswith(f"{steps[-1]}=")
        ):
            return number
        elif steps and bare.startswith(f"{steps[0]}=") and fallback is None:
            fallback = number
    return fallback


def unknown_keys(layer: Layer) -> Iterator[str]:
    """One sentence for each key that neither we nor Codex know."""
    known = (*Config.__struct_fields__, *CODEX_KEYS)
    for key, value in layer.values.items():
        if key not in known:
            yield _unknown(layer, key, known)
        elif key == "model_providers":
            for name, table in as_table(value).items():
                yield from _unknown_in(layer, f"{key}.{name}", table, ProviderTable)
        elif key == "agents":
            for name, table in as_table(value).items():
                if is_table(table):
                    yield from _unknown_in(layer, f"{key}.{name}", table, RoleTable)
                elif name not in AgentsTable.__struct_fields__ and (
                    f"agents.{name}" not in CODEX_INNER_KEYS
                ):
                    yield _unknown(layer, f"agents.{name}", AgentsTable.__struct_fields__)
        elif is_table(value) and key in Config.__struct_fields__:
            default = getattr(Config(), key)
            if isinstance(default, msgspec.Struct):
                yield from _unknown_in(layer, key, value, type(default))


def _unknown_in(
    layer: Layer, prefix: str, table: object, known: type[msgspec.Struct]
) -> Iterator[str]:
    for key in as_table(table):
        if key not in known.__struct_fields__:
            yield _unknown(layer, f"{prefix}.{key}", known.__struct_fields__)


def _unknown(layer: Layer, key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key.rpartition(".")[2], known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"{where(layer, key)}: unknown key{hint}"
