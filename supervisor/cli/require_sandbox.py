"""`--require-sandbox`: fail instead of running with fewer guarantees than the person required."""

import subprocess
import sys
from collections.abc import Sequence

import msgspec

from swarm.mailbox.errors import SwarmError

_PROBE_LIMIT_S = 20.0


class SandboxMissing(SwarmError):
    """This machine cannot guarantee what `--require-sandbox` requires; nothing was started."""

    exit_code = 6


class _Report(msgspec.Struct):
    guarantees: list[str] = []
    locks_roles: bool = False


def check_required_sandbox(required: Sequence[str]) -> None:
    """Test the sandbox in a separate process. Raises SandboxMissing."""
    if not required:
        return
    words = [sys.executable, "-P", "-m", "swarm.worker.sandbox.sandbox_report"]
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_LIMIT_S
        )
        report = msgspec.json.decode(done.stdout, type=_Report)
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SandboxMissing(f"the sandbox cannot be tried: {error}") from error
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
