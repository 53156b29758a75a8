"""Typed words → the arguments that a server's prompt declares. Pure."""

from collections.abc import Sequence
from difflib import get_close_matches

import mcp_types

from .tool_schema import clean_text

_MOST_NAMED = 20


class PromptMisused(ValueError):
    """The text is for a person: what the prompt takes."""


def match_arguments(
    name: str, words: Sequence[str], known: Sequence[mcp_types.Prompt]
) -> dict[str, str]:
    """The arguments by name. Raises PromptMisused.

    Args:
        name: Of the prompt.
        words: `NAME=VALUE` for a declared name; any other word is the value of the first argument
            that has none yet. A prompt with one argument takes all such words as one value.
        known: The server's prompts.
    """
    prompt = next((one for one in known if one.name == name), None)
    if prompt is None:
        raise PromptMisused(_unknown(name, [one.name for one in known]))
    declared = prompt.arguments or []
    names = [one.name for one in declared]
    given: dict[str, str] = {}
    plain: list[str] = []
    for word in words:
        key, sign, value = word.partition("=")
        if sign and key in names and key not in given:
            given[key] = value
        else:
            plain.append(word)
    open_names = [one for one in names if one not in given]
    if len(open_names) == 1 and plain:
        plain = [" ".join(plain)]
    if len(plain) > len(open_names):
        raise PromptMisused(f"the prompt `{name}` takes fewer words: {usage(prompt)}")
    given |= dict(zip(open_names, plain, strict=False))
    missing = [one.name for one in declared if one.required and not given.get(one.name)]
    if missing:
        raise PromptMisused(
            f"the prompt `{name}` needs {', '.join(missing[:_MOST_NAMED])}: {usage(prompt)}"
        )
    return given


def usage(prompt: mcp_types.Prompt) -> str:
    """`name file=… [focus=…]`; cleaned."""
    parts = [
        f"{clean_text(one.name, limit=100)}=…"
        if one.required
        else f"[{clean_text(one.name, limit=100)}=…]"
        for one in (prompt.arguments or [])[:_MOST_NAMED]
    ]
    return " ".join([clean_text(prompt.name, limit=200), *parts])


def _unknown(name: str, names: Sequence[str]) -> str:
    clean = [clean_text(one, limit=200) for one in names[:_MOST_NAMED]]
    near = get_close_matches(name, clean, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"it has: {', '.join(clean) or 'none'}"
    return f"the server has no prompt `{clean_text(name, limit=200)}`; {hint}"
