"""A resumed run's team: who there was, under the bounds that the run has now."""

import pytest

from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import AgentSpawned, Record, RunStarted
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Budget, Limits
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import Roles
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.journal.replay import fold_run
from swarm.supervisor.team.resume_team import restore_team

FRUGAL = Role(name="frugal", budget=Budget(requests=2))
OLD = Limits(budget=Budget(tokens=5_000), deadline_unix_s=100.0)
OLD_FRUGAL = Limits(budget=Budget(tokens=5_000, requests=2), deadline_unix_s=100.0)


def past(*bodies):
    told = [RunStarted(run_id="0" * 32, task="-", title="t", cwd="/", version="1"), *bodies]
    return fold_run(
        Record(seq=seq, ts=1.0, body=body, agent=getattr(body, "path", "/root/a"))
        for seq, body in enumerate(told, 1)
    )


def lived(path, *, role="default", limits=OLD, epoch=1):
    return AgentSpawned(
        agent_id=f"id {path}", path=path, epoch=epoch, pid=1, role=role,
        parent=path.rpartition("/")[0], depth=path.count("/") - 1, limits=limits,
    )  # fmt: skip


def root(limits):
    return AgentPlan(
        path="/root", agent_id="id /root", role=RoleBrief(name="default"), limits=limits, cwd="/"
    )


ROLES = Roles(known={"default": Role(name="default"), "frugal": FRUGAL})


@pytest.mark.parametrize(
    ("role", "had", "budget"),
    [
        ("default", OLD, Budget(tokens=50_000)),
        ("frugal", OLD_FRUGAL, Budget(tokens=50_000, requests=2)),
        ("lost", OLD_FRUGAL, Budget(tokens=5_000, requests=2)),  # its file is gone: as it was
    ],
)
def test_the_bounds_of_a_resumed_child_are_its_roles_within_those_of_the_run_today(
    role, had, budget
):
    today = root(Limits(budget=Budget(tokens=50_000), deadline_unix_s=900.0))
    before = past(lived("/root/a", role=role, limits=had), lived("/root/a/b", limits=had))
    (child, _), (grandchild, _) = restore_team(before, ROLES, today)
    assert child.limits.budget == budget
    assert child.limits.deadline_unix_s == 900.0
    assert grandchild.limits.budget == budget, "handed down"


def test_a_run_that_goes_on_without_a_deadline_has_no_child_with_one():
    ((child, _),) = restore_team(past(lived("/root/a")), ROLES, root(Limits()))
    assert child.limits == Limits()


def test_what_an_agent_has_paid_is_the_sum_over_its_lives():
    bill = ResponseBilled(
        agent_id="id /root/a", provider="p", model="m", usage=TokenUsage(), usd=0.25
    )
    told = past(lived("/root/a"), bill, lived("/root/a", epoch=2), bill)
    assert told.agents["/root/a"].usd == 0.5
