"""`--require-sandbox`: fail instead of running with fewer guarantees than the person required."""

from collections.abc import Sequence

from swarm.mailbox.base.installation import InstallationExposure, describe_exposure

from ....processes.machine_sandbox import SandboxMissing, SandboxProbeFailed, probe_sandbox


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
            f"{' and '.join(missing)}; `swarm doctor` says why and how to fix it"
        )
    if "fs" in required and not report.locks_roles:
        raise SandboxMissing(
            f"--require-sandbox {','.join(required)}: this kernel has no Landlock (ABI 3), with "
            "which agents of read-only roles and the reviewer lock their own processes; "
            "`swarm doctor` says how to fix it"
        )


def check_installation(required: Sequence[str], found: InstallationExposure) -> None:
    """Raises SandboxMissing if agents could rewrite swarm itself in a run that requires a sandbox.

    Without any sandbox they could too; that is refused by what the run requires of the machine.
    """
    if "fs" in required and found.open and not found.everywhere:
        raise SandboxMissing(f"--require-sandbox {','.join(required)}: {describe_exposure(found)}")
