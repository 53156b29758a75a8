"""Recognises a patch that arrives as a shell command, so that swarm applies it. No I/O.

Only unambiguous forms are recognised; every other command is left alone.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.protocol.values.base import Value

from ...policy.shell_parser import heredoc_call, program_name, shell_script
from .parse import BEGIN, PatchSyntaxError, parse_patch
from .patch_grammar import ALIASES

IMPLICIT_PATCH = (
    "apply_patch verification failed: patch detected without explicit call to apply_patch. "
    'Rerun as ["apply_patch", "<patch>"]'
)
POWERSHELLS = frozenset({"pwsh", "pwsh.exe", "powershell", "powershell.exe"})


class PatchText(Value):
    """The command is a call of apply_patch."""

    text: str
    cwd: str  # absolute; the patch's paths are relative to it


class ImplicitPatch(Value):
    """The command is a bare patch: the model gets this message, nothing is run."""

    message: str = IMPLICIT_PATCH


def intercept_patch(argv: Sequence[str], cwd: Path) -> PatchText | ImplicitPatch | None:
    """Recognise a patch; None: run the command as any other."""
    script = _script_of(argv)
    for text in argv if len(argv) == 1 else () if script is None else (script,):
        if _is_patch(text):
            return ImplicitPatch()
    if len(argv) == 2 and argv[0] in ALIASES:
        return PatchText(text=argv[1], cwd=str(cwd))
    if script is None or not any(name in script for name in ALIASES):
        return None  # most commands return here, unparsed
    call = heredoc_call(script)
    if call is None or call.name not in ALIASES:
        return None
    folder = cwd if call.folder is None else Path(os.path.normpath(cwd / call.folder))
    return PatchText(text=call.body, cwd=str(folder))


def _script_of(argv: Sequence[str]) -> str | None:
    name = program_name(argv[0]).rpartition("\\")[2].lower() if argv else ""
    match list(argv[1:]):
        case ["-Command", script] | ["-NoProfile", "-Command", script] if name in POWERSHELLS:
            return script
        case ["/c", script] if name in ("cmd", "cmd.exe"):
            return script
        case _:
            return shell_script(argv)


def _is_patch(text: str) -> bool:
    if BEGIN not in text:
        return False
    try:
        parse_patch(text)
    except PatchSyntaxError:
        return False
    return True
