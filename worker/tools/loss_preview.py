"""Preview of what a destructive command would delete, computed before approval is requested.

The preview changes nothing: it walks folders and runs reading git commands in the read-only sandbox
without the repository's hooks, both limited in time and number. A loss that cannot be determined is
reported as unknown; a command that is known to lose nothing has no loss.
"""

import glob
import os
import posixpath
import stat
import time
from collections.abc import Sequence
from itertools import islice

import humanize
import msgspec
import trio

from swarm.mailbox.base.safe_open import exists_no_follow, scan_folder, stat_no_follow
from swarm.mailbox.protocol.approvals import LossPreview
from swarm.mailbox.protocol.requests import MAX_KEPT_BYTES, MAX_KEPT_FILES
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ReadOnly

from ..exec.exec_outcome import ExecFailed, ExecRequest
from ..exec.exec_sessions import ExecSessions
from ..policy.destructive_commands import DestructiveCommand, find_destructive_commands
from ..policy.shell_parser import Words

_MAX_SHOWN = 20
_MAX_MATCHES = 2_000
_LOOK_S = 2.0
_GIT_MS = 5_000
_QUIET_GIT: Words = (
    "git", "--no-optional-locks", "--no-pager",
    "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
)  # fmt: skip
_WOULD_REMOVE = "Would remove "
TOO_MUCH = (
    f" That is more than the {MAX_KEPT_BYTES >> 20} MiB or {MAX_KEPT_FILES:,} files that are "
    "copied before a command: no copy is kept, and nothing brings it back."
)


class PredictedLoss(Value):
    """`keep`: absolute paths of files and folders; a copy of them would restore the whole loss."""

    preview: LossPreview
    kinds: tuple[str, ...]
    keep: tuple[str, ...] = ()


class _Loss(msgspec.Struct):
    """The accumulated loss of one destructive command."""

    files: list[str] = []
    count: int = 0
    size: int = 0
    lines: list[str] = []  # commits
    unknown: list[str] = []
    keep: list[str] = []
    is_whole: bool = True  # everything was seen


async def predict_loss(
    argv: Sequence[str], cwd: str, commands: ExecSessions
) -> PredictedLoss | None:
    """Return the loss; None if the command destroys nothing that exists. Raises only Cancelled."""
    found = find_destructive_commands(argv)
    if not found:
        return None
    losses = [await _measure_loss(one, cwd, commands) for one in found]
    real = [
        (one, loss)
        for one, loss in zip(found, losses, strict=True)
        if loss.count or loss.lines or loss.unknown or not one.losses_are_files
    ]
    if not real:
        return None
    return _combine_losses(real, cwd)


def _combine_losses(real: list[tuple[DestructiveCommand, _Loss]], cwd: str) -> PredictedLoss:
    count = sum(loss.count for _, loss in real)
    size = sum(loss.size for _, loss in real)
    keep = tuple(dict.fromkeys(path for _, loss in real for path in loss.keep))
    too_much = count > MAX_KEPT_FILES or size > MAX_KEPT_BYTES
    whole = all(loss.is_whole and not loss.unknown for _, loss in real)
    all_files = all(one.losses_are_files for one, _ in real)
    files = [path for _, loss in real for path in loss.files]
    lines = [line for _, loss in real for line in loss.lines]
    sentences = [_sentence(one, loss) for one, loss in real]
    preview = LossPreview(
        summary=f"{' '.join(sentences)[:2_000]}{TOO_MUCH if too_much else ''}",
        count=count,
        size_bytes=size,
        paths=tuple([*(_short(path, cwd) for path in files), *lines][:_MAX_SHOWN]),
        kept=whole and all_files and not too_much,
    )
    return PredictedLoss(preview=preview, kinds=tuple(one.kind for one, _ in real), keep=keep)


def _sentence(one: DestructiveCommand, loss: _Loss) -> str:
    """What goes, then which command takes it: a narrow screen cuts the end."""
    what, verb = {
        "remove": ("", "removed by"),
        "clean": ("untracked: ", "removed by"),
        "discard": ("changes in ", "thrown away by"),
        "history": ("history: ", "rewritten by"),
        "push": ("what was pushed: ", "overwritten by"),
    }[one.kind]
    parts: list[str] = []
    if loss.count:
        more = "" if loss.is_whole else "at least "
        size = f" ({humanize.naturalsize(loss.size, binary=True)})" if loss.size else ""
        parts.append(f"{more}{loss.count} file{'s' if loss.count != 1 else ''}{size}")
    if loss.lines:
        parts.append(f"{len(loss.lines)} commit{'s' if len(loss.lines) != 1 else ''}")
    if loss.unknown:
        more = "more" if parts else "an amount"
        parts.append(f"{more} that is not known before ({', '.join(loss.unknown[:5])})")
    if not parts:
        parts.append("the repository's own record of it")
    return f"{what}{', '.join(parts)}, {verb} `{one.shown}`."


def _short(path: str, cwd: str) -> str:
    return path.removeprefix(cwd.rstrip("/") + "/")


async def _measure_loss(one: DestructiveCommand, cwd: str, commands: ExecSessions) -> _Loss:
    folder = _joined(cwd, one.folder)
    loss = _Loss(unknown=list(one.unknown))
    if one.kind == "remove":
        await trio.to_thread.run_sync(_walk_operands, one, folder, loss, abandon_on_cancel=True)
        return loss
    for words in one.dry_runs:
        output = await _ask_git(words, folder, commands)
        if output is None:
            loss.unknown.append("git did not answer")
        elif words[0] == "log":
            loss.lines += [line for line in output.split("\0") if line.strip()]
        else:
            top = await _ask_git(("rev-parse", "--show-toplevel"), folder, commands)
            base = folder if words[0] == "clean" else (top or folder).strip()
            _count_named(_paths_in(output, words[0]), base, loss)
    return loss


async def _ask_git(words: Words, folder: str, commands: ExecSessions) -> str | None:
    """Return the output of a reading git command; None if it failed."""
    request = ExecRequest(
        argv=(*_QUIET_GIT, *words), cwd=folder, policy=ReadOnly(), timeout_ms=_GIT_MS,
        environment={"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
    )  # fmt: skip
    try:
        done = await commands.exec(request)
    except ExecFailed:
        return None
    return done.output if done.exit_code == 0 else None


def _paths_in(output: str, verb: str) -> list[str]:
    if verb == "clean":
        lines = [line for line in output.splitlines() if line.startswith(_WOULD_REMOVE)]
        return [_unquoted(line.removeprefix(_WOULD_REMOVE)) for line in lines]
    return [path for path in output.split("\0") if path]


def _unquoted(path: str) -> str:
    """Remove git's C-style quotes around an unusual name."""
    if len(path) < 2 or not (path.startswith('"') and path.endswith('"')):
        return path
    raw = path[1:-1].encode("latin-1", "replace").decode("unicode_escape")
    return raw.encode("latin-1", "replace").decode("utf-8", "surrogateescape")


def _count_named(paths: Sequence[str], base: str, loss: _Loss) -> None:
    deadline = time.monotonic() + _LOOK_S
    for path in paths:
        _walk(_joined(base, path), loss, deadline)


def _walk_operands(one: DestructiveCommand, folder: str, loss: _Loss) -> None:
    deadline = time.monotonic() + _LOOK_S
    names = list(one.paths)
    for pattern in one.patterns:
        # Unlike Path.glob, this matches like a shell: no hidden names, and `..` is followed.
        matches = glob.iglob(pattern, root_dir=folder)  # noqa: PTH207
        names += islice(matches, _MAX_MATCHES)
    for name in names:
        _walk(_joined(folder, name), loss, deadline)


def _joined(folder: str, step: str) -> str:
    return posixpath.normpath(posixpath.join(folder, step))


def _walk(path: str, loss: _Loss, deadline: float) -> None:
    """Add a file, or all files below a folder. Links are counted, not followed, and neither is a
    link that replaces a folder meanwhile.
    """
    above, _, name = path.rpartition("/")
    waiting = [f"{os.path.realpath(above or '/').rstrip('/')}/{name}"]
    if not exists_no_follow(waiting[0]):
        return
    loss.keep.append(path)
    while waiting:
        one = waiting.pop()
        if loss.count >= MAX_KEPT_FILES or time.monotonic() > deadline:
            loss.is_whole = False
            return
        try:
            facts, _ = stat_no_follow(one)
            if stat.S_ISDIR(facts.st_mode):
                with scan_folder(one) as entries:
                    waiting += sorted((f"{one}/{entry.name}" for entry in entries), reverse=True)
                continue
            loss.size += facts.st_size
        except OSError:
            loss.is_whole = False
            continue
        loss.count += 1
        if len(loss.files) < _MAX_SHOWN:
            loss.files.append(one)
