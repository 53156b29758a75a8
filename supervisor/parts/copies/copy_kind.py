"""Which kind of copies of a project this machine can have."""

import os
from pathlib import Path

from ...processes.machine_sandbox import SandboxMissing, SandboxProbeFailed, probe_sandbox
from ...request.run_request import CopyKind


def find_copy_kind(runs: Path) -> CopyKind:
    """Overlays where they work, else folders of their own. Tries it in a process; blocks.

    `runs`: the folder of all runs, below which layers lie: file systems differ in what an overlay
    can lie on. It need not exist.

    Raises SandboxMissing that says why no agent can work in a copy here.
    """
    existing = next(one for one in (runs, *runs.parents) if one.is_dir())
    writable = os.access(existing, os.W_OK | os.X_OK)
    try:
        report = probe_sandbox(existing if writable else None)
    except SandboxProbeFailed as error:
        raise SandboxMissing(f"copies of the project {error}") from error
    if report.copies is None:
        return "overlay"
    if report.stack != "none":
        return "tree"
    raise SandboxMissing(f"no agent can work in a copy of the project here: {report.copies}")
