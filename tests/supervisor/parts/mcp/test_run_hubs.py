"""Which hub an agent's requests go to, and what several hubs say together."""

import json
from types import SimpleNamespace

import pytest

from support.node_facts import facts
from swarm.mailbox.protocol.mcp import McpFailure, McpOutcome, McpServer, McpText, McpTool, McpTools
from swarm.supervisor.agents.agent_record import GatewayAddress
from swarm.supervisor.agents.life.agent_start import StartServices
from swarm.supervisor.parts.hosts.placement.known_nodes import Node
from swarm.supervisor.parts.hosts.placement.remote_hosts import RemoteHosts
from swarm.supervisor.parts.mcp.hub_manager import tools_of
from swarm.supervisor.parts.mcp.run_hubs import RunHubs, join_outcomes, join_tools
from swarm.supervisor.processes.process_types import SpawnError

SERVERS = (McpServer(name="here"), McpServer(name="there", on_node=True))


class World:
    """A run with an agent `far` on a node, and one, `near`, that is here."""

    def __init__(self, tmp_path):
        self.hosts = RemoteHosts()
        self.request = SimpleNamespace(
            mcp=SimpleNamespace(servers=SERVERS), mcp_credentials={"a": "1", "b": "2"}
        )
        self.paths = SimpleNamespace(mcp_logs=tmp_path)
        self.journal = SimpleNamespace(redactor=None)
        self.node = self.join()
        self.hosts.node_of = lambda agent_id: (
            self.hosts.nodes.get("lab/a") if agent_id == "far" else None
        )

    def join(self):
        node = self.hosts.nodes["lab/a"] = Node(facts("lab/a"))
        return node


def agent(name):
    return SimpleNamespace(plan=SimpleNamespace(agent_id=name))


@pytest.fixture
async def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
async def hubs(world):
    starts = StartServices(SimpleNamespace(start=print), None, GatewayAddress())
    return RunHubs(world, starts, SimpleNamespace(), first_epoch=0)


async def test_only_servers_of_the_node_and_only_for_agents_there_go_to_its_hub(hubs):
    both = ("here", "there")
    assert hubs.split(agent("near"), both) == [(hubs.home, both)]
    assert hubs.split(agent("far"), ("here",)) == [(hubs.home, ("here",))]
    (first, here), (second, there) = hubs.split(agent("far"), both)
    assert (first, here, there) == (hubs.home, ("here",), ("there",))
    assert second is hubs.of(agent("far"), "there") is not hubs.home
    assert list(second.servers) == ["there"]
    assert list(hubs) == [hubs.home, second]


async def test_a_machine_that_comes_back_gets_another_hub_and_the_old_one_starts_no_more(
    hubs, world
):
    old = hubs.of(agent("far"), "there")
    world.join()
    new = hubs.of(agent("far"), "there")
    assert new is not old
    assert old.process.loop.end_expected
    assert list(hubs) == [hubs.home, new]
    with pytest.raises(SpawnError, match="lab/a has left"):
        await hubs._start_on(world.node, SimpleNamespace(servers=SERVERS))


def tool(name, server="s"):
    return McpTool(server=server, tool=name, name=f"mcp__{name}")


def test_of_two_tools_with_one_name_the_first_counts_and_the_other_is_told():
    one = McpTools(tools=(tool("a"),), resources=("s",))
    two = McpTools(tools=(tool("a", "t"), tool("b", "t")), failures=(McpFailure("x", "gone"),))
    joined = join_tools([one, two])
    assert [(found.server, found.tool) for found in joined.tools] == [("s", "a"), ("t", "b")]
    assert [found.server for found in joined.failures] == ["x", "t"]
    assert joined.resources == ("s",)


def test_whichever_hub_answers_first_the_order_of_a_list_is_the_same():
    one, two = McpTools(tools=(tool("a", "s"), tool("z", "s"))), McpTools(tools=(tool("b", "r"),))
    names = [
        [found.tool for found in join_tools(parts).tools] for parts in ([one, two], [two, one])
    ]
    assert names == [["b", "a", "z"]] * 2
    searched = join_tools([one, two], is_search=True).tools
    assert [found.tool for found in searched] == ["a", "z", "b"]


def test_a_hub_speaks_for_servers_that_it_was_asked_about_and_for_no_other():
    said = McpTools(
        tools=(tool("a", "s"), tool("b", "t")), resources=("s", "t"),
        failures=(McpFailure("s", "x"), McpFailure("t", "y")),
    )  # fmt: skip
    kept = tools_of(said, ("t",))
    assert [one.server for one in kept.tools] == ["t"]
    assert [one.server for one in kept.failures] == ["t"]
    assert kept.resources == ("t",)


def outcome(**body):
    return McpOutcome(state="completed", parts=(McpText(text=json.dumps(body)),))


def test_lists_of_two_hubs_are_one_list():
    joined = join_outcomes([
        outcome(resources=[{"uri": "a"}], failures={"s": "x"}, left_out=2),
        outcome(resources=[{"uri": "b"}], failures={"t": "y"}, left_out=1),
    ])  # fmt: skip
    assert json.loads(joined.parts[0].text) == {
        "resources": [{"uri": "a"}, {"uri": "b"}], "failures": {"s": "x", "t": "y"}, "left_out": 3,
    }  # fmt: skip


def test_an_outcome_that_is_no_list_is_told_as_it_is():
    failed = McpOutcome(state="timed_out", message="no answer")
    assert join_outcomes([outcome(), failed]) is failed
    assert join_outcomes([failed]) is failed
