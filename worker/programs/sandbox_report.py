"""What this machine's sandbox can do, as JSON for `swarm doctor`.

Usage: python -P -m swarm.worker.programs.sandbox_report [FOLDER]. Prints one object:
{"stack", "guarantees", "findings": [{"name", "works", "detail", "fix"}…], "locks_roles", "copies"};
exit 0 if any works.
"""

import sys
from pathlib import Path

import msgspec

from ..exec.cgroup import find_parent_cgroup
from ..parts.copies.copy_probe import find_copy_gap
from ..sandbox.landlock import lock_gap
from ..sandbox.sandbox_probe import SandboxFacts, SandboxFinding, probe_sandbox


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are always present: a script reads them."""

    stack: str
    guarantees: list[str]
    findings: list[dict[str, str | bool]]
    locks_roles: bool  # processes of read-only roles can confine themselves
    copies: str | None  # why no overlay can show a copy of the project; None: it can


def make_report(facts: SandboxFacts, folder: Path | None = None) -> SandboxReport:
    """The findings in the order they were tried, and those that follow from them.

    `folder`: where copies of the project are tried; None: in the temporary folder.
    """
    copies = find_copy_gap(folder)
    return SandboxReport(
        stack=facts.stack,
        guarantees=sorted(facts.guarantees),
        findings=[
            {"name": one.name, "works": one.works, "detail": one.detail, "fix": one.fix}
            for one in (
                *facts.findings,
                locks_finding(facts),
                sockets_finding(facts),
                copies_finding(copies, facts.stack),
                limits_finding(),
            )
        ],
        locks_roles=not lock_gap(facts.landlock_abi),
        copies=copies,
    )


def copies_finding(gap: str | None, stack: str) -> SandboxFinding:
    """Whether agents can work in copies of the project here, and where such copies lie."""
    detail = gap or "an overlay for each agent"
    if gap is not None and stack != "none":
        detail = f"a folder of its own for each agent, since no overlay can be had: {gap}"
    return SandboxFinding(
        name="copies of the project",
        works=gap is None,
        detail=detail,
        fix="" if gap is None else "see `bwrap` and `user namespaces` above; Linux 5.11 or later",
    )


def locks_finding(facts: SandboxFacts) -> SandboxFinding:
    """Whether agents of read-only roles (explorer, the reviewer) lock their own processes here."""
    gap = lock_gap(facts.landlock_abi)
    if not gap:
        return SandboxFinding(
            name="locked roles", works=True, detail="their processes lock themselves"
        )
    return SandboxFinding(
        name="locked roles",
        works=False,
        detail="their processes lock themselves only in part: files could be truncated"
        if gap == "truncation"
        else "their processes cannot lock themselves; their commands are sandboxed all the same",
        fix="use a kernel with Landlock, see `landlock` above",
    )


def sockets_finding(facts: SandboxFacts) -> SandboxFinding:
    """Whether a rule about one Unix socket can be enforced here."""
    if facts.stack == "bwrap" and facts.notifies:
        return SandboxFinding(name="unix sockets", works=True, detail="each by its rule")
    if facts.stack == "bwrap":
        return SandboxFinding(
            name="unix sockets", works=False,
            detail="commands can make none: nobody could check where they connect to",
            fix="see `unix connections` above",
        )  # fmt: skip
    return SandboxFinding(
        name="unix sockets",
        works=False,
        detail="no rule opens one: without bubblewrap a single one cannot be told from the others",
        fix="make bubblewrap work, see `bwrap` above",
    )


def limits_finding() -> SandboxFinding:
    """How memory and processes of an agent's commands are limited here; either way works."""
    found = find_parent_cgroup()
    if found is not None:
        detail = f"cgroup v2 below {found[0]} for each agent; a watchdog for each command"
    else:
        detail = (
            "rlimits and a watchdog; for the kernel's own bounds start swarm with "
            "`systemd-run --user --scope swarm …`"
        )
    return SandboxFinding(name="limits", works=True, detail=detail)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    report = make_report(probe_sandbox(), folder)
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0 if report.stack != "none" else 1


if __name__ == "__main__":
    raise SystemExit(main())
