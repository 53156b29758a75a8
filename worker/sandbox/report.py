"""What this machine's sandbox can do, as JSON for `swarm doctor`.

Usage: python -P -m swarm.worker.sandbox.report. Prints one object:
{"stack", "guarantees", "findings": [{"name", "works", "detail", "fix"}…]}; exit 0 if any works.
"""

import sys

import msgspec

from .probe import SandboxFacts, probe_sandbox


class SandboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """All fields are always present: a script reads them."""

    stack: str
    guarantees: list[str]
    findings: list[dict[str, str | bool]]


def make_report(facts: SandboxFacts) -> SandboxReport:
    """The facts in the order they were tried."""
    return SandboxReport(
        stack=facts.stack,
        guarantees=sorted(facts.guarantees),
        findings=[
            {"name": one.name, "works": one.works, "detail": one.detail, "fix": one.fix}
            for one in facts.findings
        ],
    )


def main() -> int:
    report = make_report(probe_sandbox())
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0 if report.stack != "none" else 1


if __name__ == "__main__":
    raise SystemExit(main())
