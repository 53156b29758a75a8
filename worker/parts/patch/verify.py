"""Computes all that a patch would do, before any approval or write.

All reads use the caller's `read`, so the result depends only on the files' contents. Later hunks
see what earlier ones would have made. Nothing is written here.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.events import FileChange
from swarm.mailbox.protocol.values.base import Value

from .chunk_matching import ChunkNotFound, LineEdit, apply_edits, locate_edits
from .parse import AddFile, DeleteFile, Hunk, PatchSyntaxError, UpdateFile, parse_patch
from .patch_summary import HunkResult, render_diff, replace_all

Read = Callable[[Path], bytes]  # raises OSError as open() does
_MARK = "\ufeff"
VERIFICATION_FAILED = "apply_patch verification failed: "


class PatchFailed(SwarmError):
    """A hunk cannot be applied; the text says which file and why."""


class FileConflict(PatchFailed):
    """The file has changed since it was last seen; the text is for the model."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"Conflict: {path} has changed since it was last seen (another agent, a command or a "
            "person wrote it). Nothing was written to it. Read it again and make a new patch."
        )
        self.path = path


class PlannedHunk(Value):
    """A planned hunk. Paths are absolute; digests are sha256 in hex, None = no such file."""

    outcome: HunkResult
    change: FileChange
    before: str | None
    content: bytes | None = None  # None: the file is removed
    moved_to: str | None = None
    moved_to_before: str | None = None

    def touched_paths(self) -> tuple[str, ...]:
        """Every path that is written or removed: the source, then the destination."""
        return (self.change.path, *([] if self.moved_to is None else [self.moved_to]))


class VerifiedPatch(Value):
    steps: tuple[PlannedHunk, ...]

    @property
    def changes(self) -> tuple[FileChange, ...]:
        """What users and journals are shown, in the patch's order."""
        return tuple(step.change for step in self.steps)

    @property
    def paths(self) -> tuple[str, ...]:
        """All absolute paths it touches, each once, in order."""
        return tuple(dict.fromkeys(path for step in self.steps for path in step.touched_paths()))


class PatchRejected(Value):
    message: str  # complete, ready for the model


def verify_patch(
    text: str, cwd: Path, read: Read, *, expected: Mapping[str, str | None] | None = None
) -> VerifiedPatch | PatchRejected:
    """Parse the patch and compute every change against the files as they are now.

    Args:
        text: The envelope, as the model wrote it.
        cwd: Absolute; relative paths of the patch resolve against it.
        read: Returns a file's bytes or raises OSError; `apply.read_file` for the real ones.
        expected: Absolute path → digest of the contents the agent last saw. A file that differs is
            a conflict; other paths are not compared.
    """
    try:
        text.encode()
        patch = parse_patch(text)
        seen = _Overlay(read, expected or {})
        return VerifiedPatch(steps=tuple(seen.plan(hunk, cwd) for hunk in patch.hunks))
    except PatchSyntaxError as error:
        return PatchRejected(message=VERIFICATION_FAILED + error.for_model())
    except PatchFailed as error:
        return PatchRejected(message=VERIFICATION_FAILED + str(error))
    except UnicodeEncodeError:
        return PatchRejected(message=VERIFICATION_FAILED + "the patch is not valid Unicode text")


def plan_hunk(hunk: Hunk, cwd: Path, read: Read) -> PlannedHunk:
    """Plan a single hunk against the files as `read` shows them. Raises PatchFailed."""
    match hunk:
        case AddFile():
            return _plan_add(hunk, _absolute(cwd, hunk.path), read)
        case DeleteFile():
            return _plan_delete(hunk, _absolute(cwd, hunk.path), read)
        case UpdateFile():
            return _plan_update(hunk, cwd, read)


def digest_of(content: bytes) -> str:
    """The sha256 in hex by which contents are compared."""
    return hashlib.sha256(content).hexdigest()


def describe_os_error(error: OSError) -> str:
    """`No such file or directory (os error 2)`."""
    if error.errno is None:
        return str(error)
    return f"{error.strerror or os.strerror(error.errno)} (os error {error.errno})"


class _Overlay:
    """The files as they would be after the hunks planned so far."""

    def __init__(self, read: Read, expected: Mapping[str, str | None]) -> None:
        self._read, self._expected = read, expected
        self._planned: dict[str, bytes | None] = {}

    def plan(self, hunk: Hunk, cwd: Path) -> PlannedHunk:
        step = plan_hunk(hunk, cwd, self.read)
        self._check(step.change.path, step.before)
        if step.moved_to is None:
            self._planned[step.change.path] = step.content
        else:
            self._check(step.moved_to, step.moved_to_before)
            self._planned[step.change.path] = None
            self._planned[step.moved_to] = step.content
        return step

    def read(self, path: Path) -> bytes:
        planned = self._planned.get(str(path), b"")
        if planned is None:
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return planned if str(path) in self._planned else self._read(path)

    def _check(self, path: str, before: str | None) -> None:
        if path in self._planned or path not in self._expected:
            return
        if self._expected[path] != before:
            raise FileConflict(path)


def _plan_add(hunk: AddFile, path: Path, read: Read) -> PlannedHunk:
    old = _read_if_there(path, read)
    edits = replace_all(_text_or_nothing(old), hunk.content)
    return PlannedHunk(
        outcome=HunkResult(letter="A", path=hunk.path),
        change=_change(path, "add", _about(old) + render_diff(_text_or_nothing(old), edits)),
        before=None if old is None else digest_of(old),
        content=hunk.content.encode(),
    )


def _plan_delete(hunk: DeleteFile, path: Path, read: Read) -> PlannedHunk:
    try:
        old = read(path)
    except (OSError, ValueError) as error:
        raise PatchFailed(f"Failed to delete file {path}") from error
    text = _text_or_nothing(old)
    return PlannedHunk(
        outcome=HunkResult(letter="D", path=hunk.path),
        change=_change(path, "delete", _about(old) + render_diff(text, replace_all(text, ""))),
        before=digest_of(old),
    )


def _plan_update(hunk: UpdateFile, cwd: Path, read: Read) -> PlannedHunk:
    path = _absolute(cwd, hunk.path)
    old = _read_to_update(path, read)
    mark, text = _split_mark(old.decode())
    edits = _locate(text, _without_mark(hunk) if mark else hunk, path)
    target = None if hunk.move_path is None else _absolute(cwd, hunk.move_path)
    if target == path:
        target = None
    there = None if target is None else _read_if_there(target, read)
    shown = hunk.path if target is None or hunk.move_path is None else hunk.move_path
    moved_to = None if target is None else str(target)
    return PlannedHunk(
        outcome=HunkResult(letter="M", path=shown),
        change=_change(path, "update", render_diff(text, edits), moved_to),
        before=digest_of(old),
        content=(mark + apply_edits(text, edits)).encode(),
        moved_to=moved_to,
        moved_to_before=None if there is None else digest_of(there),
    )


def _split_mark(text: str) -> tuple[str, str]:
    """The byte order mark of a file, which no model sees, and the text behind it."""
    return (_MARK, text[1:]) if text.startswith(_MARK) else ("", text)


def _without_mark(hunk: UpdateFile) -> UpdateFile:
    """The hunk for a file whose mark stays: a model may have copied the mark, or not."""

    def plain(line: str) -> str:
        return line[0] + line[1:].removeprefix(_MARK)

    chunks = [replace(chunk, lines=tuple(map(plain, chunk.lines))) for chunk in hunk.chunks]
    return replace(hunk, chunks=tuple(chunks))


def _change(path: Path, kind: str, diff: str, move_path: str | None = None) -> FileChange:
    match kind:
        case "add" | "delete" | "update":
            return FileChange(path=str(path), kind=kind, unified_diff=diff, move_path=move_path)
        case _:
            raise ValueError(kind)


def _locate(text: str, hunk: UpdateFile, path: Path) -> tuple[LineEdit, ...]:
    try:
        return locate_edits(text, hunk.chunks, str(path))
    except ChunkNotFound as error:
        raise PatchFailed(str(error)) from error


def _read_to_update(path: Path, read: Read) -> bytes:
    failed = f"Failed to read file to update {path}"
    try:
        content = read(path)
        content.decode()
    except OSError as error:
        raise PatchFailed(f"{failed}: {describe_os_error(error)}") from error
    except ValueError as error:  # not UTF-8, or a path with a NUL
        raise PatchFailed(f"{failed}: stream did not contain valid UTF-8") from error
    return content


def _read_if_there(path: Path, read: Read) -> bytes | None:
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PatchFailed(f"Failed to write file {path}: {describe_os_error(error)}") from error
    except ValueError as error:
        raise PatchFailed(f"Failed to write file {path}: not a valid path") from error


def _about(content: bytes | None) -> str:
    """A line about an old content that no diff can show."""
    if content is None or content == b"" or _text_or_nothing(content):
        return ""
    return f"\\ the old content is not text: {len(content):,} bytes, {digest_of(content)}\n"


def _text_or_nothing(content: bytes | None) -> str:
    """The content as text, for a diff only: bytes that are not UTF-8 give ""."""
    try:
        return "" if content is None else content.decode()
    except UnicodeDecodeError:
        return ""


def _absolute(cwd: Path, path: str) -> Path:
    return Path(os.path.normpath(cwd / path))
