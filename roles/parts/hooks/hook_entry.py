"""Reads one handler of a hook file: what it runs, and when.

A handler that swarm cannot run as it is meant is left out with a warning that names it. One of
another shape than a handler is an error with its place.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeGuard, cast
from urllib.parse import urlsplit

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.hooks import (
    CommandHook,
    Hook,
    HookAction,
    HookEvent,
    HookForm,
    HttpHook,
    McpHook,
    PromptHook,
)

from .hook_condition import is_condition
from .hook_output import CALL_GATES

Json = Mapping[str, object]
TOOL_EVENTS = frozenset({"PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure"})
# Events at which a yes or a no of a model means something.
ANSWERED_EVENTS = frozenset({*TOOL_EVENTS, "UserPromptSubmit", "Stop", "SubagentStop"})
_MAX_COMMAND = 10_000
_MAX_ARGS = 200
_MAX_HEADERS = 30
_MAX_TIMEOUT_S = 24 * 3600.0
_TIMEOUTS_S = {"prompt": 30, "agent": 60}  # of the others 600
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding"})
_COMMON = "type timeout timeoutSec on_failure network may_allow statusMessage once async if"
# Keys that have their effect here, or that concern only another system.
_KEYS: dict[str, frozenset[str]] = {
    "command": frozenset(f"{_COMMON} command args shell commandWindows".split()),
    "http": frozenset(f"{_COMMON} url headers allowedEnvVars".split()),
    "mcp": frozenset(f"{_COMMON} server tool input".split()),
    "prompt": frozenset(f"{_COMMON} prompt".split()),
}
_TYPES = {"mcp_tool": "mcp", "agent": "prompt"}


class EntryKind(NamedTuple):
    """What a handler has of its group."""

    event: HookEvent
    form: HookForm
    pattern: str


class _LeftOut(Exception):
    """Why a handler does not run here."""


def read_entry(
    entry: Json, kind: EntryKind, source: str, where: str, warn: Callable[[str], None]
) -> Hook | None:
    """The hook of one handler; None: it is left out, and `warn` was told why.

    Raises UsageError: a value of it has the wrong shape.
    """
    try:
        name, action, shown = _action(entry, kind, where)
        condition = _condition(entry, kind, warn)
        hook = _hook(entry, kind, (name, action, shown), where)
        hook = msgspec.structs.replace(hook, condition=condition)
    except _LeftOut as reason:
        warn(str(reason))
        return None
    for key in entry.keys() - _KEYS[name]:
        warn(f"the key {key!r} is not known here and has no effect")
    return msgspec.structs.replace(hook, source=source, hook_id=_hook_id(hook, source))


def _action(entry: Json, kind: EntryKind, where: str) -> tuple[str, HookAction, str]:
    """The type, what it runs, and the line that people are shown. Raises UsageError, _LeftOut."""
    given = entry.get("type", "command")
    name = _TYPES.get(given, given) if isinstance(given, str) else ""
    match name:
        case "command":
            command, action = _command(entry, where)
            return name, action, command
        case "http":
            http = _http(entry, where)
            return name, http, f"POST {http.url}"
        case "mcp":
            mcp = _mcp(entry, where)
            return name, mcp, f"MCP {mcp.server}.{mcp.tool}"
        case "prompt":
            if kind.event not in ANSWERED_EVENTS:
                raise _LeftOut(f"asks a model, which decides nothing at {kind.event}; left out")
            text = _text(entry, "prompt", where)
            return name, PromptHook(prompt=text), f"asks the model: {text}"
        case _:
            raise _LeftOut(f'has type = "{str(given)[:40]}", which is not run here; left out')


def _command(entry: Json, where: str) -> tuple[str, CommandHook]:
    shell, args = entry.get("shell", "bash"), entry.get("args")
    if shell not in ("bash", "sh"):
        raise _LeftOut(f"is for the shell {str(shell)[:40]!r}, which is not run here; left out")
    command = _text(entry, "command", where)
    if args is None:
        return command, CommandHook()
    words = cast("list[object]", args) if isinstance(args, list) else [None]
    texts = tuple(one for one in words if isinstance(one, str) and "\0" not in one)
    if len(texts) != len(words) or len(texts) > _MAX_ARGS or sum(map(len, texts)) > _MAX_COMMAND:
        raise UsageError(f"{where}.args: must be an array of at most {_MAX_ARGS} texts")
    return command, CommandHook(args=texts)


def _http(entry: Json, where: str) -> HttpHook:
    url = _text(entry, "url", where)
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_usable = is_usable and (parts.port or 1) > 0 and parts.username is None
    except ValueError:
        is_usable = False
    if not is_usable or not url.isascii() or any(sign <= " " for sign in url):
        raise UsageError(f"{where}.url: must be an http or https address without user and blanks")
    headers, names = entry.get("headers", {}), entry.get("allowedEnvVars", [])
    if not _is_texts(headers) or len(headers) > _MAX_HEADERS:
        raise UsageError(f"{where}.headers: must be a table of at most {_MAX_HEADERS} texts")
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not value.isprintable() or name.lower() in _OWN_HEADERS:
            raise UsageError(f"{where}.headers: {name[:40]!r} cannot be sent")
    listed = cast("list[object]", names) if isinstance(names, list) else [None]
    variables = tuple(one for one in listed if isinstance(one, str) and _NAME.fullmatch(one))
    if len(variables) != len(listed):
        raise UsageError(f"{where}.allowedEnvVars: must be an array of names")
    if entry.get("network") is not True:
        raise _LeftOut('posts to an address, which needs "network": true beside it; left out')
    return HttpHook(url=url, headers=headers, variables=variables)


def _mcp(entry: Json, where: str) -> McpHook:
    given = entry.get("input")
    if given is not None and not _is_object(given):
        raise UsageError(f"{where}.input: must be a table of arguments")
    server, tool = (_text(entry, key, where) for key in ("server", "tool"))
    return McpHook(server=server, tool=tool, arguments=given)


def _hook(entry: Json, kind: EntryKind, what: tuple[str, HookAction, str], where: str) -> Hook:
    name, action, shown = what
    default = _TIMEOUTS_S.get(str(entry.get("type")), 600)
    given = entry.get("timeout", entry.get("timeoutSec", default))
    if isinstance(given, bool) or not isinstance(given, int | float) or given != given:
        raise UsageError(f"{where}.timeout: must be a number of seconds")
    on_failure = entry.get("on_failure", "allow")
    if on_failure not in ("allow", "deny"):
        raise UsageError(f'{where}.on_failure: must be "allow" or "deny"')
    background = _flag(entry, "async", where)
    if background and name != "command":
        raise _LeftOut(f"is to run in the background (`async`), which type {name} cannot; left out")
    if entry.get("asyncRewake"):
        raise _LeftOut("is to wake the model later (`asyncRewake`); not run here; left out")
    return Hook(
        hook_id="",
        event=kind.event,
        command=shown,
        action=action,
        matcher=kind.pattern,
        form=kind.form,
        timeout_s=min(max(1.0, float(given)), _MAX_TIMEOUT_S),
        network=_flag(entry, "network", where),
        may_allow=_flag(entry, "may_allow", where),
        fails_closed=on_failure == "deny",
        once=_flag(entry, "once", where),
        background=background,
    )


def _condition(entry: Json, kind: EntryKind, warn: Callable[[str], None]) -> str:
    """The condition; one that cannot be read leaves out no guard: it runs for every call."""
    given = entry.get("if")
    if given is None or given == "":
        return ""
    if kind.event not in TOOL_EVENTS:
        raise _LeftOut(f"has a condition (`if`), and {kind.event} is about no tool; left out")
    if isinstance(given, str) and is_condition(given):
        return given
    shown = f"a condition that cannot be read (`if` = {str(given)[:80]!r})"
    if kind.event not in CALL_GATES:
        raise _LeftOut(f"has {shown}; left out")
    warn(f"has {shown}; it runs for every call")
    return ""


def _hook_id(hook: Hook, source: str) -> str:
    on_failure = "deny" if hook.fails_closed else "allow"
    parts: list[object] = [
        hook.event, hook.form, hook.matcher, hook.command, hook.timeout_s, on_failure,
        hook.network, source,
    ]  # fmt: skip
    further = (msgspec.to_builtins(hook.action), hook.once, hook.background, hook.condition)
    if further != (msgspec.to_builtins(CommandHook()), False, False, ""):
        parts += further
    if hook.may_allow:
        parts.append("may_allow")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def _text(entry: Json, key: str, where: str) -> str:
    given = entry.get(key)
    if not isinstance(given, str) or not given.strip():
        raise _LeftOut(f"has no {key}; left out")
    if len(given) > _MAX_COMMAND or "\0" in given:
        raise UsageError(f"{where}.{key}: at most {_MAX_COMMAND} signs, without NUL")
    return given


def _flag(entry: Json, key: str, where: str) -> bool:
    given = entry.get(key, False)
    if not isinstance(given, bool):
        raise UsageError(f"{where}.{key}: must be true or false")
    return given


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_texts(value: object) -> TypeGuard[dict[str, str]]:
    return _is_object(value) and all(isinstance(one, str) for one in value.values())
