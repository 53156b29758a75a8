"""Makes a git branch of an agent's change: one commit on HEAD, by `git fast-import`.

Git runs in the sandbox, first read-only to find the repository, then with the repository's own
folder as its only writable one. Hooks, filters and transports are off; the working folder and the
index are not touched. Blocks.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.path_rules import is_within

from ..file_history.content_store import ContentStore, FileEntry
from ..runs.paths import find_user_paths

_SANDBOX = (sys.executable, "-P", "-m", "swarm.worker.sandbox.sandbox_command")
_LIMIT_S = 120.0
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0",
    "maintenance.auto=false", "core.attributesFile=/dev/null", "fastimport.unpackLimit=100000",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_WHO = b"swarm <swarm@localhost>"


Edit = tuple[FileEntry, FileEntry]


class BranchFailed(SwarmError):
    """No branch was made."""


class _Repository(msgspec.Struct, frozen=True):
    top: str
    folder: str  # with refs and objects, also of a worktree
    head: str


def make_branch(
    edits: Sequence[Edit],
    cwd: str,
    store: ContentStore,
    name: str,
    *,
    message: str,
    environment: Mapping[str, str],
) -> str:
    """Make the branch; returns the commit's short id. Raises UsageError, BranchFailed.

    Args:
        edits: The state of each path before and after; contents are in the store.
        cwd: In the working folder of the repository.
    """
    if not _NAME.fullmatch(name) or ".." in name or "//" in name or name.endswith(("/", ".lock")):
        raise UsageError(f"{name!r} is no name of a branch")
    hidden = find_user_paths(dict(environment)).hidden
    git = _Git(hidden, _clean(environment))
    repository = git.find(cwd)
    if git.has(repository, f"refs/heads/{name}"):
        raise UsageError(f"there is a branch {name} already")
    with tempfile.TemporaryFile() as stream:
        _write_stream(stream, edits, store, repository, f"refs/heads/{name}", message)
        stream.seek(0)
        git.run(("fast-import", "--quiet", "--done"), repository.folder, writes=True, stdin=stream)
    return git.run(("rev-parse", "--short", f"refs/heads/{name}"), repository.folder).strip()


class _Git:
    def __init__(self, hidden: tuple[str, ...], environment: dict[str, str]) -> None:
        self._masks = [word for path in hidden for word in ("--hide", path)]
        self._environment = environment

    def find(self, cwd: str) -> _Repository:
        said = self.run(
            ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir",
             "--verify", "HEAD"),
            cwd,
        )  # fmt: skip
        lines = said.splitlines()
        if len(lines) != 3:
            raise BranchFailed(f"{cwd} is no working folder of a git repository with a commit")
        return _Repository(*lines)

    def has(self, repository: _Repository, ref: str) -> bool:
        words = ("for-each-ref", "--count=1", "--format=%(refname)", ref)
        return bool(self.run(words, repository.folder).strip())

    def run(
        self,
        words: tuple[str, ...],
        folder: str,
        *,
        writes: bool = False,
        stdin: IO[bytes] | None = None,
    ) -> str:
        """The output. Raises BranchFailed."""
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        policy = "workspace-write" if writes else "read-only"
        argv = [*_SANDBOX, "-s", policy, "-C", folder, *self._masks, "--", "git", *settings, *words]
        try:
            ended = subprocess.run(
                argv, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S,
                check=False, env=self._environment, cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise BranchFailed(f"git took longer than {_LIMIT_S:g} s") from error
        if ended.returncode != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()[-600:]
            raise BranchFailed(f"git in {folder}: {said or 'it said nothing'}")
        return ended.stdout.decode("utf-8", "replace")


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for git: none that names a repository or a program."""
    kept = {key: one for key, one in environment.items() if not key.startswith("GIT_")}
    return kept | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
    }


def _write_stream(  # noqa: PLR0917 - what one commit consists of
    stream: IO[bytes],
    edits: Sequence[Edit],
    store: ContentStore,
    repository: _Repository,
    ref: str,
    message: str,
) -> None:
    text = message.encode("utf-8", "replace")
    stream.write(b"commit %b\ncommitter %b %d +0000\n" % (ref.encode(), _WHO, int(time.time())))
    stream.write(b"data %d\n%b\nfrom %b\n" % (len(text), text, repository.head.encode()))
    for before, after in edits:
        if not is_within(after.path, repository.top):
            raise BranchFailed(f"{after.path} lies outside of the repository {repository.top}")
        name = _quoted(os.path.relpath(after.path, repository.top))
        if after.kind == "absent" and before.kind != "folder":
            stream.write(b"D %b\n" % name)
        elif after.kind in ("file", "link"):
            data = _contents(after, store)
            stream.write(b"M %b inline %b\n" % (_mode(after), name))
            stream.write(b"data %d\n%b\n" % (len(data), data))
    stream.write(b"done\n")


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
        for sign in name.encode()
    )
    return b'"' + b"".join(plain) + b'"'
