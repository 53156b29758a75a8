"""Machines that a person takes out of a run."""

from types import SimpleNamespace

import pytest

from support.node_facts import facts
from swarm.mailbox.protocol.control import Done, Refused
from swarm.mailbox.protocol.host_records import HostDrained
from swarm.mailbox.protocol.nodes import HostTable
from swarm.supervisor.parts.hosts.placement.remote_hosts import RemoteHosts
from swarm.supervisor.parts.machines.host_drain import drain_host


class Notes(list):
    def __call__(self, body):
        self.append(body)


@pytest.fixture
async def run():
    hosts = RemoteHosts((HostTable(name="lab", ray="auto"),))
    for name in ("lab/10.0.0.1-aaaaaa", "lab/10.0.0.2-bbbbbb", "lab/10.0.0.2-cccccc"):
        hosts.on_joined(facts(name))
    return SimpleNamespace(hosts=hosts, note=Notes())


@pytest.mark.parametrize(
    ("wanted", "drained"),
    [
        ("lab/10.0.0.1-aaaaaa", {"lab/10.0.0.1-aaaaaa"}),
        ("bbbbbb", {"lab/10.0.0.2-bbbbbb"}),
        ("lab", {"lab/10.0.0.1-aaaaaa", "lab/10.0.0.2-bbbbbb", "lab/10.0.0.2-cccccc"}),
    ],
)
async def test_it_is_named_whole_or_by_its_end_or_all_of_a_table(run, wanted, drained):
    assert isinstance(drain_host(run, wanted), Done)
    assert {name for name, node in run.hosts.nodes.items() if node.why_drained} == drained
    assert {one.node for one in run.note if isinstance(one, HostDrained)} == drained


@pytest.mark.parametrize("wanted", ["", "10.0.0.2", "other"])
async def test_a_name_that_is_none_changes_nothing_and_says_which_there_are(run, wanted):
    refused = drain_host(run, wanted)
    assert isinstance(refused, Refused)
    assert "10.0.0.1-aaaaaa" in refused.message
    assert run.note == []


async def test_an_end_that_several_have_is_refused_with_their_names(run):
    run.hosts.on_joined(facts("lab/10.0.0.3-xbbbbbb"))
    refused = drain_host(run, "bbbbbb")
    assert isinstance(refused, Refused)
    assert "10.0.0.3" in refused.message
    assert run.note == []


async def test_it_is_said_again_but_written_once(run):
    for _ in range(2):
        assert "no agent is there" in drain_host(run, "aaaaaa").message
    assert len(run.note) == 1
