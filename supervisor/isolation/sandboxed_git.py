"""Runs git on a person's repository: in the sandbox, without hooks, filters and transports.

What agents made may be in the repository, so git reads it where it can do no harm: read-only, or
with the repository's own folder as its only writable one. Blocks.
"""

import subprocess
import sys
from collections.abc import Mapping
from typing import IO

import msgspec

from swarm.mailbox.errors import SwarmError

from ..runs.paths import find_user_paths

_SANDBOX = (sys.executable, "-P", "-m", "swarm.worker.sandbox.sandbox_command")
_LIMIT_S = 120.0
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "protocol.allow=never", "gc.auto=0",
    "maintenance.auto=false", "core.attributesFile=/dev/null", "fastimport.unpackLimit=100000",
)  # fmt: skip


class BranchFailed(SwarmError):
    """No branch was made."""


class Repository(msgspec.Struct, frozen=True):
    top: str
    folder: str  # with refs and objects, also of a worktree
    head: str


class SandboxedGit:
    """`environment`: the person's; variables that name a repository or a program are dropped."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        hidden = find_user_paths(dict(environment)).hidden
        self._masks = [word for path in hidden for word in ("--hide", path)]
        self._environment = _clean(environment)

    def find(self, cwd: str) -> Repository:
        """The repository whose working folder this is. Raises BranchFailed."""
        said = self.run(
            ("rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir",
             "--verify", "HEAD"),
            cwd,
        )  # fmt: skip
        lines = said.splitlines()
        if len(lines) != 3:
            raise BranchFailed(f"{cwd} is no working folder of a git repository with a commit")
        return Repository(*lines)

    def has(self, repository: Repository, ref: str) -> bool:
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
        return ended.stdout.decode("utf-8", "surrogateescape")


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
