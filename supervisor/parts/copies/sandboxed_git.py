"""Runs git on a person's repository: in the sandbox, without hooks, filters and transports.

What agents made may be in the repository, so git reads it where it can do no harm: read-only, or
with the repository's own folder as its only writable one. Blocks.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import UnheldProgram, find_own_program, held_environment

from ...request.run_places import project_lookup
from ...runs.paths import find_user_paths

_SANDBOX = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")
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
    """git of a folder that agents do not write: in the sandbox it may change a repository's data.

    Args:
        environment: The person's; variables that name a repository or a program are dropped.
        limit_s: Of one command.
    """

    def __init__(self, environment: Mapping[str, str], *, limit_s: float = _LIMIT_S) -> None:
        self._limit_s = limit_s
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
            raise BranchFailed(f"{cwd} is not a working folder of a git repository with a commit")
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
        lookup = project_lookup(self._environment, folder, *_projects(folder))
        git = find_own_program("git", lookup)
        if isinstance(git, UnheldProgram):
            raise BranchFailed(f"git is not started: {git.reason}")
        argv = [*_SANDBOX, "-s", policy, "-C", folder, *self._masks, "--", git.path]
        argv += [*settings, *words]
        try:
            ended = subprocess.run(
                argv, stdin=stdin or subprocess.DEVNULL, capture_output=True, timeout=self._limit_s,
                check=False, env=held_environment(self._environment, lookup), cwd="/",
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise BranchFailed(f"git took longer than {self._limit_s:g} s") from error
        if ended.returncode != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()[-600:]
            raise BranchFailed(f"git in {folder}: {said or 'it said nothing'}")
        return ended.stdout.decode("utf-8", "surrogateescape")


def _projects(folder: str) -> Iterator[str]:
    """The project that a folder of git's belongs to, and where this process is."""
    steps = folder.split("/")
    if ".git" in steps:
        yield "/".join(steps[: steps.index(".git")]) or "/"
    with suppress(FileNotFoundError):
        yield str(Path.cwd())


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
