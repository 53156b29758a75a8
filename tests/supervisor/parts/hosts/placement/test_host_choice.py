"""On which machines an agent runs."""

import msgspec
import pytest

from support.nested_fields import with_fields
from swarm.mailbox.protocol.nodes import HostTable
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ReadOnly, WorkspaceWrite
from swarm.roles.rights.role import Role
from swarm.supervisor.agents.agent_record import AgentPlan
from swarm.supervisor.parts.hosts.placement.host_choice import HostRefused, resources_of, with_host
from swarm.supervisor.request.run_request import RunRequest

TABLES = tuple(HostTable(name=name, ray="auto") for name in ("lab", "farm"))
USES = with_fields(RunRequest(cwd="/"), hosts=TABLES, host="lab")


def plan(isolation="copy", sandbox=None):
    limits = Limits(sandbox=sandbox or WorkspaceWrite(), isolation=isolation)
    return AgentPlan(
        path="/root/a", agent_id="a", role=RoleBrief(name="default"), limits=limits, cwd="/"
    )


def role(**fields):
    return Role(name="tester", **fields)


@pytest.mark.parametrize(
    ("isolation", "own", "wanted", "host"),
    [
        ("copy", {}, None, "lab"),
        ("shared", {}, None, ""),
        ("shared", {"host": "farm"}, None, "farm"),
        ("copy", {"host": "here"}, None, ""),
        ("copy", {"host": "farm"}, "lab", "lab"),
        ("copy", {}, "here", ""),
        ("copy", {"merges": True}, None, ""),
    ],
)
def test_the_spawn_says_it_before_the_role_and_the_role_before_the_run(
    isolation, own, wanted, host
):
    got = with_host(plan(isolation), USES, role(**own), wanted=wanted)
    assert got.host == host
    assert got.limits.isolation == ("copy" if host else isolation)


def test_one_that_only_reads_works_in_a_copy_there():
    got = with_host(plan("shared", ReadOnly()), USES, role(host="lab"))
    assert got.limits.isolation == "copy"


def test_resources_have_rays_own_names():
    got = with_host(plan(), USES, role(resources={"num_cpus": 2, "board": 1}))
    assert got.resources == {"CPU": 2, "board": 1}


def test_a_run_without_machines_changes_nothing():
    assert with_host(plan(), RunRequest(cwd="/"), role()) == plan()


@pytest.mark.parametrize(
    ("request_", "own", "sandbox", "words"),
    [
        (USES, {"host": "moon"}, None, "it may use lab, farm"),
        (RunRequest(cwd="/"), {"host": "lab"}, None, "start it with --hosts lab"),
        (USES, {"host": "lab", "merges": True}, None, "works in the project itself"),
        (USES, {"host": "lab"}, DangerFullAccess(), "without a sandbox"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(request_, own, sandbox, words):
    with pytest.raises(HostRefused, match=words):
        with_host(plan("shared", sandbox), request_, role(**own))


def test_the_network_proxy_cannot_be_reached_from_there():
    from swarm.mailbox.protocol.values.limits import NetworkPolicy

    limited = plan()
    limits = msgspec.structs.replace(limited.limits, network=NetworkPolicy())
    with pytest.raises(HostRefused, match="proxy"):
        with_host(msgspec.structs.replace(limited, limits=limits), USES, role())


def test_a_resumed_agent_and_the_items_of_a_fan_out_count_in_the_same_names():
    assert resources_of(role(resources={"num_gpus": 1, "board": 2})) == {"GPU": 1, "board": 2}


def test_what_a_spawn_takes_counts_beside_what_its_role_takes_and_before_it():
    own = role(resources={"num_gpus": 1, "board": 2})
    placed = with_host(plan(), USES, own, resources={"board": 3, "memory": 5})
    assert placed.resources == {"GPU": 1, "board": 3, "memory": 5}


def test_an_agent_that_stays_here_takes_nothing_of_other_machines():
    with pytest.raises(HostRefused, match="works here"):
        with_host(plan(), USES, role(host="here"), resources={"GPU": 1})
