"""What the sandbox of this machine can do: asks the worker's report, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import msgspec

from swarm.mailbox.base.errors import SwarmError

_PROBE_LIMIT_S = 20.0


class SandboxMissing(SwarmError):
    """This machine cannot guarantee what a run requires; nothing was started."""

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
    copies: str | None = "this machine was not asked"  # why no overlay works; None: it does


def probe_sandbox(folder: Path | None = None) -> ProbeReport:
    """Test the sandbox of this machine in a separate process. Blocks.

    `folder`: where copies of a project are tried; None: in the temporary folder.

    Raises SandboxProbeFailed.
    """
    argv = [sys.executable, "-P", "-m", "swarm.worker.programs.sandbox_report"]
    argv += [] if folder is None else [str(folder)]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S
        )
        return msgspec.json.decode(done.stdout, type=ProbeReport)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SandboxProbeFailed(f"cannot be tried: {error}") from error
