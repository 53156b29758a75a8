"""Names of calls: what a model means by one, and as which name a wire takes it back. Pure."""

import re

from swarm.mailbox.trained_tool_names import TRAINED_TOOL_NAMES

MAX_NAME_CHARS = 64
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_WORDS = re.compile(r"[A-Za-z0-9_-]+")
# What models write around a name: a namespace before it, tokens of their template after it.
_PREFIX = re.compile(
    r"\A(?:.*\bto=)?(?:functions?|tools?|tool_calls?|default_api|api|assistant)[.:/]", re.DOTALL
)
_SUFFIX = re.compile(r"(?:<[|｜].*|\(\)|:\d+)\Z", re.DOTALL)


def meant_name(name: str, offered: frozenset[str]) -> str:
    """The offered tool that a call's name means; the name itself if it means none.

    Models write `functions.NAME`, `NAME<|channel|>commentary`, `functions.NAME:0` and the like.
    """
    if name in offered or name in TRAINED_TOOL_NAMES:
        return name
    bare = _SUFFIX.sub("", _SUFFIX.sub("", name.strip(" \t\n\"'`")))
    bare = _PREFIX.sub("", bare).strip()
    if bare in offered or bare in TRAINED_TOOL_NAMES:
        return bare
    parts = {part for part in _WORDS.findall(name) if part in offered}
    return parts.pop() if len(parts) == 1 else name


def wire_name(name: str) -> str:
    """The name as every server takes it."""
    return _NO_NAME.sub("_", name)[:MAX_NAME_CHARS] or "_"
