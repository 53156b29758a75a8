"""Batch jobs and copies of the project: who starts none, and whose workers get one."""

from types import SimpleNamespace

import msgspec
import pytest

from swarm.mailbox.parts.jobs.job_messages import SpawnOnCsv
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.roles.role_loader import load_roles
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.child_plan import IN_COPY, AgentRequestError
from swarm.supervisor.agents.life.spawning import AgentSpawner
from swarm.supervisor.parts.jobs.service.job_runner import JobRunner
from swarm.supervisor.request.run_request import CopySettings

PLAN = AgentPlan(
    path="/root", agent_id="r", role=RoleBrief(), limits=Limits(sandbox=WorkspaceWrite()), cwd="/w"
)
REQUEST = SpawnOnCsv(csv_path="rows.csv", instruction="do {a}")


async def test_an_agent_in_a_copy_starts_no_job_and_continues_none():
    limits = msgspec.structs.replace(PLAN.limits, isolation="copy")
    asker = SimpleNamespace(plan=msgspec.structs.replace(PLAN, limits=limits))
    with pytest.raises(AgentRequestError, match=IN_COPY):
        await JobRunner.run(SimpleNamespace(), asker, REQUEST)
    closed = []
    runner = SimpleNamespace(close_job=lambda path, job_id, status: closed.append(status))
    path = SimpleNamespace(path="/root", plan=asker.plan)
    cut_off = SimpleNamespace(began=SimpleNamespace(request=REQUEST, job_id="j"))
    with pytest.raises(AgentRequestError, match=IN_COPY):
        await JobRunner.continue_job(runner, path, cut_off)
    assert closed == ["failed"]


@pytest.mark.parametrize("isolation", ["shared", "copy"])
def test_workers_of_a_job_work_in_copies_if_the_run_says_so(isolation):
    added: list[AgentPlan] = []
    spawner = SimpleNamespace(
        roles=load_roles(()),
        _team=SimpleNamespace(add_queued=added.append),
        _run=SimpleNamespace(
            entropy=SimpleNamespace(new_id=lambda: "w"),
            request=SimpleNamespace(copies=CopySettings(isolation=isolation)),
        ),
    )
    asker = SimpleNamespace(plan=PLAN)
    AgentSpawner.add_worker(spawner, asker, "row_1", "j")
    assert [one.limits.isolation for one in added] == [isolation]
