"""Denials are recognised, requirements are enforced, arguments are read, the report is complete."""

import msgspec
import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    NetworkPolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.worker.programs.sandbox_command import read_arguments
from swarm.worker.programs.sandbox_report import make_report
from swarm.worker.sandbox.denial_detection import is_sandbox_denial
from swarm.worker.sandbox.landlock import lock_gap
from swarm.worker.sandbox.sandbox_plan import SandboxUnavailable, plan_sandbox
from swarm.worker.sandbox.sandbox_probe import (
    SandboxFacts,
    SandboxFinding,
    find_system_program,
    require_sandbox,
)


@pytest.mark.parametrize(
    ("code", "output", "sandboxed", "denied"),
    [
        (1, "touch: Read-only file system", True, True),
        (1, "x: PERMISSION DENIED", True, True),
        (2, "mkdir: Operation not permitted", True, True),
        (126, "bash: permission denied", True, True),
        (1, "failed to write file a", True, True),
        (1, "connect: Network is unreachable", True, True),
        (1, "no such file", True, False),
        (159, "", True, True),
        (127, "", True, False),
        (0, "permission denied", True, False),
        (1, "permission denied", False, False),
        (None, "permission denied", True, False),
    ],
)
def test_a_denial_is_told_from_a_failure(code, output, sandboxed, denied):
    assert is_sandbox_denial(exit_code=code, output=output, sandboxed=sandboxed) is denied


def facts(*, bwrap="/usr/bin/bwrap", abi=7, seccomp=True):
    lack = SandboxFinding(name="bwrap", works=bool(bwrap), detail="not installed", fix="install it")
    return SandboxFacts(
        bwrap=bwrap, landlock_abi=abi, seccomp=seccomp, notifies=True, findings=(lack,)
    )


@pytest.mark.parametrize(
    ("given", "stack", "guarantees"),
    [
        (facts(), "bwrap", {"fs", "net"}),
        (facts(bwrap=None), "landlock", {"fs", "net"}),
        (facts(bwrap=None, abi=2), "landlock", {"net"}),
        (facts(bwrap=None, abi=0), "none", set()),
        (facts(seccomp=False), "none", set()),
    ],
)
def test_the_strongest_stack_is_chosen_and_its_guarantees_are_told(given, stack, guarantees):
    assert given.stack == stack
    assert given.guarantees == guarantees


@pytest.mark.parametrize(
    ("abi", "gap"), [(0, "all"), (1, "truncation"), (2, "truncation"), (3, ""), (7, "")]
)
def test_what_a_locked_roles_process_lacks_follows_from_the_kernel(abi, gap):
    assert lock_gap(abi) == gap
    report = make_report(facts(abi=abi))
    assert report.locks_roles is (gap == "")
    (told,) = [one for one in report.findings if one["name"] == "locked roles"]
    assert told["works"] is (gap == "")


def test_a_requirement_that_does_not_hold_says_what_lacks_and_how_to_mend_it():
    require_sandbox({"fs", "net"}, facts())
    with pytest.raises(SandboxUnavailable, match=r"cannot guarantee fs: bwrap: not .*install it"):
        require_sandbox({"fs"}, facts(bwrap=None, abi=1))
    with pytest.raises(SandboxUnavailable, match="not disk") as caught:
        require_sandbox({"disk"}, facts())
    assert caught.value.exit_code == 6


EVERY = [(), ("fs",), ("net",), ("fs", "net")]
MACHINES = [  # what a machine has → what it can be asked to guarantee
    (facts(), {"fs", "net"}),
    (facts(abi=0), {"fs", "net"}),
    (facts(bwrap=None), {"fs", "net"}),
    (facts(bwrap=None, abi=3), {"fs", "net"}),
    (facts(bwrap=None, abi=2), {"net"}),
    (facts(bwrap=None, abi=1), {"net"}),
    (facts(bwrap=None, abi=0), set()),
    (facts(seccomp=False), set()),
    (facts(bwrap=None, seccomp=False), set()),
    (facts(bwrap=None, abi=0, seccomp=False), set()),
]


@pytest.mark.parametrize("wanted", EVERY)
@pytest.mark.parametrize(("machine", "held"), MACHINES)
def test_a_requirement_passes_exactly_where_all_of_it_holds(machine, held, wanted):
    if set(wanted) <= held:
        require_sandbox(wanted, machine)
        return
    with pytest.raises(SandboxUnavailable) as caught:
        require_sandbox(wanted, machine)
    lacking = ", ".join(sorted(set(wanted) - held))
    assert f"cannot guarantee {lacking}: " in str(caught.value)


@pytest.mark.parametrize(("machine", "held"), MACHINES)
def test_without_a_stack_nothing_is_run_bare_and_with_one_nothing_is_proxied_around_it(
    machine, held, tmp_path
):
    def plan(policy, **more):
        return plan_sandbox(policy, cwd=str(tmp_path), tmp_dir=None, stack=machine.stack, **more)

    for policy in (ReadOnly(), WorkspaceWrite()):
        if not held:
            with pytest.raises(SandboxUnavailable, match="swarm doctor"):
                plan(policy)
        else:
            assert plan(policy).stack == machine.stack
        if machine.stack != "bwrap":
            with pytest.raises(SandboxUnavailable):
                plan(policy, proxied=NetworkPolicy())
    assert not plan(DangerFullAccess()).is_sandboxed


@pytest.mark.parametrize("machine", [one for one, _ in MACHINES])
def test_the_report_tells_how_limits_hold_on_every_machine(machine):
    (limits,) = [one for one in make_report(machine).findings if one["name"] == "limits"]
    assert limits["works"]
    assert "watchdog" in limits["detail"]


def test_programs_are_not_looked_for_on_the_path(monkeypatch, tmp_path):
    fake = tmp_path / "bwrap-of-the-project"
    fake.write_text("#!/bin/sh\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_system_program("bwrap-of-the-project") is None
    assert find_system_program("sh") is not None


def test_the_report_has_all_its_fields():
    report = msgspec.json.decode(msgspec.json.encode(make_report(facts())))
    assert report["stack"] == "bwrap"
    assert report["guarantees"] == ["fs", "net"]
    assert set(report["findings"][0]) == {"name", "works", "detail", "fix"}


def test_the_command_line_is_read(tmp_path):
    call = read_arguments(
        ["-s", "workspace-write", "--network", "-C", str(tmp_path), "--", "ls", "-s"]
    )
    assert call.policy == WorkspaceWrite(network_access=True)
    assert (call.argv, call.cwd) == (("ls", "-s"), str(tmp_path))
    assert read_arguments(["ls", "-s"]).argv == ("ls", "-s")
    assert read_arguments(["--", "ls"]).policy == ReadOnly()
    assert read_arguments(["-s", "danger-full-access", "ls"]).policy == DangerFullAccess()


@pytest.mark.parametrize(
    "words",
    [[], ["--"], ["-s"], ["-s", "open", "ls"], ["-x", "ls"], ["-C", "/nowhere/at/all", "ls"],
     ["--stack", "none", "ls"]],
)  # fmt: skip
def test_a_wrong_command_line_is_refused(words):
    with pytest.raises(UsageError):
        read_arguments(words)
