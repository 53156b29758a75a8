"""Fetches one commit of a git repository, in the sandbox, and reads its files from an archive.

The repository is hostile: nothing is checked out, so no filter, hook, link or configuration of it
is ever read by git, and submodules are not fetched. git writes only its own new folder.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import UnheldProgram, find_own_program, held_environment
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.remove_tree import remove_tree
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.parts.plugins.files.plugin_tree import LeftOut, TreeFile

from ...request.run_places import project_lookup
from .archive_tree import read_archive

LIMIT_S = 120.0
_SANDBOX = (sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_command")
_SANDBOX_FAILED = 125
_MAX_BYTES = 256 << 20  # of any file that git writes
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.attributesFile=/dev/null",
    "core.symlinks=false", "core.protectHFS=true", "core.protectNTFS=true",
    "fetch.fsckObjects=true", "fetch.recurseSubmodules=false", "submodule.recurse=false",
    "gc.auto=0", "maintenance.auto=false", "protocol.ext.allow=never", "protocol.file.allow=never",
    "filter.lfs.smudge=", "filter.lfs.process=", "filter.lfs.required=false",
    "tar.umask=0077", "uploadpack.packObjectsHook=", "credential.interactive=false",
)  # fmt: skip
# Of git's variables only these, which say how the person reaches a server.
_KEPT = frozenset(
    {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_PROXY_SSL_CAINFO"}
)


class NotFetched(SwarmError):
    """The repository could not be fetched; nothing has changed."""


class FetchedTree(Value):
    """The files of one commit."""

    revision: str
    files: tuple[TreeFile | LeftOut, ...]


def fetch_git(
    url: str,
    *,
    ref: str,
    staging: Path,
    hidden: tuple[str, ...],
    path: str = "",
    only: tuple[str, ...] = (),
) -> FetchedTree:
    """Fetch a commit with depth 1 and read its files below `path`.

    Args:
        url: A checked address (`marketplace_file.git_url`).
        ref: A checked branch, tag or commit; "" = the repository's own default.
        staging: A folder of the person's own in which a new one is made, and removed.
        hidden: What git must not see: the folders of runs.
        path: A checked folder of the repository; its files' names begin below it.
        only: Checked paths of files and folders; nothing else is read. Those that are not there
            are passed over. () = everything.

    Raises:
        NotFetched: Also if there is no sandbox.
        UsageError: The repository holds too much, or names that lead out.
    """
    folder = staging / secrets.token_hex(8)
    try:
        make_own_folders(folder, exist_ok=False)
        git = _Git(folder, url, hidden)
        git.run("init", "-q", "--bare", "--template=", "repository")
        inside = ("--git-dir=repository",)
        git.run(
            *inside, "fetch", "-q", "--depth=1", "--no-tags", "--no-recurse-submodules",
            "--no-auto-maintenance", "--", url, ref or "HEAD",
        )  # fmt: skip
        revision = git.run(*inside, "rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
        tree = f"{revision}:{path}" if path else revision
        present = _present(git, revision, only) if only else ()
        git.run(
            "--literal-pathspecs", *inside, "archive", "--format=tar", "--output=files.tar",
            tree, "--", *present,
        )  # fmt: skip
        return FetchedTree(revision=revision, files=tuple(read_archive(folder / "files.tar")))
    except OSError as error:
        raise NotFetched(f"{url}: it could not be fetched: {error}") from error
    finally:
        with suppress(OSError):
            remove_tree(folder)


def _present(git: "_Git", revision: str, only: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the paths that the commit has. Raises NotFetched if it has none."""
    listed = git.run(
        "--literal-pathspecs", "--git-dir=repository", "ls-tree", "-z", "--name-only", revision,
        "--", *only,
    )  # fmt: skip
    found = tuple(name for name in listed.split("\0") if name)
    if not found:
        raise NotFetched(f"the repository has none of the paths {', '.join(only)}")
    return found


def clean_environment(environment: Mapping[str, str], url: str) -> dict[str, str]:
    """The variables for git: none that names a repository, a program or another protocol."""
    kept = {
        key: value
        for key, value in environment.items()
        if not key.startswith("GIT_") or key in _KEPT
    }
    protocols = "https:ssh:http" if url.startswith("http://") else "https:ssh"
    return kept | {
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
    }


class _Git:
    """Runs git in its folder, in the sandbox, with the network and within limits."""

    def __init__(self, folder: Path, url: str, hidden: tuple[str, ...]) -> None:
        self._folder, self._url, self._hidden = folder, url, hidden
        self._lookup = project_lookup(os.environ, str(Path.cwd()))

    def _program(self) -> str:
        """git with the network must be the person's own. Raises NotFetched."""
        found = find_own_program("git", self._lookup)
        if isinstance(found, UnheldProgram):
            raise NotFetched(f"{self._url}: git is not started: {found.reason}")
        return found.path

    def run(self, *words: str) -> str:
        """The output. Raises NotFetched."""
        masks = [word for path in self._hidden for word in ("--hide", path)]
        settings = [word for one in _SETTINGS for word in ("-c", one)]
        environment = clean_environment(os.environ, self._url)
        limit = f'ulimit -f {_MAX_BYTES // 512}; exec "$@"'
        argv = [
            *_SANDBOX, "-s", "workspace-write", "--network", "-C", str(self._folder), *masks, "--",
            "/bin/sh", "-c", limit, "sh", self._program(), *settings, *words,
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False,
                env=held_environment(environment, self._lookup), cwd=self._folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise NotFetched(f"{self._url}: it took longer than {LIMIT_S:g} s") from error
        complaint = ended.stderr.decode("utf-8", "replace").strip()[-600:]
        if ended.returncode == _SANDBOX_FAILED:
            raise NotFetched(f"{self._url}: git is run in the sandbox alone: {complaint}")
        if ended.returncode != 0:
            raise NotFetched(
                f"{self._url}: git could not fetch it: {complaint or 'it said nothing'}; what was "
                "installed before stays as it is"
            )
        return ended.stdout.decode("utf-8", "replace")
