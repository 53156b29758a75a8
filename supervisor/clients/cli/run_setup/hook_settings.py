"""The hooks of a run: of the machine, the person and trusted projects, in this order."""

from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.config.file_reading import read_bounded
from swarm.roles.config.layers.config_loader import SYSTEM_FOLDER, LoadedConfig
from swarm.roles.config.layers.merge import Layer
from swarm.roles.parts.hooks.hook_file import (
    HookFile,
    disabled_hooks,
    read_hook_json,
    read_hook_table,
)
from swarm.roles.parts.hooks.project_hooks import project_hooks

from .plugin_layers import PLUGIN_LAYERS

HOOK_FILE = "hooks.json"
_MOST_HOOKS = 500
MANAGED_LAYER = "system"


class RunHooks(Value):
    """The hooks that run, those that do not and why, and the warnings."""

    hooks: tuple[Hook, ...] = ()
    inactive: tuple[tuple[Hook, str], ...] = ()
    warnings: tuple[str, ...] = ()


def find_run_hooks(loaded: LoadedConfig, config_folder: Path) -> RunHooks:
    """All hooks that count here. Raises UsageError, with its place, for a bad file."""
    found: list[Hook] = []
    warnings: list[str] = []
    managed_only = loaded.requirements.managed_hooks_only
    for part in _sources(loaded, config_folder):
        found += part.hooks
        warnings += part.warnings
    if len(found) > _MOST_HOOKS:
        raise UsageError(f"there are {len(found)} hooks; at most {_MOST_HOOKS} can run")
    disabled: frozenset[str] = frozenset()
    for layer in loaded.layers:
        if layer.name != "project" and not layer.ignored:  # a project switches nothing off
            disabled |= disabled_hooks(layer.values.get("hooks"))
    active: dict[str, Hook] = {}
    inactive: list[tuple[Hook, str]] = []
    for hook in found:
        if hook.managed or (not managed_only and hook.hook_id not in disabled):
            active.setdefault(hook.hook_id, hook)
        else:
            why = "only managed hooks may run" if managed_only else "disabled"
            inactive.append((hook, why))
    left_out = [hook for hook, why in inactive if why != "disabled"]
    if left_out:
        place = loaded.requirements.place("allow_managed_hooks_only")
        warnings.append(f"{place}: only managed hooks may run; {len(left_out)} are left out")
    return RunHooks(
        hooks=tuple(active.values()), inactive=tuple(inactive), warnings=tuple(warnings)
    )


def _sources(loaded: LoadedConfig, config_folder: Path) -> list[HookFile]:
    """Every source, from the lowest layer to the highest."""
    parts: list[HookFile] = [_managed(_read_file(SYSTEM_FOLDER / HOOK_FILE))]
    own_file_read = False
    for layer in loaded.layers:
        if layer.ignored:
            continue
        if layer.name.startswith(PLUGIN_LAYERS):
            parts += [HookFile(hooks=layer.plugin.hooks)] if layer.plugin is not None else []
            continue
        if layer.name == "project":
            parts.append(_of_project(layer))
            continue
        if layer.name != MANAGED_LAYER and not own_file_read:
            own_file_read = True
            parts.append(_read_file(config_folder / HOOK_FILE))
        table = layer.values.get("hooks")
        if table:
            read = read_hook_table(table, layer.source or layer.name, form="codex")
            parts.append(_managed(read) if layer.name == MANAGED_LAYER else read)
    if not own_file_read:
        parts.append(_read_file(config_folder / HOOK_FILE))
    return parts


def _of_project(layer: Layer) -> HookFile:
    folder = layer.project_folder
    if not folder or layer.files is None:
        return HookFile()
    return project_hooks(Path(folder), layer.files, layer.values.get("hooks"))


def _read_file(path: Path) -> HookFile:
    try:
        data = read_bounded(path)
    except FileNotFoundError:
        return HookFile()
    return read_hook_json(data, str(path), form="codex")


def _managed(read: HookFile) -> HookFile:
    hooks = tuple(msgspec.structs.replace(hook, managed=True) for hook in read.hooks)
    return HookFile(hooks=hooks, warnings=read.warnings)
