"""Commands of an agent in a copy: no plan lets one write past the copy, whatever was granted."""

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.spec import CopyMount
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.worker.exec import command_plan
from swarm.worker.exec.command_plan import plan_command
from swarm.worker.exec.exec_outcome import ExecRequest
from swarm.worker.exec.session_request import build_session_request
from swarm.worker.sandbox import commit_grant
from swarm.worker.sandbox.sandbox_plan import SandboxUnavailable
from swarm.worker.sandbox.sandbox_probe import SandboxFacts
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC


@pytest.fixture
def spec(tmp_path, monkeypatch):
    facts = SandboxFacts(
        bwrap="/usr/bin/bwrap", landlock_abi=0, seccomp=True, notifies=False, findings=()
    )
    monkeypatch.setattr(command_plan, "probe_sandbox", lambda: facts)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    mount = CopyMount(path=str(tmp_path / "in"), base="", upper="", work="")
    return with_fields(
        FAKE_AGENT_SPEC, cwd=str(tmp_path / "in"), mounts=(mount,),
        limits=Limits(sandbox=WorkspaceWrite(), isolation="copy"),
    )  # fmt: skip


def test_a_granted_folder_beside_the_copy_stays_read_only(spec, tmp_path):
    extra = ExtraPermissions(write=(str(tmp_path / "out"),))
    made = plan_command(spec, spec.limits.sandbox, spec.cwd, extra)
    assert made.writable == (str(tmp_path / "in"),)
    shared = with_fields(spec, mounts=())
    made = plan_command(shared, spec.limits.sandbox, spec.cwd, extra)
    assert made.writable == (str(tmp_path / "in"), str(tmp_path / "out"))


def test_a_root_that_the_copy_does_not_hold_lets_no_command_start(spec, tmp_path):
    later = WorkspaceWrite(writable_roots=(str(tmp_path / "later"),))
    assert plan_command(spec, later, spec.cwd).writable == (str(tmp_path / "in"),)
    (tmp_path / "later").mkdir()
    with pytest.raises(SandboxUnavailable, match="later is not in this agent's copy"):
        plan_command(spec, later, spec.cwd)


@pytest.mark.parametrize("in_copy", [True, False])
def test_an_approved_commit_opens_no_repository_to_an_agent_in_a_copy(spec, monkeypatch, in_copy):
    spec = spec if in_copy else with_fields(spec, mounts=())
    plan = plan_command(spec, spec.limits.sandbox, spec.cwd)
    opened = msgspec.structs.replace(plan, committing=("/repository/.git",))
    monkeypatch.setattr(commit_grant, "with_commit_grant", lambda plan, folder: opened)
    request = ExecRequest(argv=("git", "commit"), cwd=spec.cwd, commits_in="/repository")
    made = build_session_request(spec, request, plan, {}, None)
    assert bool(made.sandbox.committing) is not in_copy
