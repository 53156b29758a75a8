"""What a hook's action is given beside standard input: arguments of an MCP tool, words. Pure."""

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from swarm.mailbox.protocol.hooks import CommandHook, Hook

from .hook_scripts import hook_variables

_FIELD = re.compile(r"\$\{([A-Za-z0-9_.-]{1,200})\}")
_MAX_DEPTH = 20
_MAX_TEXT = 1 << 18  # of one argument with its fields filled in


def mcp_arguments(template: Mapping[str, object] | None, payload: bytes) -> bytes:
    """The arguments of a call, as JSON: the event itself, or the template with its fields.

    `${tool_input.file_path}` stands for that field of the event: its own value where it is the
    whole text, else its text. A field that is not there is an empty text.
    """
    if template is None:
        return payload
    event: object = msgspec.json.decode(payload)
    return msgspec.json.encode(_filled(template, event, 0))


def _filled(value: object, event: object, depth: int) -> object:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, str):
        whole = _FIELD.fullmatch(value)
        if whole is not None:
            return _field(event, whole[1])
        return _FIELD.sub(lambda found: _as_text(_field(event, found[1])), value)[:_MAX_TEXT]
    if isinstance(value, list):
        return [_filled(one, event, depth + 1) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return {name: _filled(one, event, depth + 1) for name, one in table.items()}
    return value


def _field(event: object, path: str) -> object:
    for step in path.split("."):
        if not isinstance(event, dict):
            return ""
        event = cast("dict[str, object]", event).get(step, "")
    return event


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def mcp_answer(result: str) -> str:
    """What a tool said, from its result as the hub renders it: a JSON object, or its texts.

    The hub gives a list of content parts, or the structured content; SDKs wrap a text in `result`.
    """
    try:
        value: object = msgspec.json.decode(result)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return result
    if isinstance(value, list):
        return "\n".join(_part_text(part) for part in cast("list[object]", value))
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    inner = table.get("result")
    return inner if isinstance(inner, str) and len(table) == 1 else result


def _part_text(part: object) -> str:
    text = cast("dict[str, object]", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def hook_words(hook: Hook, folder: str) -> tuple[str, ...]:
    """The program and the words of a hook without a shell, with its folders filled in."""
    args = hook.action.args if isinstance(hook.action, CommandHook) else None
    return tuple(_with_folders(word, hook, folder) for word in (hook.command, *(args or ())))


def _with_folders(word: str, hook: Hook, folder: str) -> str:
    for name, value in hook_variables(hook, folder).items():
        word = word.replace(f"${{{name}}}", value)
    return word
