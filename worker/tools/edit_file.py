"""edit_file: replace one piece of text in a file, or write a new file; for small models.

A small model cannot write the patch format, but it can copy a piece of text and say what is to
stand there instead. The call becomes a patch of whole lines and takes the way of every patch:
verified, judged, approved, watched, written.

A small model that shall fix code changes its test instead, because that is where the failure was
shown. So the first such changes of a test are held back, with the code that it tests. Where it
copied that code and named the test, the code is changed.
"""

import re
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated

import msgspec
import trio

from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec

from ..parts.patch.file_replacement import read_file
from ..parts.patch.parse import BEGIN, END, END_OF_FILE, NO_NEWLINE, UPDATE, render_add
from ..policy.command_decision import Run
from .apply_patch import PatchInvocation
from .interface.function_tool import FunctionTool, decode_arguments, described, is_placeholder
from .interface.tool_context import ToolContext
from .interface.tool_interface import Invocation, OnOutput, ToolFailed, ToolResult
from .list_dir import list_files
from .word_match import find_words, replace_words

_SHOWN_CHARS = 2_000  # of the file, to a model that copied the text wrongly
_REPEATED_SHARE = 0.6  # of a file's lines, from which a text without an old one is the whole file
_MOST_HELD_BACK = 2  # changes of one test
_SURE_CHARS = 10  # of a text that stands in the code that a test tests, and not in the test
_MOST_TESTS = 100  # whose changes are counted
_TEST_NAME = re.compile(r"test_.*|.*_test\.\w+|.*\.(?:test|spec)\.\w+")
_IMPORTED = re.compile(r"^(?:from|import)\s+([\w.]+)", re.MULTILINE)
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[A-Za-z_]\w{2,60}")
_MOST_SEARCHED, _MOST_SEARCHED_BYTES = 60, 64 * 1024  # files that are searched for an old name
_DEFINED = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


class EditFileArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments of edit_file."""

    path: Annotated[str, described("The file.")]
    old_text: Annotated[
        str, described("Text that stands in the file, copied exactly. Empty: add new_text.")
    ]
    new_text: Annotated[str, described("What is to stand there instead.")]


class EditFileTool(FunctionTool):
    """The edit_file tool; offered to small models, and where a role chooses it."""

    name = "edit_file"
    arguments = EditFileArguments

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._held_back: dict[str, int] = {}  # test → how often
        self._is_for_small_model = False

    def describe(self, model: ModelInfo) -> ToolSpec | None:
        self._is_for_small_model = model.constrained_calls  # others know what they do with tests
        return super().describe(model)

    def is_offered(self, model: ModelInfo) -> bool:
        return model.is_small or "edit_file" in (self._context.spec.role.tools.only or ())

    async def prepare(self, call: AnyCall) -> Invocation:
        edit = decode_arguments(call, EditFileArguments)
        _refuse_placeholders(edit)
        text, note = self._read(edit.path), ""
        if self._is_for_small_model and text is not None and _changes_test(text, edit):
            tested = self._tested_code(edit.path, text)
            name = _place_of(edit, tested) if edit.old_text not in text else ""
            if not name:
                self._hold_back(edit, tested)
            else:  # the test is what it was shown; what it copied is the code
                note = f"old_text stands in {name}, not in {edit.path}: {name} was changed.\n"
                edit, text = msgspec.structs.replace(edit, path=name), tested[name]
        patch = write_patch(text, edit)
        return _EditInvocation(self._context, patch, find_removed_names(edit), note)

    def _read(self, path: str) -> str | None:
        context = self._context
        try:
            data = read_file(context.cwd / path, lambda real: context.may_read(Path(real)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ToolFailed(f"{path} cannot be read: {error.strerror or error}") from error
        if b"\0" in data:
            raise ToolFailed(f"{path} is not a text file: it cannot be edited, and holds no answer")
        return data.decode("utf-8", "replace")

    def _hold_back(self, edit: EditFileArguments, tested: dict[str, str]) -> None:
        """Raises ToolFailed for the first changes of this test, with the code that it tests."""
        times = self._held_back.get(edit.path, 0)
        if times >= _MOST_HELD_BACK or len(self._held_back) >= _MOST_TESTS:
            return
        self._held_back[edit.path] = times + 1
        shown = "".join(
            f" The code that it tests is in {name}:\n{code[:_SHOWN_CHARS]}"
            for name, code in list(tested.items())[:1]
        )
        raise ToolFailed(
            f"{edit.path} was not changed: it is a test, and tests say what the code must do. Find "
            f"the mistake in the code, and change the code.{shown}"
        )

    def _tested_code(self, path: str, text: str) -> dict[str, str]:
        """The texts of the files that a test tests, by name."""
        found: dict[str, str] = {}
        for name in find_tested_files(path, text):
            with suppress(ToolFailed):
                if (code := self._read(name)) is not None:
                    found[name] = code
        return found


def _refuse_placeholders(edit: EditFileArguments) -> None:
    """Raises ToolFailed for the words of the tool's form in place of a text."""
    given = (("path", edit.path), ("old_text", edit.old_text), ("new_text", edit.new_text))
    for name, text in given:
        if is_placeholder(text):
            raise ToolFailed(
                f"nothing was changed: {name} is only a placeholder. Edit a file if the task asks "
                "for a change; to answer a question, call finish with the answer"
            )


class _EditInvocation(PatchInvocation):
    """A patch whose result tells which files still use a name that the edit took away.

    Args:
        note: Comes before the result of a patch that was written; "" if there is none.
    """

    def __init__(
        self, context: ToolContext, patch: str, removed: frozenset[str], note: str
    ) -> None:
        super().__init__(context, patch, context.spec.cwd)
        self._removed, self._note = removed, note

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        result = await super().run(verdict, listen)
        if result.status != "completed":
            return result
        uses = await trio.to_thread.run_sync(self._describe_uses) if self._removed else ""
        return result.framed(head=self._note, tail=uses)

    def _describe_uses(self) -> str:
        found: list[str] = []
        for name in list_files(self._context.cwd, limit=_MOST_SEARCHED, may_read=self._may_search):
            with suppress(OSError, ValueError):
                path = self._context.cwd / name
                if path.lstat().st_size <= _MOST_SEARCHED_BYTES:
                    text = read_file(path, lambda real: self._context.may_read(Path(real)))
                    used = self._removed & set(_WORD.findall(text.decode()))
                    found += [f"{name} ({', '.join(sorted(used))})"] if used else []
        if not found:
            return ""
        return f"These files still use the old name: {', '.join(found)}. Change them too.\n"

    def _may_search(self, path: Path) -> bool:
        return not path.name.startswith(".") and self._context.may_read(path)


def find_removed_names(edit: EditFileArguments) -> frozenset[str]:
    """The name that an edit replaces, or the names of what it no longer defines."""
    old = edit.old_text.strip()
    names = [old] if _NAME.fullmatch(old) else _DEFINED.findall(old)
    return frozenset(names) - set(_WORD.findall(edit.new_text))


def _place_of(edit: EditFileArguments, texts: dict[str, str]) -> str:
    """The file in which the old text stands; "" if there is none, or the text is too short."""
    if len(edit.old_text.strip()) < _SURE_CHARS:
        return ""
    for name, text in texts.items():
        with suppress(ToolFailed):
            _find(text, edit)
            return name
    return ""


def _changes_test(text: str, edit: EditFileArguments) -> bool:
    """True for an edit of a test that does more than to add to it."""
    is_change = edit.old_text.strip() or _repeats_most(text, edit.new_text)
    return bool(is_change) and is_test(edit.path)


def is_test(path: str) -> bool:
    """True for the usual names of test files."""
    return _TEST_NAME.fullmatch(PurePosixPath(path).name) is not None


def find_tested_files(path: str, text: str) -> list[str]:
    """Where the code that a Python test imports may be: beside it, or from the project's top."""
    names = [name.replace(".", "/") + ".py" for name in _IMPORTED.findall(text)]
    folder = PurePosixPath(path).parent
    return list(dict.fromkeys(one for name in names for one in (str(folder / name), name)))


def write_patch(text: str | None, edit: EditFileArguments) -> str:
    """The patch that makes this edit.

    Args:
        text: The file's text; None: there is no such file.

    Raises:
        ToolFailed: the old text does not stand in the file exactly once, text that is added
            defines again what the file defines, or nothing would change.

    With an empty old text the new text is added at the end; one that repeats most of the file is
    meant as the whole file and replaces it.
    """
    if not edit.old_text.strip() and not (text or "").strip():
        return f"{BEGIN}\n{render_add(edit.path, edit.new_text)}{END}"
    if text is None:
        raise ToolFailed(f"there is no file {edit.path}; to write it, leave old_text empty")
    if not edit.old_text.strip():
        return _rewrite(text, edit) if _repeats_most(text, edit.new_text) else _append(text, edit)
    old, new = _whole_lines(text, edit)
    if old == new:
        raise ToolFailed("old_text and new_text are the same: nothing would change")
    removed = "".join(f"-{line}\n" for line in old)
    added = "".join(f"+{line}\n" for line in new)
    return _update(edit.path, f"{removed}{added}{_end_of(text)}")


def _update(path: str, body: str) -> str:
    return f"{BEGIN}\n{UPDATE}{path}\n@@\n{body}{END}"


def _end_of(text: str) -> str:
    """What a chunk ends with so that a file without a last newline gets none."""
    return "" if text.endswith("\n") else f"{NO_NEWLINE}\n"


def _repeats_most(text: str, new_text: str) -> bool:
    """True if most of the file's lines stand in the new text."""
    new = {line.rstrip() for line in new_text.split("\n")}
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    return sum(line in new for line in lines) >= _REPEATED_SHARE * len(lines)


def _rewrite(text: str, edit: EditFileArguments) -> str:
    """The patch that replaces the whole file."""
    old, new = text.rstrip("\n").split("\n"), edit.new_text.rstrip("\n").split("\n")
    if old == new:
        raise ToolFailed(f"{edit.path} holds exactly this already: nothing would change")
    removed = "".join(f"-{line}\n" for line in old)
    added = "".join(f"+{line}\n" for line in new)
    return _update(edit.path, f"{removed}{added}{_end_of(text)}")


def _append(text: str, edit: EditFileArguments) -> str:
    """The patch that adds the new text at the end of a file."""
    again = sorted(set(_DEFINED.findall(text)) & set(_DEFINED.findall(edit.new_text)))
    if again or not edit.new_text.strip():
        what = f"{again[0]} is defined in {edit.path} already" if again else "new_text is empty"
        raise ToolFailed(f"{what}: copy the lines that change into old_text. {_shown(text)}")
    lines = text.split("\n")
    at_end = len(lines) - (2 if text.endswith("\n") else 1)
    kept = lines[at_end]
    gap = [""] * 2 if _DEFINED.search(edit.new_text) else []
    added = [*gap, *edit.new_text.strip("\n").split("\n")]
    body = "".join(f"+{line}\n" for line in added)
    return _update(edit.path, f" {kept}\n{body}{_end_of(text)}{END_OF_FILE}\n")


def _whole_lines(text: str, edit: EditFileArguments) -> tuple[list[str], list[str]]:
    """The lines that change, before and after."""
    start, end, new_text = _find(text, edit)
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    changed = text[first:start] + new_text + text[end:last]
    old, new = text[first:last].split("\n"), changed.split("\n") if changed else []
    if last == len(text):
        _keep_last_return(old)
        _keep_last_return(new)
    return old, new


def _keep_last_return(lines: list[str]) -> None:
    """A return that ends a file is no line's end: of each line a patch takes off one."""
    if lines and lines[-1].endswith("\r"):
        lines[-1] += "\r"


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
    if not places and (span := find_words(text, edit.old_text)) is not None:
        start, end = span
        is_one_line = "\n" not in edit.old_text.strip() and "\n" not in edit.new_text.strip()
        if is_one_line:  # else the model gives the lines itself
            return start, end, replace_words(text[start:end], edit.new_text)
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
