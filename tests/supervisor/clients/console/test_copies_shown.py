"""What an agent changed in its copy is shown beside its answer, in the tree and in the log."""

import pytest

from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.merge_records import ChangeMeasured
from swarm.mailbox.protocol.records import AgentEnded, AgentSpawned, Record
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.clients.console.columns import describe_activity
from swarm.supervisor.clients.console.log_lines import log_line
from swarm.supervisor.parts.copies.live.change_measures import describe_measured
from swarm.supervisor.views.run_state import RunState

SPAWNED = AgentSpawned(
    agent_id="a", path="/root/a", epoch=1, pid=7, limits=Limits(isolation="copy")
)
ENDED = AgentEnded(agent_id="a", state="completed", message="Done.")


@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        (ChangeMeasured(agent_id="a", added=3, removed=1, files=2), "+3 -1 in 2 files · Done."),
        (ChangeMeasured(agent_id="a", added=1, files=1), "+1 -0 in 1 file · Done."),
        (ChangeMeasured(agent_id="a"), "Done."),
    ],
)
def test_the_tree_shows_the_size_beside_the_answer(measured, shown):
    state = RunState()
    for seq, body in enumerate((SPAWNED, measured, ENDED), start=1):
        state.apply(Recorded(record=Record(seq=seq, ts=1.0, agent="/root/a", body=body)))
    (agent,) = state.view().agents
    assert agent.in_copy
    assert describe_activity(agent)[0] == shown


def test_the_log_says_it_too():
    body = ChangeMeasured(agent_id="a", added=3, removed=1, files=2, conflicts=1)
    line = log_line(Record(seq=1, ts=1.0, agent="/root/a", body=body))
    assert "in its copy: +3 -1 in 2 files, 1 in conflict" in line


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (ChangeMeasured(agent_id="a"), "changed no file there"),
        (ChangeMeasured(agent_id="a", files=1), "+0 -0 in 1 file; it fits the project now"),
        (ChangeMeasured(agent_id="a", files=2, is_merged=True), "all of it is in the project"),
        (ChangeMeasured(agent_id="a", files=2, conflicts=1), "1 file in conflict with the project"),
        (ChangeMeasured(agent_id="a", files=2, conflicts=2), "2 files in conflict"),
    ],
)
def test_the_parent_reads_it_with_the_answer(measured, words):
    assert words in describe_measured(measured)
