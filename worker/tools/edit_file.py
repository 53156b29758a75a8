"""edit_file: replace one piece of text in a file, or write a new file; for small models.

A small model cannot write the patch format, but it can copy a piece of text and say what is to
stand there instead. The call becomes a patch of whole lines and takes the way of every patch:
verified, judged, approved, watched, written.
"""

from pathlib import Path
from typing import Annotated

import msgspec

from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ..patch.file_replacement import read_file
from .apply_patch import PatchInvocation
from .function_tool import FunctionTool, decode_arguments, described
from .tool_context import ToolContext
from .tool_interface import Invocation, ToolFailed

_SHOWN_CHARS = 2_000  # of the file, to a model that copied the text wrongly


class EditFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of edit_file."""

    path: Annotated[str, described("The file.")]
    old_text: Annotated[
        str, described("Text that stands in the file, copied exactly. Empty: write a new file.")
    ]
    new_text: Annotated[str, described("What is to stand there instead.")]


class EditFileTool(FunctionTool):
    """The edit_file tool; offered to models whose calls are constrained."""

    name = "edit_file"
    arguments = EditFileArguments

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def is_offered(self, model: ModelInfo) -> bool:
        return model.constrained_calls

    async def prepare(self, call: AnyCall) -> Invocation:
        edit = decode_arguments(call, EditFileArguments)
        patch = write_patch(self._read(edit.path), edit)
        return PatchInvocation(self._context, patch, self._context.spec.cwd)

    def _read(self, path: str) -> str | None:
        context = self._context
        try:
            data = read_file(context.cwd / path, lambda real: context.may_read(Path(real)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolFailed(f"{path} cannot be read: {error.strerror or error}") from error
        return data.decode("utf-8", "replace")


def write_patch(text: str | None, edit: EditFileArguments) -> str:
    """The patch that makes this edit; pure.

    Args:
        text: The file's text; None: there is no such file.

    Raises:
        ToolFailed: the old text does not stand in the file exactly once, a file that exists would
            be overwritten as a whole, or nothing would change.
    """
    head = "*** Begin Patch\n"
    if not edit.old_text.strip() and not (text or "").strip():
        added = "".join(f"+{line}\n" for line in edit.new_text.splitlines())
        return f"{head}*** Add File: {edit.path}\n{added}*** End Patch"
    if text is None:
        raise ToolFailed(f"there is no file {edit.path}; to write it, leave old_text empty")
    if not edit.old_text.strip():
        raise ToolFailed(
            f"{edit.path} exists: copy the lines that change into old_text. {_shown(text)}"
        )
    old, new = _whole_lines(text, edit)
    if old == new:
        raise ToolFailed("old_text and new_text are the same: nothing would change")
    removed = "".join(f"-{line}\n" for line in old)
    added = "".join(f"+{line}\n" for line in new)
    return f"{head}*** Update File: {edit.path}\n@@\n{removed}{added}*** End Patch"


def _whole_lines(text: str, edit: EditFileArguments) -> tuple[list[str], list[str]]:
    """The lines that change, before and after."""
    start, end, new_text = _find(text, edit)
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    changed = text[first:start] + new_text + text[end:last]
    return text[first:last].split("\n"), changed.split("\n") if changed else []


def _find(text: str, edit: EditFileArguments) -> tuple[int, int, str]:
    """Where the old text stands, and the text that takes its place."""
    old, new = edit.old_text, edit.new_text
    count = text.count(old)
    if count > 1:
        raise ToolFailed(
            f"old_text stands {count} times in {edit.path}: copy more lines around the place"
        )
    if count == 1:
        start = text.index(old)
        if old.endswith("\n") and not new.endswith("\n"):
            old = old[:-1]  # the line end stays
        return start, start + len(old), new
    return _find_loosely(text, edit)


def _find_loosely(text: str, edit: EditFileArguments) -> tuple[int, int, str]:
    """The only place whose lines are the same but for the blanks at their ends.

    Models lose the indentation of the first line or of all; the new text gets it back.
    """
    lines = text.split("\n")
    wanted = [line.strip() for line in edit.old_text.strip("\n").split("\n")]
    stripped = [line.strip() for line in lines]
    last = len(lines) - len(wanted)
    places = [at for at in range(last + 1) if stripped[at : at + len(wanted)] == wanted]
    if len(places) != 1:
        where = "nowhere" if not places else f"{len(places)} times"
        raise ToolFailed(f"old_text stands {where} in {edit.path}. {_shown(text)}")
    (at,) = places
    start = sum(len(line) + 1 for line in lines[:at])
    end = start + sum(len(line) + 1 for line in lines[at : at + len(wanted)]) - 1
    given = edit.old_text.lstrip("\n")
    lost = _indent(lines[at]).removesuffix(_indent(given))
    new = edit.new_text.strip("\n").split("\n")
    return start, end, "\n".join(lost + line if line.strip() else line for line in new)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _shown(text: str) -> str:
    cut = " Its beginning" if len(text) > _SHOWN_CHARS else "It"
    return f"{cut.strip()} is:\n{text[:_SHOWN_CHARS]}"
