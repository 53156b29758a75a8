"""Extract tool calls that a small model wrote as text: JSON, fenced, `<tool_call>`, `<function=…>`.

Three rules avoid false calls: only an offered tool counts; a bare JSON object counts only on lines
of its own; anything that does not parse cleanly stays text. Off unless the provider has
`tolerant_tool_calls`.
"""

import re
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json, depth_checked

MAX_CALLS = 16  # more calls in one answer are a loop
MAX_TEXT_CHARS = 200_000
MAX_TRIED = 64  # limit of the places in one text that look like JSON

_FENCE = re.compile(
    r"```[ \t]*(?:json|tool_call|tool|tool_code)?[ \t]*\n(?P<body>(?:(?!```).)*)```", re.DOTALL
)
_TAG = re.compile(
    r"<(?P<tag>tool_call|toolcall|function_call|functioncall)>(?P<body>.*?)(?:</(?P=tag)>|\Z)",
    re.DOTALL,
)
_FUNCTION = re.compile(
    r"<function=(?P<name>[\w.-]{1,64})>(?P<body>.*?)(?:</function>|\Z)", re.DOTALL
)
_PARAMETER = re.compile(
    r"<parameter=(?P<name>[\w.-]{1,64})>\n?(?P<value>.*?)\n?</parameter>", re.DOTALL
)
_TAGS = (
    ("<tool_call>", "</tool_call>"),
    ("<toolcall>", "</toolcall>"),
    ("<function_call>", "</function_call>"),
    ("<functioncall>", "</functioncall>"),
    ("<function=", "</function>"),
)
_OBJECT_START = re.compile(r"^[ \t]*[\[{]", re.MULTILINE)
_NAMES = ("name", "tool", "tool_name", "function")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_OTHER_KEYS = frozenset({"type", "id", "call_id"})

_decode = depth_checked(msgspec.json.Decoder(dict[str, object] | list[Any]).decode)
_encode = msgspec.json.Encoder().encode


class ExtractedCall(NamedTuple):
    """A call: the tool's name, and its arguments as the JSON text of an object."""

    name: str
    arguments: str


class ExtractedCalls(NamedTuple):
    """The remaining text, and the calls that were found."""

    text: str
    calls: tuple[ExtractedCall, ...]


def extract_tool_calls(
    text: str, offered: frozenset[str], *, is_whole: bool = True
) -> ExtractedCalls:
    """Find the calls in an answer. Never raises; without a clear call the text is returned
    unchanged.

    Args:
        offered: Names of the tools that the request offered.
        is_whole: The model ended by itself, so a tag that it left open ends with the text.
    """
    if not offered or len(text) > MAX_TEXT_CHARS or not ("{" in text or "<function=" in text):
        return ExtractedCalls(text, ())
    calls: list[ExtractedCall] = []
    rest = text
    if not is_whole and any(text.rfind(begin) > text.rfind(end) for begin, end in _TAGS):
        return ExtractedCalls(text, ())
    for pattern in (_TAG, _FENCE):
        rest = pattern.sub(lambda found: _take(found["body"], found[0], offered, calls), rest)
    rest = _FUNCTION.sub(lambda found: _take_function(found, offered, calls), rest)
    if not calls:
        rest = _take_bare(rest, offered, calls)
    if not calls or len(calls) > MAX_CALLS:
        return ExtractedCalls(text, ())
    return ExtractedCalls(rest.strip(), tuple(calls))


def _take(body: str, whole: str, offered: frozenset[str], calls: list[ExtractedCall]) -> str:
    """The replacement of a marked place: nothing if it holds calls, else the place itself."""
    if fenced := _FENCE.fullmatch(body.strip()):
        body = fenced["body"]
    function = _FUNCTION.search(body)
    if function is not None:
        return "" if not _take_function(function, offered, calls) else whole
    found = _read(body, offered)
    calls += found
    return "" if found else whole


def _take_function(
    found: re.Match[str], offered: frozenset[str], calls: list[ExtractedCall]
) -> str:
    name, body = found["name"], found["body"].strip()
    if name not in offered:
        return found[0]
    pairs = {pair["name"]: _value(pair["value"]) for pair in _PARAMETER.finditer(body)}
    if pairs and _PARAMETER.sub("", body).strip():
        return found[0]  # a parameter without its end tag, or text between parameters
    if not pairs and body:
        arguments = _object(body)
        if arguments is None:
            return found[0]
        pairs = arguments
    calls.append(ExtractedCall(name, _encode(pairs).decode()))
    return ""


def _take_bare(text: str, offered: frozenset[str], calls: list[ExtractedCall]) -> str:
    """Find JSON that begins at the start of a line and ends at the end of a line."""
    kept: list[str] = []
    position = tried = 0
    while (start := _OBJECT_START.search(text, position)) and tried < MAX_TRIED:
        tried += 1
        end = _json_end(text, start.end() - 1)
        line_end = -1 if end is None else _end_of_line(text, end)
        found = _read(text[start.start() : end], offered) if line_end >= 0 else []
        if found:
            calls += found
            kept.append(text[position : start.start()])
            position = line_end
        else:
            kept.append(text[position : start.end()])
            position = start.end()
    kept.append(text[position:])
    return "".join(kept)


def _end_of_line(text: str, position: int) -> int:
    """The end of the line if only blanks, semicolons or commas follow; else -1."""
    found = re.compile(r"[ \t;,]*(?:\n|\Z)").match(text, position)
    return found.end() if found else -1


def _json_end(text: str, start: int) -> int | None:
    """The position after the bracket that closes the one at `start`; skips strings. None: open."""
    depth, inside, escaped = 0, False, False
    for place in range(start, len(text)):
        sign = text[place]
        if inside:
            if escaped:
                escaped = False
            elif sign == "\\":
                escaped = True
            elif sign == '"':
                inside = False
        elif sign == '"':
            inside = True
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if depth == 0:
                return place + 1
    return None


def _read(body: str, offered: frozenset[str]) -> list[ExtractedCall]:
    """The calls of a JSON object, of a list of objects, or of objects on separate lines."""
    value = _parse(body)
    if value is None:
        lines = [line.strip() for line in body.splitlines() if line.strip()]
        if len(lines) < 2:
            return []
        values: list[object] = [*map(_object, lines)]
    else:
        values = cast("list[object]", value) if isinstance(value, list) else [value]
    calls = [_call(value, offered) for value in values]
    return [call for call in calls if call is not None] if all(calls) else []


def _call(value: object, offered: frozenset[str]) -> ExtractedCall | None:
    """`{"name": …, "arguments": …}` in one of its variants; None for anything else."""
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, object]", value)
    inner = fields.get("function")
    if isinstance(inner, dict):
        return _call(cast("dict[str, object]", inner), offered)
    name_key = next((key for key in _NAMES if isinstance(fields.get(key), str)), None)
    arguments_key = next((key for key in _ARGUMENTS if key in fields), None)
    name = None if name_key is None else fields[name_key]
    if not isinstance(name, str) or arguments_key is None or name not in offered:
        return None
    if fields.keys() - {name_key, arguments_key} - _OTHER_KEYS:
        return None
    arguments = fields[arguments_key]
    if isinstance(arguments, str):
        arguments = _object(arguments)
    if arguments is None or not isinstance(arguments, dict):
        return None
    return ExtractedCall(name, _encode(arguments).decode())


def _object(text: str) -> dict[str, object] | None:
    value = _parse(text)
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _parse(text: str) -> object:
    """The JSON object or list; None for any other text.

    Qwen2.5 writes `{{"name": …}}`, because its chat template shows calls in doubled brackets.
    """
    text = text.strip()
    is_doubled = text.startswith("{{") and text.endswith("}}")
    for one in (text, text[1:-1], text[1:]) if is_doubled else (text,):
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _decode(one)
    return None


def _value(text: str) -> object:
    """A parameter's value: decoded JSON if it is valid, else the text itself."""
    try:
        return decode_json(text.strip())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text
