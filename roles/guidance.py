"""Loads AGENTS.md files: instructions from a project and a person for every agent.

Never reads a file outside the project, even through a link, nor one that the agents' profile
denies; never reads more than the byte budget. Truncated and skipped files are reported. Source:
Codex `project_doc.rs`, which truncates without a warning.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from swarm.mailbox.path_rules import is_explicitly_denied, is_within, may_read
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.context_sizes import TextSize
from swarm.mailbox.protocol.limits import ProfilePolicy, SandboxPolicy
from swarm.mailbox.safe_open import (
    READ_FLAGS,
    open_canonical,
    open_user_file,
    read_start,
    require_regular_file,
    resolve_links,
)

BUDGET_BYTES = 32 * 1024
_NAMES = ("AGENTS.override.md", "AGENTS.md")
_PERSONAL_BYTES = 256 * 1024
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


def load_guidance(cwd: Path, *, config_folder: Path, rules: GuidanceRules) -> Guidance:
    """Read the person's file, then one file per folder from the project's root down to `cwd`.

    Args:
        cwd: Absolute.
        config_folder: Holds the person's own AGENTS.md, which the budget does not limit.
        rules: Byte budget of all project files together (0: none are read), and file names.
    """
    personal, files = _read_personal(config_folder)
    parts: list[str] = []
    warnings: list[str] = []
    refused: list[str] = []
    left = rules.limit_bytes
    for root, folder in _project_folders(cwd, rules):
        try:
            found = _open_in(folder, root, rules)
            if found is None:
                continue
            path, data = found[0], read_start(found[1], most_bytes=max(left, 0) + 1)
        except _FileSkipped as why:
            refused.append(str(why))
            continue
        except OSError as error:
            warnings.append(f"{folder}: its AGENTS.md cannot be read: {error.strerror}")
            continue
        if not data.strip():
            continue
        if left <= 0:
            warnings.append(f"{path} is left out: {_budget_text(rules.limit_bytes)}")
            continue
        if len(data) > left:
            warnings.append(
                f"{path} is cut after {left:,} bytes: {_budget_text(rules.limit_bytes)}"
            )
        parts.append(data[:left].decode("utf-8", "replace"))
        files.append(TextSize(name=str(path), size_bytes=len(data[:left])))
        left -= len(data)
    project = "\n\n".join(parts)
    text = _SEPARATOR.join(part for part in (personal, project) if part)
    return Guidance(
        text=text,
        warnings=(*refused, *warnings),
        left_bytes=max(0, left),
        refused=tuple(refused),
        files=tuple(files),
    )


def load_folder_guidance(folder: Path, *, root: Path, rules: GuidanceRules) -> Guidance:
    """The file of one folder, for an agent that starts to work there; empty if there is none.

    Args:
        folder: Below `root`; both are canonical paths.
        root: Links may not lead outside it.
        rules: `limit_bytes` is the rest of the budget.
    """
    if rules.limit_bytes <= 0:
        return Guidance()
    try:
        found = _open_in(folder, root, rules)
        if found is None:
            return Guidance()
        path, data = found[0], read_start(found[1], most_bytes=rules.limit_bytes + 1)
    except _FileSkipped as why:
        return Guidance(warnings=(str(why),))
    except OSError as error:
        return Guidance(warnings=(f"{folder}: its AGENTS.md cannot be read: {error.strerror}",))
    if not data.strip():
        return Guidance()
    text = data[: rules.limit_bytes].decode("utf-8", "replace")
    warnings: tuple[str, ...] = ()
    if len(data) > rules.limit_bytes:
        text += "\n[cut here: project_doc_max_bytes is used up]"
        warnings = (f"{path} is cut after {rules.limit_bytes:,} bytes: all files are over budget",)
    left = max(0, rules.limit_bytes - len(data))
    return Guidance(text=text, warnings=warnings, left_bytes=left)


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


def _budget_text(limit_bytes: int) -> str:
    return f"project_doc_max_bytes is {limit_bytes:,}; raise it or shorten the files"


def _read_personal(folder: Path) -> tuple[str, list[TextSize]]:
    for name in _NAMES:
        path = folder / name
        try:
            data = read_start(open_user_file(path), most_bytes=_PERSONAL_BYTES)
            text = data.decode("utf-8", "replace").strip()
        except OSError:
            continue
        if text:
            return text, [TextSize(name=str(path), size_bytes=len(text.encode()))]
    return "", []


def _project_folders(cwd: Path, rules: GuidanceRules) -> Iterator[tuple[Path, Path]]:
    """The project's root, with each folder from the root down to `cwd`."""
    if rules.limit_bytes <= 0:
        return
    real = cwd if rules.keeps_cwd else Path(resolve_links(cwd))
    root = find_project_root(real, rules.root_markers)
    for folder in reversed([one for one in (real, *real.parents) if one.is_relative_to(root)]):
        yield root, folder


def find_project_root(cwd: Path, markers: Sequence[str]) -> Path:
    """The nearest folder from `cwd` upwards that holds a marker; `cwd` if there is none."""
    for folder in (cwd, *cwd.parents):
        if any((folder / marker).exists() for marker in markers):
            return folder
    return cwd
