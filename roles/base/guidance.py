"""Loads AGENTS.md files: instructions from a project and a person for every agent.

Never reads a file outside the project, even through a link, nor one that the agents' profile
denies; never tells more than the byte budget. What is cut or left out is said to the person and, in
the text itself, to the model. Source: Codex `project_doc.rs`, which cuts the nearest file first and
without a word.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from swarm.mailbox.base.path_rules import is_explicitly_denied, is_within, may_read
from swarm.mailbox.base.safe_open import (
    READ_FLAGS,
    open_canonical,
    open_user_file,
    read_start,
    require_regular_file,
    resolve_links,
)
from swarm.mailbox.base.written_text import decode_leniently
from swarm.mailbox.protocol.context_sizes import TextSize
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ProfilePolicy, SandboxPolicy

BUDGET_BYTES = 32 * 1024
_NAMES = ("AGENTS.override.md", "AGENTS.md")
_PERSONAL_BYTES = 256 * 1024
_WIDEST_BYTES = 4  # of a character, in any encoding
_MOST_NAMED = 10  # of the files that are left out
_ADVICE = "so raise it or shorten the files"
_SEPARATOR = "\n\n--- project-doc ---\n\n"


class Guidance(Value):
    """The joined text, and the warnings."""

    text: str = ""
    warnings: tuple[str, ...] = ()
    left_bytes: int = 0  # of the budget, for folders below
    # Warnings about files that lead outside the project or are denied.
    refused: tuple[str, ...] = ()
    files: tuple[TextSize, ...] = ()  # what the text is made of, in order


class GuidanceRules(Value):
    """`project_doc_*` and `project_root_markers` of the configuration."""

    limit_bytes: int = BUDGET_BYTES
    fallback_names: tuple[str, ...] = ()
    root_markers: tuple[str, ...] = (".git",)
    keeps_cwd: bool = False  # `cwd` is canonical: do not follow a link that replaced it
    sandbox: SandboxPolicy | None = None  # files that a profile denies to agents are skipped


class _FileSkipped(Exception):
    """A file exists but must not be read; the text says why."""


class _FoundFile(Value):
    """A guidance file as far as it was read. `size_bytes`: of all of it."""

    path: str
    text: str
    size_bytes: int
    problem: str = ""  # wrong bytes


class _Fitted(Value):
    """What is told of one file. `text` ends in a mark if `left_out_bytes` are not in it."""

    text: str
    kept_bytes: int
    left_out_bytes: int = 0


def load_guidance(cwd: Path, *, config_folder: Path, rules: GuidanceRules) -> Guidance:
    """Read the person's file, then one file per folder from the project's root down to `cwd`.

    The budget is given from `cwd` upwards: what is nearest to the work is the last to be cut.

    Args:
        cwd: Absolute.
        config_folder: Holds the person's own AGENTS.md, which the budget does not limit.
        rules: Byte budget of all project files together (0: none are read), and file names.
    """
    own = _read_personal(config_folder)
    chain = _Chain(rules)
    for root, folder in _project_folders(cwd, rules):
        chain.add(folder, root)
    project = "\n\n".join(chain.texts())
    return Guidance(
        text=_SEPARATOR.join(part for part in (own.text, project) if part),
        warnings=(*chain.refused, *own.warnings, *reversed(chain.warnings)),
        left_bytes=chain.left_bytes,
        refused=tuple(chain.refused),
        files=(*own.files, *reversed(chain.files)),
    )


class _Chain:
    """The project's files, gathered from the working folder upwards; lists are in that order."""

    def __init__(self, rules: GuidanceRules) -> None:
        self._rules = rules
        self._parts: list[str] = []
        self._left_out: list[str] = []
        self.left_bytes = max(0, rules.limit_bytes)
        self.files: list[TextSize] = []
        self.warnings: list[str] = []
        self.refused: list[str] = []

    def add(self, folder: Path, root: Path) -> None:
        """Read the folder's file, as far as the budget allows."""
        try:
            found = _read_in(folder, root, self._rules, left_bytes=self.left_bytes)
        except _FileSkipped as skipped:
            self.refused.append(str(skipped))
            return
        except OSError as error:
            self.warnings.append(_unreadable(folder, error))
            return
        if found is None:
            return
        why = f"project_doc_max_bytes is {self._rules.limit_bytes:,}"
        is_first = self.left_bytes == self._rules.limit_bytes
        fitted = _fit(found, self.left_bytes, why, cuts_lines=is_first)
        if not fitted.kept_bytes:
            self._left_out.append(f"{found.path} ({found.size_bytes:,} bytes)")
            self.warnings.append(f"{found.path} is left out: {why}, {_ADVICE}")
            return
        if found.problem:
            self.warnings.append(_wrong_bytes(found))
        if fitted.left_out_bytes:
            self.warnings.append(_cut_warning(found, fitted, f"{why}, {_ADVICE}"))
        self._parts.append(fitted.text)
        self.files.append(TextSize(name=found.path, size_bytes=len(fitted.text.encode())))
        self.left_bytes -= fitted.kept_bytes
        if fitted.left_out_bytes:
            self.left_bytes = 0  # no crumbs of a farther folder's file

    def texts(self) -> Iterator[str]:
        """From the root down; which files are left out is told first."""
        if self._left_out:
            named = ", ".join(reversed(self._left_out[:_MOST_NAMED]))
            more = len(self._left_out) - _MOST_NAMED
            rest = f" and {more} more in folders above" if more > 0 else ""
            yield (
                f"[Left out here, for project_doc_max_bytes is {self._rules.limit_bytes:,}: "
                f"{named}{rest}. Read them there when you work on what they may be about.]"
            )
        yield from reversed(self._parts)


def load_folder_guidance(folder: Path, *, root: Path, rules: GuidanceRules) -> Guidance:
    """The file of one folder, for an agent that starts to work there; empty if there is none.

    Args:
        folder: Below `root`; both are canonical paths.
        root: Links may not lead outside it.
        rules: `limit_bytes` is the rest of the budget; at 0 the text only says where the file is.
    """
    left = max(0, rules.limit_bytes)
    try:
        found = _read_in(folder, root, rules, left_bytes=left)
    except _FileSkipped as skipped:
        return Guidance(warnings=(str(skipped),))
    except OSError as error:
        return Guidance(warnings=(_unreadable(folder, error),))
    if found is None:
        return Guidance(left_bytes=left)
    why = "the files of this project use up project_doc_max_bytes"
    fitted = _fit(found, left, why)
    warnings = [_wrong_bytes(found)] if found.problem else []
    if fitted.left_out_bytes:
        warnings.append(_cut_warning(found, fitted, f"{why}, {_ADVICE}"))
    is_cut = fitted.kept_bytes and fitted.left_out_bytes
    left = 0 if is_cut else max(0, left - fitted.kept_bytes)
    return Guidance(text=fitted.text, warnings=tuple(warnings), left_bytes=left)


def _read_in(
    folder: Path, root: Path, rules: GuidanceRules, *, left_bytes: int
) -> _FoundFile | None:
    """The folder's file; None if there is none, or nothing in it. Raises as `_open_in`."""
    found = _open_in(folder, root, rules)
    return None if found is None else _read(found[0], found[1], left_bytes)


def _read(path: Path, fd: int, left_bytes: int) -> _FoundFile | None:
    """Read as much as may be told, whatever it is encoded in; closes `fd`. Raises OSError."""
    on_disk = os.fstat(fd).st_size
    data = read_start(fd, most_bytes=_WIDEST_BYTES * (left_bytes + 2))
    is_whole = len(data) >= on_disk
    written = decode_leniently(data, is_whole=is_whole)
    if is_whole and not written.text.strip():
        return None
    size = len(written.text.encode())
    if not is_whole:  # as many bytes of UTF-8 as the rest is likely to have
        size = on_disk * size // max(1, len(data))
    return _FoundFile(
        path=_shown(path), text=written.text, size_bytes=size, problem=written.problem
    )


def _fit(found: _FoundFile, left_bytes: int, why: str, *, cuts_lines: bool = False) -> _Fitted:
    """The file, cut at the end of a line if it has more bytes than are left.

    `cuts_lines`: if not even the first line fits, what fits of it is better than nothing.
    """
    data = found.text.encode()
    if found.size_bytes <= left_bytes:
        return _Fitted(text=found.text, kept_bytes=len(data))
    kept = data[:left_bytes]
    lines_end = max(kept.rfind(b"\n"), kept.rfind(b"\r")) + 1
    if lines_end or not cuts_lines:
        kept = kept[:lines_end]
    text = kept.decode("utf-8", "ignore").rstrip()
    left_out = max(1, found.size_bytes - len(kept))
    line = len(text.splitlines()) + 1 if lines_end else 1
    where = f"from line {line} on " if text else ""
    mark = (
        f"[Left out {where}here: {left_out:,} bytes of {found.path}, for {why}. "
        "Read the rest there when you work on what it may be about.]"
    )
    kept_bytes = len(kept) if text else 0
    text = f"{text}\n{mark}" if text else mark
    return _Fitted(text=text, kept_bytes=kept_bytes, left_out_bytes=left_out)


def _cut_warning(found: _FoundFile, fitted: _Fitted, why: str) -> str:
    return f"{found.path} is cut after {fitted.kept_bytes:,} of {found.size_bytes:,} bytes: {why}"


def _wrong_bytes(found: _FoundFile) -> str:
    return f"{found.path}, {found.problem}: agents read U+FFFD there; save the file as UTF-8"


def _unreadable(folder: Path, error: OSError) -> str:
    return f"{_shown(folder)}: its AGENTS.md cannot be read: {error.strerror}"


def _shown(path: Path) -> str:
    """The path as text that every message can hold."""
    return os.fsencode(path).decode("utf-8", "replace")


def _open_in(folder: Path, root: Path, rules: GuidanceRules) -> tuple[Path, int] | None:
    """Open the folder's first regular guidance file; FIFOs and devices are skipped.

    Raises _FileSkipped for a file that must not be read, and OSError.
    """
    for name in (*_NAMES, *(name for name in rules.fallback_names if "/" not in name)):
        path = folder / name
        try:
            fd = _open(path, root, rules)
            return path, require_regular_file(fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
    return None


_NO_FILE = (errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)


def _open(path: Path, root: Path, rules: GuidanceRules) -> int:
    """Open a path without links directly; else check the link's target and open exactly that."""
    real = str(path)
    try:
        fd = open_canonical(real, READ_FLAGS)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        real = resolve_links(path)
        if real == str(path):
            raise  # a link loop
        _check(path, real, root, rules)
        return open_canonical(real, READ_FLAGS)
    try:
        _check(path, real, root, rules)
    except _FileSkipped:
        os.close(fd)
        raise
    return fd


def _check(path: Path, real: str, root: Path, rules: GuidanceRules) -> None:
    if not is_within(real, str(root)):
        raise _FileSkipped(
            f"{path} is left out: it leads out of {root}; copy it there, or put what all your "
            "projects share into your own AGENTS.md"
        )
    policy = rules.sandbox
    if not isinstance(policy, ProfilePolicy):
        return
    is_closed = is_explicitly_denied(policy, real)
    if is_closed or (real != str(path) and not may_read(policy, real)):
        raise _FileSkipped(f"{path} is left out: the permission profile denies agents what it says")


def _read_personal(folder: Path) -> Guidance:
    warnings: list[str] = []
    for name in _NAMES:
        path = folder / name
        try:
            found = _read(path, open_user_file(path), _PERSONAL_BYTES)
        except OSError as error:
            if error.errno not in (errno.ENOENT, *_NO_FILE):
                warnings.append(f"{_shown(path)} cannot be read: {error.strerror}")
            continue
        if found is None:
            continue
        if found.problem:
            warnings.append(_wrong_bytes(found))
        why = f"your own file may have {_PERSONAL_BYTES >> 10} KiB"
        fitted = _fit(found, _PERSONAL_BYTES, why, cuts_lines=True)
        if fitted.left_out_bytes:
            warnings.append(_cut_warning(found, fitted, why))
        text = fitted.text.strip()
        size = TextSize(name=found.path, size_bytes=len(text.encode()))
        return Guidance(text=text, warnings=tuple(warnings), files=(size,))
    return Guidance(warnings=tuple(warnings))


def _project_folders(cwd: Path, rules: GuidanceRules) -> Iterator[tuple[Path, Path]]:
    """The project's root, with each folder from `cwd` up to the root."""
    if rules.limit_bytes <= 0:
        return
    real = cwd if rules.keeps_cwd else Path(resolve_links(cwd))
    root = find_project_root(real, rules.root_markers)
    for folder in (real, *real.parents):
        if folder.is_relative_to(root):
            yield root, folder


def find_project_root(cwd: Path, markers: Sequence[str]) -> Path:
    """The nearest folder from `cwd` upwards that holds a marker; `cwd` if there is none."""
    for folder in (cwd, *cwd.parents):
        if any((folder / marker).exists() for marker in markers):
            return folder
    return cwd
