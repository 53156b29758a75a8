"""The person's editor: `VISUAL`, else `EDITOR`, if no agent could have written it."""

import shlex
from collections.abc import Mapping

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.held_programs import (
    Lookup,
    UnheldProgram,
    find_program,
    held_environment,
)

from .safe_text import clean_line

_MOST_CHARS = 400


def find_own_editor(given: Mapping[str, str], lookup: Lookup) -> str:
    """The words of the first variable that is set; "" if none is. Never another editor in its
    place.

    Raises UsageError, which names the variable: a file of its words is one that agents may write,
    or its program is not there.
    """
    for name in ("VISUAL", "EDITOR"):
        if editor := given.get(name, ""):
            if reason := _why_not(name, editor, given, lookup):
                raise UsageError(
                    f"{name}={clean_line(editor, limit=_MOST_CHARS)} {reason}, so it is not "
                    f"started; set {name} to an editor that lies elsewhere"
                )
            return editor
    return ""


def _why_not(name: str, editor: str, given: Mapping[str, str], lookup: Lookup) -> str:
    """A clause; "" for an editor that is held."""
    if name not in held_environment({name: editor}, lookup):
        return "names a file that agents may write"
    try:
        words = shlex.split(editor)
    except ValueError as error:
        return f"cannot be read ({error})"
    program = next((word for word in words if "=" not in word), "")
    found = find_program(program, lookup._replace(path=given.get("PATH", "")))
    if not isinstance(found, UnheldProgram):
        return ""
    return f"cannot be used: {clean_line(found.reason, limit=_MOST_CHARS)}"
