"""What a request for a child must pass: the total of a run, and a model that there is."""

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.requests import RequestRefused, Spawn, Spawned
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.roles.rights.role import Role
from swarm.roles.role_loader import load_roles
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.agents.child_plan import AgentRequestError, SpawnLimits, check_model
from swarm.supervisor.agents.run_providers import RunProviders

ASKER = AgentPlan(
    path="/root",
    agent_id="1",
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    model_settings=ModelSettings(model="m"),
)
REQUEST = Spawn(task_name="a", message="do it")
ROLES = load_roles(())
LOCAL = ModelInfo(slug="small", provider="local", wire="local")


@pytest.mark.parametrize("wire", ["responses", "chat", "scripted"])
def test_a_provider_without_a_closed_list_says_itself_what_it_has_not(wire):
    check_model("anything", ASKER, msgspec.structs.replace(LOCAL, wire=wire))


def test_the_embedded_provider_has_one_model_and_the_refusal_names_it():
    for fine in (None, "small", "m"):
        check_model(fine, ASKER, LOCAL)
    check_model("other", ASKER, None)
    with pytest.raises(AgentRequestError) as refusal:
        check_model("other", ASKER, LOCAL)
    assert str(refusal.value) == ("Unknown model `other` for spawn_agent. Available models: small")


def test_a_role_that_pins_a_model_that_there_is_not_is_refused_too():
    gate = SpawnLimits(most=9, find_model=lambda: LOCAL, is_known_path=lambda path: True)
    known = ROLES.known | {"big": Role(name="big", model="huge")}
    roles = msgspec.structs.replace(ROLES, known=known)
    request = msgspec.structs.replace(REQUEST, agent_type="big")
    with pytest.raises(AgentRequestError, match="Unknown model `huge`"):
        gate.check(ASKER, request, roles, RunProviders(own="local"))


async def test_only_what_came_to_be_counts():
    there: set[str] = set()
    gate = SpawnLimits(most=2, find_model=lambda: None, is_known_path=there.__contains__)

    async def granted():
        return Spawned(path="/root/a", nickname="n", model="m", effort="")

    async def refused():
        return RequestRefused(message="no")

    assert isinstance(await gate.count_spawn("/root/a", granted), Spawned)
    await gate.count_spawn("/root/b", refused)
    with trio.move_on_after(0):
        await gate.count_spawn("/root/c", trio.sleep_forever)
    assert gate.started == 1
    there.add("/root/d")  # it was started just before the one who asked died
    with trio.move_on_after(0):
        await gate.count_spawn("/root/d", trio.sleep_forever)
    assert gate.started == 2
    with pytest.raises(AgentRequestError, match="may start 2 agents in all"):
        gate.check(ASKER, REQUEST, ROLES, RunProviders())


async def test_those_under_way_count_so_that_many_requests_at_once_cannot_pass_the_total(nursery):
    gate = SpawnLimits(most=2, find_model=lambda: None, is_known_path=lambda path: False)
    for name in "ab":
        nursery.start_soon(gate.count_spawn, f"/root/{name}", trio.sleep_forever)
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(AgentRequestError):
        gate.check(ASKER, REQUEST, ROLES, RunProviders())
    nursery.cancel_scope.cancel()
