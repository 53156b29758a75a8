"""Answers that are meant as tool calls and cannot be read as such. Pure.

A call that nobody reads would end the turn as if it were the answer. So a text that looks like a
call and like nothing else is sent back once or twice, with the right form of that very call.
"""

import re
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json, decode_json_as
from swarm.mailbox.base.trained_tool_names import TRAINED_TOOL_NAMES
from swarm.mailbox.protocol.sampling import ToolSpec
from swarm.mailbox.protocol.values.base import Value

MAX_CORRECTIONS = 2  # in a row
_MAX_CHARS = 100_000  # of an answer that is looked at
_MAX_OTHER_CHARS = 400  # of text around the call
_SHOWN_CHARS = 2_000  # of one argument

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(?P<body>.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_KEY = r"[\"']?(?:name|tool|tool_name|function|action)[\"']?\s*:\s*[\"']?(?P<name>[\w.-]{1,64})"
_NAMED = re.compile(_KEY)
_ARGUMENTS = re.compile(r"[\"']?(?:arguments|parameters|args|input|params)[\"']?\s*:")
_TAG = re.compile(
    r"<(?:\|)?(?:tool_call|toolcall|function_call|invoke|function=|response>\s*<)"
    r"|\[TOOL_CALLS\]|<(?P<name>[\w.-]{1,64})[\s/>]"
)
_PATCH = re.compile(r"\*\*\* Begin Patch\n.*?(?:\*\*\* End Patch|\Z)", re.DOTALL)

JsonObject = dict[str, object]


class UnreadableCall(Value):
    """What an answer seems to mean: the tool ("" if unknown), and a right call of it as JSON."""

    tool: str
    reason: str
    form: str
    is_known: bool = True  # there is such a tool, under this name or the one it was trained on

    def correction(self) -> str:
        """What the model is told."""
        return (
            f"Your last message looks like a tool call, but no tool was called: {self.reason}. "
            f"Call the tool itself. Its name and arguments in the right form:\n{self.form}\n"
            "If you can write calls only as text, write exactly such a JSON object and nothing "
            "else. If it was meant as your final answer, give the answer in plain words."
        )

    def insistence(self) -> str:
        """What a small model is told that was corrected, and answers as if the call were made."""
        return (
            f"You answered, but your call of {self.tool} was never made, so you do not know what "
            f"it gives. Call the tool now:\n{self.form}\nAnswer after that."
        )


def find_unreadable_call(text: str, tools: tuple[ToolSpec, ...]) -> UnreadableCall | None:
    """The call that `text` seems to mean; None if it is an answer like any other.

    Args:
        text: The whole visible text of a response without calls.
        tools: What was offered; without tools every text is an answer.
    """
    if not tools or len(text) > _MAX_CHARS:
        return None
    offered = {tool.name: tool for tool in tools}
    patch = _PATCH.search(text) if "apply_patch" in offered else None
    if patch is not None and _is_most_of(patch[0], text):
        reason = "a patch was written as text"
        return UnreadableCall(
            tool="apply_patch", reason=reason, form=_form("apply_patch", {"input": patch[0]})
        )
    for body in _bodies(text):
        if (name := _name_of(body, offered)) is not None:
            return _told(name, body, offered)
    return None


def _bodies(text: str) -> list[str]:
    """The parts of an answer that may be a call: all of it, or a block with little around it."""
    fences = (fence for fence in _FENCE.finditer(text) if _is_most_of(fence[0], text))
    return [text.strip(), *(fence["body"].strip() for fence in fences)]


def _is_most_of(part: str, text: str) -> bool:
    return len(text) - len(part) <= _MAX_OTHER_CHARS


def _name_of(body: str, offered: dict[str, ToolSpec]) -> str | None:
    """The name of the tool that `body` calls; "" if it calls one without a name; None: no call."""
    known = offered.keys() | TRAINED_TOOL_NAMES.keys()
    if body.startswith(("{", "[{", "[ {")):
        named = _NAMED.search(body)
        if named is not None and (named["name"] in known or _ARGUMENTS.search(body)):
            return named["name"]
        return None
    if (tag := _TAG.match(body)) is not None:
        if tag["name"] is None:
            return _first_known(body, known)
        return tag["name"] if tag["name"] in known else None
    called = re.match(r"(?:functions\.)?(?P<name>[\w.-]{1,64})\s*\(.*\)\s*\Z", body, re.DOTALL)
    if called is not None and called["name"] in known:
        return called["name"]
    return None


def _first_known(body: str, known: set[str]) -> str:
    words = re.findall(r"[\w.-]{1,64}", body)
    return next((word for word in words if word in known), "")


def _told(name: str, body: str, offered: dict[str, ToolSpec]) -> UnreadableCall:
    tools = ", ".join(offered)
    is_known = name in offered or name in TRAINED_TOOL_NAMES
    if name and not is_known:
        reason = f"there is no tool {name}; the tools are {tools}"
    else:
        reason = "it is text that cannot be read as a call"
    tool = name if name in offered else next(iter(offered))
    found = _own_arguments(body, _required(offered[tool]))
    return UnreadableCall(tool=name, reason=reason, form=_form(tool, found), is_known=is_known)


def _required(tool: ToolSpec) -> list[str]:
    schema = decode_json(tool.parameters)
    table = cast("JsonObject", schema) if isinstance(schema, dict) else {}
    return [str(name) for name in cast("list[object]", table.get("required") or [])]


def _own_arguments(body: str, required: list[str]) -> JsonObject:
    """The required arguments as far as they stand in the text; "…" for one that does not."""
    return {name: _own_argument(body, name) for name in required}


def _own_argument(body: str, name: str) -> str:
    start = rf"[\"']?\b{re.escape(name)}\b[\"']?\s*[:=]\s*"
    for value in (r'"""(.*?)"""', r'"((?:\\.|[^"\\])*)"', r"'((?:\\.|[^'\\])*)'", r"([^,}\n]+)"):
        found = re.search(start + value, body, re.DOTALL)
        if found is not None:
            return _unescaped(found[1].strip())[:_SHOWN_CHARS]
    return "…"


def _unescaped(text: str) -> str:
    try:
        return decode_json_as(f'"{text}"', str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return text


def _form(tool: str, arguments: JsonObject) -> str:
    return msgspec.json.encode({"name": tool, "arguments": arguments}).decode()
