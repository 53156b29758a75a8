"""The status of a run: what counts as an answer."""

import pytest

from swarm.mailbox.protocol.records import AgentEnded
from swarm.supervisor.clients.cli.commands.run_execution import EXIT_CODES
from swarm.supervisor.runs.run_status import run_result

CUT = AgentEnded(agent_id="a", state="truncated", message="The first half")


@pytest.mark.parametrize(
    ("accepts", "status", "code"), [(False, "truncated", 1), (True, "completed", 0)]
)
def test_a_cut_answer_completes_a_run_only_where_it_is_accepted(accepts, status, code):
    done = run_result(CUT, None, schema=None, accept_truncated=accepts)
    assert (done.status, done.result, EXIT_CODES[done.status]) == (status, "The first half", code)
    assert ("--accept-truncated" in done.message) is not accepts


def test_a_cut_answer_that_is_accepted_must_still_fit_its_schema():
    done = run_result(CUT, None, schema={"type": "object"}, accept_truncated=True)
    assert done.status == "failed"
