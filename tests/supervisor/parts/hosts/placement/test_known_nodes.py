"""Where an agent goes, and when a machine gets no more."""

import pytest
import trio

from support.node_facts import MIB, facts, usage
from swarm.mailbox.protocol.hosts import RemoteStarted
from swarm.supervisor.parts.hosts.placement.known_nodes import Node, RemoteChild
from swarm.supervisor.processes.process_types import ProcessEnd


async def test_slots_and_resources_bound_what_is_started(autojump_clock):
    node = Node(facts(slots=3, board=2.0))
    wanted = {"board": 1.5}
    assert node.fits(wanted)
    node.take(wanted)
    assert not node.fits(wanted)
    assert node.could_fit(wanted)
    assert node.fits({})
    assert not node.could_fit({"gpu": 1})
    node.take({})
    node.take({})
    assert not node.fits({})
    node.give_back(wanted)
    assert node.fits(wanted)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"memory": 100}, "only 100 MiB of memory are left there"),
        ({"disk": 9}, "only 9 MiB of disk are left there"),
        ({"round_trip_ms": 2500.0}, "it answers only after 2.5 s"),
    ],
)
async def test_a_machine_that_stays_bad_is_drained_once_and_for_good(autojump_clock, bad, why):
    node = Node(facts())
    assert [node.note_usage(usage(**bad)) for _ in range(3)] == [""] * 3
    assert node.note_usage(usage()) == ""  # it was a moment only
    said = [node.note_usage(usage(**bad)) for _ in range(6)]
    assert said == ["", "", "", why, "", ""]
    assert not node.fits({})
    assert node.note_usage(usage()) == ""
    assert not node.fits({})


async def test_nothing_is_begun_on_a_machine_that_says_nothing(autojump_clock):
    node = Node(facts())
    await trio.sleep(5)
    assert node.fits({})
    await trio.sleep(2)
    assert not node.fits({})
    node.note_usage(usage())
    assert node.fits({})


async def test_leases_see_what_is_left_of_the_machine(autojump_clock):
    node = Node(facts())
    assert node.machine.processors == 4
    assert node.machine.available_bytes is None
    node.note_usage(usage(memory=300))
    assert node.machine.available_bytes == 300 * MIB
    assert node.machine.load == 1.5


async def test_what_is_to_be_done_at_a_processes_end_is_done_also_if_it_has_ended(autojump_clock):
    done = []
    for ends_first in (True, False):
        child = RemoteChild(None, "lab/a", RemoteStarted(request=1, node="lab/a", pid=7))
        steps = [
            lambda child=child: child.end(ProcessEnd(reason="gone")),
            lambda child=child: child.call_at_end(lambda: done.append(child.pid)),
        ]
        for step in steps if ends_first else reversed(steps):
            step()
        child.end(ProcessEnd(reason="again"))
        assert (await child.wait_ended()).reason == "gone"
    assert done == [7, 7]
