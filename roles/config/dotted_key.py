"""Dotted configuration keys as TOML writes them: parsing and formatting. Pure.

Every place that takes or shows a key uses this grammar: `-c`, `swarm config set|get|list`, errors.
"""

import json
import re
from collections.abc import Sequence

from swarm.mailbox.base.errors import UsageError

MAX_STEPS = 16
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_STEP = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s."'\[\]=]+))\s*(\.|=|\Z)""")


def parse_key(text: str) -> tuple[str, ...]:
    """Split `projects."/a.b".trust_level` into its steps; a step may be quoted as in TOML.

    Raises UsageError for text that is no key.
    """
    steps, end, rest = _scan(text)
    if end:
        raise _no_key(text, f": it is followed by {end}{rest}")
    return steps


def parse_assignment(text: str) -> tuple[tuple[str, ...], str]:
    """Split `KEY=VALUE` into the key's steps and the text of the value.

    Raises UsageError for a missing `=` and for text that is no key.
    """
    if "=" not in text:
        raise UsageError(f"Invalid override (missing '='): {text}")
    if not text.partition("=")[0].strip():
        raise UsageError(f"Empty key in override: {text}")
    steps, end, rest = _scan(text)
    if not end:
        raise UsageError(f"Invalid override (missing '=' after the key): {text}")
    return steps, rest


def format_key(steps: Sequence[str]) -> str:
    """The steps as a dotted TOML key."""
    return ".".join(s if _BARE.match(s) else json.dumps(s, ensure_ascii=False) for s in steps)


def _scan(text: str) -> tuple[tuple[str, ...], str, str]:
    """The steps at the beginning of `text`, the `=` behind them or "", and what follows that."""
    steps: list[str] = []
    place = 0
    end = "."
    while end == ".":
        if (found := _STEP.match(text, place)) is None or len(steps) == MAX_STEPS:
            raise _no_key(text)
        double, single, bare, end = found.groups()
        steps.append(_unescape(double, text) if double is not None else single or bare or "")
        place = found.end()
    if not all(steps):
        raise _no_key(text)
    return tuple(steps), end, text[place:]


def _no_key(text: str, why: str = "") -> UsageError:
    if not text.strip():
        return UsageError("the key must not be empty")
    hint = 'write model, agents.max_depth or projects."/a.b".trust_level'
    return UsageError(f"{text!r} is not a key{why}; {hint}")


def _unescape(quoted: str, text: str) -> str:
    try:
        return str(json.loads(f'"{quoted}"'))
    except json.JSONDecodeError as error:
        raise UsageError(f"{text!r} is not a key: {error.msg}") from error
