"""What the supervisor refuses of the merges that agents ask for, whoever has judged them."""

import msgspec
import pytest

from support.agent_records import plan_of
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.supervisor.agents.agent_record import Agent
from swarm.supervisor.parts.copies.live.agent_merges import find_outside, refusal_of
from swarm.supervisor.parts.copies.merge_plan import MergePlan, MergeStep
from swarm.supervisor.parts.undo.content_store import FileEntry

WRITES = Limits(sandbox=WorkspaceWrite())


def agent_with(limits=WRITES, *, role=None, cwd="/"):
    plan = msgspec.structs.replace(
        plan_of("/root"), limits=limits, role=role or RoleBrief(), cwd=cwd
    )
    return Agent(plan)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (agent_with(), ""),
        (agent_with(Limits(sandbox=DangerFullAccess())), ""),
        (agent_with(Limits(sandbox=ReadOnly())), "may not write"),
        (agent_with(msgspec.structs.replace(WRITES, planning=True)), "may not write"),
        (agent_with(role=RoleBrief(locked=True)), "may not write"),
        (agent_with(msgspec.structs.replace(WRITES, isolation="copy")), ""),
    ],
)
def test_only_an_agent_that_may_write_merges(agent, words):
    said = refusal_of(agent)
    assert words in said
    assert bool(said) == bool(words)


def plan_for(*paths):
    before = tuple(FileEntry(path=str(path), kind="absent") for path in paths)
    after = tuple(FileEntry(path=str(path), kind="file") for path in paths)
    step = MergeStep(agent="/root/a", agent_id="a", fingerprint="", before=before, after=after)
    return MergePlan(steps=(step,))


def test_nothing_goes_where_the_agent_itself_may_not_write(tmp_path):
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (project / "link").symlink_to(other)
    agent = agent_with(cwd=str(project))
    assert find_outside(agent, plan_for(project / "a", project / "new" / "b")) == ""
    assert find_outside(agent, plan_for(project / "a", other / "b")) == str(other / "b")
    through = str(project / "link" / "b")
    assert find_outside(agent, plan_for(through)) == through
    anywhere = agent_with(Limits(sandbox=DangerFullAccess()), cwd=str(project))
    assert find_outside(anywhere, plan_for(other / "b")) == ""
