"""A reviewing process is no agent: it holds no slot, is counted apart, and the run pays for it."""

from swarm.mailbox.base.ids import AgentPath, is_reviewer, is_within
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import TokenCount
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import AgentSpawned, ProcessEnded, Record, RunStarted
from swarm.mailbox.protocol.values.limits import Budget
from swarm.supervisor.clients.console.plain_display import PlainLines
from swarm.supervisor.clients.serve.json_conversion import JsonConversion
from swarm.supervisor.parts.budget.ledger import Amount, BudgetRefusal, BudgetReservation, Ledger
from swarm.supervisor.views.run_state import RunState

USAGE = TokenUsage(input_tokens=90, output_tokens=10, total_tokens=100)
SPAWNED = AgentSpawned(agent_id="g", path="/guardian", epoch=1, pid=7, role="guardian")


def records(*bodies):
    return [
        Record(seq=seq, ts=float(seq), body=body, agent="/guardian")
        for seq, body in enumerate(bodies, 1)
    ]


def folded(*bodies):
    state = RunState()
    for record in records(*bodies):
        state.apply(Recorded(record=record))
    return state


def test_the_names_of_reviewers_lie_outside_of_the_tree():
    assert [is_reviewer(path) for path in ("/guardian", "/guardian/3", "/guardians", "/root")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert not is_within(AgentPath("/guardian"), AgentPath("/root"))


def test_it_takes_no_slot_and_its_tokens_are_not_the_agents():
    count = TokenCount(turn_id="t", last=USAGE, total=USAGE)
    state = folded(SPAWNED, count)
    view = state.view()
    assert (view.slots_used, state.agents_seen, view.usage) == (0, 0, TokenUsage())
    assert state.agent("/guardian").usage == USAGE
    again = RunState(view)
    assert (again.view().slots_used, again.agents_seen) == (0, 0)


def test_its_end_is_an_end_and_no_restart():
    for orderly, end in ((True, "completed"), (False, "crashed")):
        gone = ProcessEnded(agent_id="g", epoch=1, pid=7, orderly=orderly)
        view = folded(SPAWNED, gone).agent("/guardian")
        assert (view.state, view.end_state, view.pid) == ("ended", end, 0)


def test_after_a_resume_a_reviewer_of_before_is_over():
    resumed = RunStarted(run_id="r", task="-", title="", cwd="/", version="1", resumed=True)
    view = folded(SPAWNED, resumed).agent("/guardian")
    assert (view.state, view.pid) == ("ended", 0)


def test_neither_the_plain_nor_the_json_lines_tell_its_own_steps():
    (record, *_) = records(SPAWNED)
    assert PlainLines().add(Recorded(record=record)) == []
    assert JsonConversion().record_lines(record) == []


def test_a_review_is_paid_by_the_run_and_refused_when_nothing_is_left():
    ledger = Ledger()
    ledger.set_limits("/root", Budget(tokens=150))
    reservation = BudgetReservation(
        agent_id="g", path="/guardian", amount=Amount(tokens=100, requests=1)
    )
    ledger.reserve(reservation, "r1")
    ledger.settle("r1", "/guardian", Amount(tokens=100, requests=1))
    assert ledger.spent("/root").tokens == 100
    assert isinstance(ledger.reserve(reservation, "r2"), BudgetRefusal)
