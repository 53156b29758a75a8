"""Loads the configuration: reads the files, checks each layer, merges them, converts to types.

An error names file, line and key. An unknown key is a warning (an error with `--strict-config`). An
unreadable file stops a run, but not `doctor` and `config`.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.base import Value

from ..file_reading import decode_text, folder_warnings, parse_toml, read_bounded
from ..key_positions import KeyPath
from ..schema import Config
from ..validation_words import explain_conversion
from .layer_check import check_layer, describe_place, idle_keys, unknown_keys
from .layer_paths import absolute_paths
from .merge import Layer, MergedConfig, ValueOrigin, merge_layers
from .requirements import NO_REQUIREMENTS, Requirements, apply_requirements
from .requirements import REQUIREMENTS_FILE as REQUIREMENTS

SYSTEM_FOLDER = Path("/etc/swarm")


class LoadedConfig(Value):
    """The result of all files and of the caller's layers."""

    layers: tuple[Layer, ...]
    merged: MergedConfig
    config: Config
    requirements: Requirements = NO_REQUIREMENTS  # already applied to `merged` and `config`
    warnings: tuple[str, ...] = ()
    # only if lenient: why no run would start; the faulty layers are left out
    problems: tuple[str, ...] = ()

    def trusted_file(self, path: str) -> bytes | None:
        """The content, as read, of a file named by a trusted project's configuration; else None."""
        for layer in self.layers:
            if layer.files is not None and path in layer.files:
                return layer.files[path]
        return None


def read_layers(
    *,
    config_folder: Path,
    profile: str | None = None,
    system_folders: Sequence[Path] = (SYSTEM_FOLDER,),
) -> tuple[Layer, ...]:
    """The file layers below a project's, lowest first: system, user, profile.

    An unreadable file becomes a layer with `broken` set and no values.
    Raises UsageError for a profile that does not exist.
    """
    layers = [read_layer("system", folder / "config.toml") for folder in system_folders]
    layers.append(read_layer("user", config_folder / "config.toml"))
    if profile is not None:
        if not re.fullmatch(r"[\w-]+", profile):
            raise UsageError(f"a profile's name has only letters, digits, - and _: {profile!r}")
        chosen = read_layer("profile", config_folder / f"{profile}.config.toml")
        if not chosen.exists:
            raise UsageError(f"config profile `{profile}` not found: {chosen.source} is missing")
        layers.append(chosen)
    return tuple(layers)


def read_layer(name: str, path: Path) -> Layer:
    """One file as a layer, relative paths made absolute; a missing file gives an empty layer."""
    blank = Layer(name=name, source=str(path), warnings=folder_warnings(path.parent))
    try:
        text = decode_text(read_bounded(path), path)
        values = absolute_paths(parse_toml(text, path), path.parent)
    except FileNotFoundError:
        return msgspec.structs.replace(blank, exists=False)
    except UsageError as error:
        return msgspec.structs.replace(blank, broken=str(error))
    return msgspec.structs.replace(blank, values=values, text=text)


def read_requirements(system_folders: Sequence[Path] = (SYSTEM_FOLDER,)) -> Requirements:
    """The administrator's requirements; `broken` is set if they cannot be read."""
    found = NO_REQUIREMENTS
    for folder in system_folders:
        try:
            data = read_bounded(folder / REQUIREMENTS)
            from .requirements_file import fill_unset, read_requirements_file

            found = fill_unset(found, read_requirements_file(folder / REQUIREMENTS, data))
        except FileNotFoundError:
            continue
        except UsageError as error:
            return Requirements(broken=str(error))
    return found


def load_config(
    layers: Sequence[Layer],
    *,
    strict: bool = False,
    lenient: bool = False,
    requirements: Requirements = NO_REQUIREMENTS,
) -> LoadedConfig:
    """Check every active layer, merge the layers and convert the result to types.

    Args:
        layers: Lowest first.
        strict: Unknown keys and keys without effect are errors.
        lenient: A faulty layer is left out and reported in `problems`, for commands that show the
            configuration. No run may use such a result.
        requirements: Applied to the result.

    Raises:
        UsageError: Without `lenient`: an unreadable layer, a value of the wrong type, a violated
            rule between keys, with `strict` an unknown key or one without effect; it names file,
            line and key. Or a value that the requirements do not allow.
    """
    warnings: list[str] = []
    problems: list[str] = []
    counted: list[Layer] = []
    for layer in layers:
        warnings += layer.warnings
        try:
            checked, complaints = _check_layer(layer, strict=strict)
        except UsageError as error:
            if not lenient:
                raise
            problems.append(str(error))
            checked, complaints = msgspec.structs.replace(layer, ignored=str(error)), []
        counted.append(checked)
        warnings += complaints
    merged = merge_layers(counted)
    config = _typed(merged)
    if requirements != NO_REQUIREMENTS:
        try:
            place_of = _place_finder(counted, merged)
            merged = apply_requirements(merged, config, requirements, place_of)
        except UsageError as error:
            if not lenient:
                raise
            problems.append(str(error))
        config = _typed(merged)
    told = tuple(dict.fromkeys(warnings))
    return LoadedConfig(
        layers=tuple(counted), merged=merged, config=config, requirements=requirements,
        warnings=told, problems=tuple(problems),
    )  # fmt: skip


def _check_layer(layer: Layer, *, strict: bool) -> tuple[Layer, list[str]]:
    """The layer and its warnings. Raises UsageError."""
    if layer.ignored:
        place = layer.source if layer.exists else layer.project_folder or layer.source
        return layer, [f"{place}: {layer.ignored}"]
    if layer.broken:
        raise UsageError(layer.broken)
    check_layer(layer)
    complaints = [*unknown_keys(layer), *idle_keys(layer)]
    if strict and complaints:
        raise UsageError(complaints[0])
    return layer, complaints


def _typed(merged: MergedConfig) -> Config:
    try:
        return msgspec.convert(merged.values, Config)
    except msgspec.ValidationError as error:
        why = explain_conversion(error, Config)
        raise UsageError(f"the configuration as a whole: {why}") from error


def _place_finder(layers: Sequence[Layer], merged: MergedConfig) -> Callable[[KeyPath], str]:
    """A function that describes the place of an effective value."""

    def find(path: KeyPath) -> str:
        origin = merged.origin(path) or ValueOrigin(layer="the configuration")
        for layer in layers:
            if (layer.name, layer.source) == (origin.layer, origin.file):
                return describe_place(layer, path)
        return f"{origin.layer}, {'.'.join(path)}"

    return find
