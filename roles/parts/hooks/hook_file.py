"""Reads hooks from JSON and tables: Codex's `hooks.json` and `[hooks]`, Claude's `settings.json`.

A file that is no hook file is an error with file and line. An entry that swarm cannot run is left
out with a warning that names it, so that nobody relies on a hook that does nothing.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import TypeGuard, cast, get_args

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import read_written_json
from swarm.mailbox.protocol.hooks import Hook, HookEvent, HookForm
from swarm.mailbox.protocol.values.base import Value

from .hook_entry import EntryKind, read_entry
from .hook_output import CALL_GATES

EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)
OWN_NAMES: dict[str, HookEvent] = {"AgentSpawn": "SubagentStart", "AgentEnd": "SubagentStop"}
_NOT_RUN = (
    "PostToolBatch "
    "PermissionDenied StopFailure TaskCreated TaskCompleted TeammateIdle ConfigChange CwdChanged "
    "FileChanged InstructionsLoaded WorktreeCreate WorktreeRemove Elicitation ElicitationResult "
    "Setup UserPromptExpansion"
)
ABSENT_EVENTS = frozenset(_NOT_RUN.split())  # of either product
WITHOUT_MATCHER = frozenset({"UserPromptSubmit", "Stop", "Interrupt", "MergeConflict"})
STATE_KEY = "state"  # `[hooks.state.ID] enabled = false`
MAX_HOOKS = 200  # of one file
_MAX_MATCHER = 500
_PLAIN_NAMES = re.compile(r"[A-Za-z0-9_|-]+")


class HookFile(Value):
    """The hooks of one source, in its order, and a line for each entry that is left out."""

    hooks: tuple[Hook, ...] = ()
    warnings: tuple[str, ...] = ()


def read_hook_json(data: bytes, source: str, *, form: HookForm) -> HookFile:
    """Parse one file.

    Raises UsageError with file and line: it is no JSON object, or its shape is not that of hooks.
    """
    root = read_written_json(data, source, object)
    if not _is_object(root):
        raise UsageError(f"{source}: must be a JSON object with the key `hooks`")
    warnings = [
        f"{source}: the key {key!r} is not known here and has no effect"
        for key in root
        if form == "codex" and key not in ("description", "hooks", "$schema")
    ]
    read = read_hook_table(root.get("hooks", {}), source, form=form)
    return HookFile(hooks=read.hooks, warnings=(*warnings, *read.warnings))


def names_hooks(data: bytes) -> bool:
    """True if Claude's settings file has hooks, or cannot be read."""
    try:
        root = read_written_json(data, "", object)
    except UsageError:
        return True
    return not _is_object(root) or bool(root.get("hooks"))


def read_hook_table(table: object, source: str, *, form: HookForm) -> HookFile:
    """Read the table of events. Raises UsageError: its shape is not that of hooks."""
    if not _is_object(table):
        raise UsageError(f"{source}: `hooks` must be a table of events")
    hooks: list[Hook] = []
    warnings: list[str] = []
    for name, groups in table.items():
        if name == STATE_KEY:
            continue
        event = OWN_NAMES.get(name, name)
        if event not in EVENTS:
            why = "is not run here" if name in ABSENT_EVENTS else "is not an event that swarm knows"
            warnings.append(f"{source}: hooks.{name} {why}; its hooks are left out")
            continue
        for place, group in _items(groups, f"{source}: hooks.{name}"):
            hooks += _group(group, event, form, _Place(source, place, warnings))
    if len(hooks) > MAX_HOOKS:
        raise UsageError(f"{source}: more than {MAX_HOOKS} hooks")
    order = {event: number for number, event in enumerate(EVENTS)}
    hooks.sort(key=lambda hook: order[hook.event])
    return HookFile(hooks=tuple(hooks), warnings=tuple(warnings))


def disabled_hooks(table: object) -> frozenset[str]:
    """Ids that `[hooks.state.ID] enabled = false` switches off."""
    state = table.get(STATE_KEY) if _is_object(table) else None
    entries = state if _is_object(state) else {}
    return frozenset(
        name
        for name, entry in entries.items()
        if _is_object(entry) and entry.get("enabled") is False
    )


class _Place:
    """Where an entry is, and where what is left out of it is said."""

    def __init__(self, source: str, text: str, warnings: list[str]) -> None:
        self.source, self.text, self._warnings = source, text, warnings

    def warn(self, problem: str) -> None:
        self._warnings.append(f"{self.text}: {problem}")

    def warn_of(self, part: str, problem: str) -> None:
        self.warn(f"{part} {problem}")


def _group(group: object, event: HookEvent, form: HookForm, place: _Place) -> Iterator[Hook]:
    if not _is_object(group):
        raise UsageError(f"{place.text}: must be a table with `hooks`")
    matcher = group.get("matcher") or ""
    if not isinstance(matcher, str) or len(matcher) > _MAX_MATCHER:
        raise UsageError(f"{place.text}: `matcher` must be a text of at most {_MAX_MATCHER} signs")
    pattern = "" if event in WITHOUT_MATCHER else _pattern(matcher, form)
    try:
        re.compile(pattern)
    except re.error as error:
        why = f"the matcher {matcher!r} is not a regular expression ({error})"
        if event not in CALL_GATES:
            place.warn(f"{why}; left out")
            return
        place.warn(f"{why}; its hooks run for every call")
        pattern = ""
    for where, entry in _items(group.get("hooks", []), f"{place.text}.hooks"):
        if not _is_object(entry):
            raise UsageError(f"{where}: must be a table with `type` and `command`")
        warn = partial(place.warn_of, where.removeprefix(f"{place.text}."))
        hook = read_entry(entry, EntryKind(event, form, pattern), place.source, where, warn)
        if hook is not None:
            yield hook


def _pattern(matcher: str, form: HookForm) -> str:
    """The regular expression to search; Claude's plain names mean the whole name."""
    if matcher in ("", "*"):
        return ""
    if form == "claude" and _PLAIN_NAMES.fullmatch(matcher):
        return rf"^(?:{matcher})$"
    return matcher


def _items(value: object, place: str) -> Iterator[tuple[str, object]]:
    if not isinstance(value, list):
        raise UsageError(f"{place}: must be an array")
    for number, item in enumerate(cast("list[object]", value)):
        yield f"{place}[{number}]", item


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)
