"""`--require-sandbox`: fail instead of running with fewer guarantees than the person required."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError

from ..runs.paths import find_user_paths

_PROBE_LIMIT_S = 20.0


class SandboxMissing(SwarmError):
    """This machine cannot guarantee what `--require-sandbox` requires; nothing was started."""

    exit_code = 6


class SandboxProbeFailed(SandboxMissing):
    """The probe could not be run, or its report cannot be read."""


class ProbeFinding(msgspec.Struct):
    name: str
    works: bool
    detail: str = ""
    fix: str = ""


class ProbeReport(msgspec.Struct):
    """What the worker's `sandbox_report` prints; missing fields guarantee nothing."""

    stack: str = "none"
    guarantees: list[str] = []
    findings: list[ProbeFinding] = []
    locks_roles: bool = False
    copies: str | None = "this machine was not asked"  # why there are none; None: they work


def probe_sandbox(folder: Path | None = None) -> ProbeReport:
    """Test the sandbox of this machine in a separate process.

    `folder`: where copies of a project are tried; None: in the temporary folder.

    Raises SandboxProbeFailed.
    """
    argv = [sys.executable, "-P", "-m", "swarm.worker.sandbox.sandbox_report"]
    argv += [] if folder is None else [str(folder)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S
        )
        return msgspec.json.decode(done.stdout, type=ProbeReport)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SandboxProbeFailed(f"cannot be tried: {error}") from error


def check_copies() -> None:
    """Raises SandboxMissing if no agent can work in a copy of the project here."""
    runs = find_user_paths(dict(os.environ)).runs
    existing = next(one for one in (runs, *runs.parents) if one.is_dir())
    writable = os.access(existing, os.W_OK | os.X_OK)
    try:  # where the copies will lie: file systems differ in what an overlay can lie on
        why = probe_sandbox(existing if writable else None).copies
    except SandboxProbeFailed as error:
        raise SandboxMissing(f"copies of the project {error}") from error
    if why is not None:
        raise SandboxMissing(f"no agent can work in a copy of the project here: {why}")


def check_required_sandbox(required: Sequence[str]) -> None:
    """Raises SandboxMissing if this machine does not guarantee all that is required."""
    if not required:
        return
    try:
        report = probe_sandbox()
    except SandboxProbeFailed as error:
        raise SandboxMissing(f"the sandbox {error}") from error
    missing = [one for one in required if one not in report.guarantees]
    if missing:
        raise SandboxMissing(
            f"--require-sandbox {','.join(required)}: this machine cannot guarantee "
            f"{' and '.join(missing)}; `swarm doctor` says why and how to mend it"
        )
    if "fs" in required and not report.locks_roles:
        raise SandboxMissing(
            f"--require-sandbox {','.join(required)}: this kernel has no Landlock (ABI 3), with "
            "which agents of read-only roles and the reviewer lock their own processes; "
            "`swarm doctor` says how to mend it"
        )
