"""Names of calls: what a model means by one, and as which name a wire takes it back. Pure."""

import re

from swarm.mailbox.base.trained_tool_names import TRAINED_TOOL_NAMES

MAX_NAME_CHARS = 64
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_SPELLING = re.compile(r"[ _.-]")  # signs by which models vary a name, besides its capitals
_WORDS = re.compile(r"[A-Za-z0-9_-]+")
# What models write around a name: a namespace before it, tokens of their template after it.
_PREFIX = re.compile(
    r"\A(?:.*\bto=)?(?:functions?|tools?|tool_calls?|default_api|api|assistant)[.:/]", re.DOTALL
)
_SUFFIX = re.compile(r"(?:<[|｜].*|\(\)|:\d+)\Z", re.DOTALL)


def meant_name(name: str, offered: frozenset[str]) -> str:
    """The offered tool that a call's name means; the name itself if it means none.

    Models write `functions.NAME`, `NAME<|channel|>commentary`, `functions.NAME:0` and the like, and
    names in other capitals or with other joints, as far as one tool alone can be meant.
    """
    if name in offered or name in TRAINED_TOOL_NAMES:
        return name
    bare = _SUFFIX.sub("", _SUFFIX.sub("", name.strip(" \t\n\"'`")))
    bare = _PREFIX.sub("", bare).strip()
    if bare in offered or bare in TRAINED_TOOL_NAMES:
        return bare
    parts = {part for part in _WORDS.findall(name) if part in offered}
    return parts.pop() if len(parts) == 1 else _spelled_otherwise(bare, offered) or name


def _spelled_otherwise(name: str, offered: frozenset[str]) -> str:
    """The one tool whose name differs only in its spelling, as `execCommand`; "" if none does."""
    wanted = _SPELLING.sub("", name).lower()
    for known in (offered, TRAINED_TOOL_NAMES):
        same = [one for one in known if _SPELLING.sub("", one).lower() == wanted]
        if same:
            return same[0] if len(same) == 1 else ""
    return ""


def wire_name(name: str) -> str:
    """The name as every server takes it."""
    return _NO_NAME.sub("_", name)[:MAX_NAME_CHARS] or "_"
