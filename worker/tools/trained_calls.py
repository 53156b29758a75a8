"""Calls by names that models were trained on become calls of the tools that they mean.

The translated call is judged, approved and shown like any call of that tool: a name brings no
rights. The history keeps the call as the model wrote it. Pure.
"""

import shlex
from collections.abc import Callable
from typing import cast

import msgspec

from swarm.mailbox.base.call_arguments import decode_call_arguments
from swarm.mailbox.base.trained_tool_names import (
    EDIT,
    EDITOR,
    LIST,
    READ,
    RUN,
    SEARCH,
    TRAINED_TOOL_NAMES,
    WRITE,
)
from swarm.mailbox.protocol.items import AnyCall, FunctionCall

from ..parts.patch.parse import BEGIN, END, render_add
from .interface.tool_interface import ToolFailed

_MAX_LINE = 10_000_000  # a range without an end

Fields = dict[str, object]
_PATHS = ("path", "file_path", "filePath", "filename", "file", "target_file", "dir_path")
_OLD = ("old_text", "old_str", "old_string", "oldText", "search")
_NEW = ("new_text", "new_str", "new_string", "newText", "replace")
_CONTENT = ("content", "file_text", "contents", "text", "code_edit")
_COMMANDS = ("cmd", "command", "script", "commands")
_FOLDERS = ("workdir", "cwd", "working_directory", "directory")
_PATTERNS = ("pattern", "query", "regex")


def tool_behind(name: str) -> str:
    """The tool that does what a call by this name means; "" for a name that is not known."""
    kind = TRAINED_TOOL_NAMES.get(name)
    if kind is None:
        return ""
    return EDIT if kind == EDIT else "apply_patch" if kind in {WRITE, EDITOR} else RUN


def meant_call(call: AnyCall) -> AnyCall:
    """The call of our tool that `call` means; any other call unchanged.

    Raises:
        ToolFailed: the arguments cannot be read; the text shows a right call.
    """
    kind = TRAINED_TOOL_NAMES.get(call.name)
    if kind is None or not isinstance(call, FunctionCall):
        return call
    try:
        fields = decode_call_arguments(call.arguments, Fields)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ToolFailed(f"failed to parse function arguments: {error}") from error
    given = {name: value for name, value in fields.items() if value is not None}
    name, arguments = _TRANSLATIONS[kind](given)
    text = msgspec.json.encode(arguments).decode()
    return msgspec.structs.replace(call, name=name, arguments=text)


def _run(fields: Fields) -> tuple[str, Fields]:
    """A command as text, as words, or as a shell with its script, as in `["bash", "-lc", …]`."""
    written = fields.get(next((name for name in _COMMANDS if name in fields), ""))
    given = _opened(written, list[str])
    if isinstance(given, list):
        words = [str(word) for word in cast("list[object]", given) if word is not None]
        is_script = len(words) == 3 and words[1] in {"-c", "-lc"}
        script = words[2] if is_script else shlex.join(words)
    elif isinstance(given, str) and given.strip():
        script = given
    else:
        raise ToolFailed(f'no command was given; call {RUN} with {{"cmd": "ls"}}')
    folder = _text(fields, _FOLDERS)
    return RUN, {"cmd": script, "workdir": folder} if folder else {"cmd": script}


def _read(fields: Fields) -> tuple[str, Fields]:
    path = shlex.quote(_path(fields))
    first, last = _lines(fields)
    if (first, last) == (1, _MAX_LINE):
        return RUN, {"cmd": f"cat -- {path}"}
    end = "$" if last == _MAX_LINE else str(last)
    return RUN, {"cmd": f"sed -n '{first},{end}p' -- {path}"}


def _lines(fields: Fields) -> tuple[int, int]:
    """First and last line, both counted from 1."""
    view = _opened(fields.get("view_range"), list[int])
    if isinstance(view, list) and len(cast("list[object]", view)) == 2:
        first, last = (_number(one, 1) for one in cast("list[object]", view))
        return max(first, 1), last if last > 0 else _MAX_LINE
    first = max(_number(fields.get("start_line", fields.get("offset")), 1), 1)
    if "end_line" in fields:
        return first, max(_number(fields["end_line"], _MAX_LINE), first)
    count = _number(fields.get("limit"), 0)
    return first, first + count - 1 if count > 0 else _MAX_LINE


def _list(fields: Fields) -> tuple[str, Fields]:
    return RUN, {"cmd": f"ls -la -- {shlex.quote(_text(fields, _PATHS) or '.')}"}


def _write(fields: Fields) -> tuple[str, Fields]:
    hunk = render_add(_one_line(_path(fields)), _given_text(fields, _CONTENT, "content"))
    return "apply_patch", {"input": f"{BEGIN}\n{hunk}{END}"}


def _edit(fields: Fields) -> tuple[str, Fields]:
    old = _given_text(fields, _OLD, "old_text")
    new = _given_text(fields, _NEW, "new_text") if _names(fields, _NEW) else ""
    return EDIT, {"path": _path(fields), "old_text": old, "new_text": new}


def _editor(fields: Fields) -> tuple[str, Fields]:
    match fields.get("command"):
        case "view":
            return _read(fields)
        case "create":
            return _write(fields)
        case "str_replace":
            return _edit(fields)
        case other:
            raise ToolFailed(
                f"the editor command {str(other)[:40]!r} does not exist here; change a file with "
                f'{EDIT}: {{"path": "a.py", "old_text": "…", "new_text": "…"}}'
            )


def _search(fields: Fields) -> tuple[str, Fields]:
    pattern = _text(fields, _PATTERNS)
    if not pattern:
        raise ToolFailed(f'no pattern was given; call {RUN} with {{"cmd": "grep -rn TEXT ."}}')
    where = _text(fields, (*_PATHS, *_FOLDERS)) or "."
    return RUN, {"cmd": f"grep -rnE -e {shlex.quote(pattern)} -- {shlex.quote(where)}"}


def _path(fields: Fields) -> str:
    path = _text(fields, _PATHS)
    if not path:
        raise ToolFailed("no path was given")
    return path


def _one_line(path: str) -> str:
    if "\n" in path:
        raise ToolFailed("a path of one line is needed")
    return path


def _text(fields: Fields, names: tuple[str, ...]) -> str:
    """The first of these fields that is text; "" if there is none."""
    found = (fields.get(name) for name in names)
    return next((value for value in found if isinstance(value, str)), "")


def _names(fields: Fields, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in fields]


def _given_text(fields: Fields, names: tuple[str, ...], wanted: str) -> str:
    """The text of what is written. Nothing, and what is no text, would empty a file unsaid."""
    found = _names(fields, names)
    if not any(isinstance(fields[name], str) for name in found):
        what = f"`{found[0]}` is not text" if found else f"`{wanted}` is missing"
        raise ToolFailed(f"{what}, nothing was changed; give it as one string")
    return _text(fields, names)


def _opened(value: object, kind: type[list[str]] | type[list[int]]) -> object:
    """The list of this kind that a text holds as JSON; any other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    try:
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return value  # a script may begin with a bracket too


def _number(value: object, default: int) -> int:
    """A whole number, also where a model wrote it as text or as 10.0."""
    try:
        return int(float(value)) if isinstance(value, int | float | str) else default
    except (ValueError, OverflowError):
        return default


_TRANSLATIONS: dict[str, Callable[[Fields], tuple[str, Fields]]] = {
    RUN: _run,
    READ: _read,
    LIST: _list,
    WRITE: _write,
    EDIT: _edit,
    EDITOR: _editor,
    SEARCH: _search,
}
