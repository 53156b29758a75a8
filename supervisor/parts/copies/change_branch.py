"""Makes a git branch of an agent's change: its commits, and one more with what it left besides.

The last commit is made by `git fast-import`. Working folder and index are not touched. Blocks.
"""

import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import IO

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import is_git_name, is_protected_name, is_within

from ..undo.content_store import ContentStore, FileEntry
from .agent_commits import AgentCommits, CommitsUnreadable, find_commits, read_packs
from .copy_folder import AgentCopy, CopyFolder
from .sandboxed_git import BranchFailed, Repository, SandboxedGit

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_WHO = b"swarm <swarm@localhost>"
_MOST_COMMITS = 1000
_SUBMODULE = "160000"

Edit = tuple[FileEntry, FileEntry]


class BranchMade(msgspec.Struct, frozen=True):
    commit: str  # short id of its tip
    commits: int = 0  # of the agent's own
    left_out: str = ""  # why its commits are not in it; their files are


class _Raw(msgspec.Struct, frozen=True):
    """What one commit, or all of them, change at one path."""

    old_mode: str
    new_mode: str
    old_id: str
    path: str


class _Kept(msgspec.Struct, frozen=True):
    """The agent's own commits in the branch."""

    tip: str = ""  # the last of them; "": there is none
    count: int = 0
    restored: tuple[_Raw, ...] = ()  # what they change and its files do not have
    left_out: str = ""


def make_branch(
    edits: Sequence[Edit],
    cwd: str,
    store: ContentStore,
    name: str,
    *,
    message: str,
    environment: Mapping[str, str],
    copied: tuple[CopyFolder, AgentCopy] | None = None,
) -> BranchMade:
    """Make the branch. Raises UsageError, BranchFailed.

    Args:
        edits: The state of each path before and after; contents are in the store.
        cwd: In the working folder of the repository.
        store: The run's.
        name: Of the branch.
        message: Of the last commit.
        environment: The person's.
        copied: The copy whose commits the branch is to keep.
    """
    if not _NAME.fullmatch(name) or ".." in name or "//" in name or name.endswith(("/", ".lock")):
        raise UsageError(f"{name!r} is not a name of a branch")
    git = SandboxedGit(environment)
    repository = git.find(cwd)
    ref = f"refs/heads/{name}"
    if git.has(repository, ref):
        raise UsageError(f"there is a branch {name} already")
    kept = _keep_commits(git, repository, copied, edits)
    with tempfile.TemporaryFile() as stream:
        _write_start(stream, ref, message, kept.tip or repository.head)
        _write_files(stream, edits, store, repository.top)
        _write_restored(stream, kept.restored)
        stream.write(b"done\n")
        stream.seek(0)
        git.run(("fast-import", "--quiet", "--done"), repository.folder, writes=True, stdin=stream)
    if kept.tip:
        _drop_empty_commit(git, repository, ref, kept.tip)
    short = git.run(("rev-parse", "--short", ref), repository.folder).strip()
    return BranchMade(commit=short, commits=kept.count, left_out=kept.left_out)


def _keep_commits(
    git: SandboxedGit,
    repository: Repository,
    copied: tuple[CopyFolder, AgentCopy] | None,
    edits: Sequence[Edit],
) -> _Kept:
    """The agent's own commits, if it made some that can be taken over."""
    if copied is None:
        return _Kept()
    try:
        commits = find_commits(*copied, repository.top)
        if commits is None:
            return _Kept()
        count = _take_commits(git, repository, commits)
        restored = _put_back(git, repository, commits, edits)
    except (CommitsUnreadable, BranchFailed) as error:
        return _Kept(left_out=str(error))
    return _Kept(tip=commits.tip, count=count, restored=restored)


def _take_commits(git: SandboxedGit, repository: Repository, commits: AgentCommits) -> int:
    """Bring the agent's objects into the repository; returns how many commits there are.

    Nothing refers to them yet: what is refused here, git removes in time.

    Raises CommitsUnreadable, BranchFailed.
    """
    folder = repository.folder
    for pack in read_packs(commits):
        with tempfile.TemporaryFile() as file:
            file.write(pack)
            file.seek(0)
            git.run(("index-pack", "--stdin", "--strict"), folder, writes=True, stdin=file)
    span = f"{commits.start}..{commits.tip}"
    git.run(("merge-base", "--is-ancestor", commits.start, commits.tip), folder)
    count = int(git.run(("rev-list", "--count", f"--max-count={_MOST_COMMITS + 1}", span), folder))
    if count > _MOST_COMMITS:
        raise CommitsUnreadable(f"it made more than {_MOST_COMMITS:,} commits")
    words = ("log", "--raw", "-z", "-m", "--format=", "--no-renames", "--no-abbrev", span)
    for one in _raw_changes(git.run(words, folder)):
        steps = one.path.split("/")
        if is_protected_name(steps[0]) or any(is_git_name(step) for step in steps):
            raise CommitsUnreadable(f"they change {one.path}, which is no part of a change")
        if _SUBMODULE in (one.old_mode, one.new_mode):
            raise CommitsUnreadable(f"they change the submodule {one.path}")
    return count


def _put_back(
    git: SandboxedGit, repository: Repository, commits: AgentCommits, edits: Iterable[Edit]
) -> tuple[_Raw, ...]:
    """What the commits change and the agent took back in its files afterwards."""
    words = ("diff-tree", "-r", "-z", "--no-renames", "--no-abbrev", commits.start, commits.tip)
    edited = {after.path for _, after in edits}
    changed = _raw_changes(git.run(words, repository.folder))
    return tuple(one for one in changed if f"{repository.top}/{one.path}" not in edited)


def _raw_changes(said: str) -> list[_Raw]:
    """git's raw format with `-z`: `:MODE MODE ID ID STATUS`, NUL, PATH, NUL."""
    found: list[_Raw] = []
    tokens = iter(said.split("\0"))
    for token in tokens:
        word = token.lstrip("\n")
        if word.startswith(":"):
            old_mode, new_mode, old_id, *_ = word[1:].split(" ")
            found.append(_Raw(old_mode, new_mode, old_id, next(tokens, "")))
    return found


def _drop_empty_commit(git: SandboxedGit, repository: Repository, ref: str, tip: str) -> None:
    """Let the branch end with the agent's last commit if nothing was left besides."""
    said = git.run(("rev-parse", f"{ref}^{{tree}}", f"{tip}^{{tree}}", ref), repository.folder)
    mine, theirs, commit = said.split()
    if mine == theirs:
        git.run(("update-ref", ref, tip, commit), repository.folder, writes=True)


def _write_start(stream: IO[bytes], ref: str, message: str, parent: str) -> None:
    text = message.encode("utf-8", "replace")
    stream.write(b"commit %b\ncommitter %b %d +0000\n" % (ref.encode(), _WHO, int(time.time())))
    stream.write(b"data %d\n%b\nfrom %b\n" % (len(text), text, parent.encode()))


def _write_files(stream: IO[bytes], edits: Iterable[Edit], store: ContentStore, top: str) -> None:
    for before, after in edits:
        if not is_within(after.path, top):
            raise BranchFailed(f"{after.path} lies outside of the repository {top}")
        name = _quoted(os.path.relpath(after.path, top))
        if after.kind == "absent" and before.kind != "folder":
            stream.write(b"D %b\n" % name)
        elif after.kind in ("file", "link"):
            data = _contents(after, store)
            stream.write(b"M %b inline %b\n" % (_mode(after), name))
            stream.write(b"data %d\n%b\n" % (len(data), data))


def _write_restored(stream: IO[bytes], restored: Iterable[_Raw]) -> None:
    for one in restored:
        name = _quoted(one.path)
        if set(one.old_mode) == {"0"}:
            stream.write(b"D %b\n" % name)
        else:
            stream.write(b"M %b %b %b\n" % (one.old_mode.encode(), one.old_id.encode(), name))


def _contents(entry: FileEntry, store: ContentStore) -> bytes:
    if entry.kind == "link":
        return entry.target.encode()
    try:
        return store.read_bytes(entry.sha256)
    except OSError as error:
        raise BranchFailed(f"the run's store cannot be read: {error}") from error


def _mode(entry: FileEntry) -> bytes:
    if entry.kind == "link":
        return b"120000"
    return b"100755" if entry.mode & 0o100 else b"100644"


def _quoted(name: str) -> bytes:
    """A path as fast-import reads it, whatever signs it has."""
    plain = (
        bytes([sign]) if 32 <= sign < 127 and sign not in b'"\\' else b"\\%03o" % sign
        for sign in name.encode("utf-8", "surrogateescape")
    )
    return b'"' + b"".join(plain) + b'"'
