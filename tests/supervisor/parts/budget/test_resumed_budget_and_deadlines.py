"""What a resume finds in the journal, what people read of bounds, and the hours."""

from typing import Any

import pytest

from swarm.mailbox.protocol.control import Recorded, RunView
from swarm.mailbox.protocol.gateway import ReservationReleased, ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    BudgetSet,
    Record,
    Reserved,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.values.limits import Budget, Limits
from swarm.supervisor.clients.console.log_lines import describe_body
from swarm.supervisor.clients.console.tree_view import render_run
from swarm.supervisor.clients.serve.json_conversion import JsonConversion
from swarm.supervisor.parts.budget.budget_texts import (
    budget_notice,
    budget_used_up_text,
    deadline_notice,
)
from swarm.supervisor.parts.budget.deadlines import DeadlineStep, next_deadline_step
from swarm.supervisor.parts.budget.ledger import (
    Amount,
    BudgetRefusal,
    BudgetReservation,
    BudgetUsage,
    fold_ledger,
)
from swarm.supervisor.views.budget_description import budget_parts, describe_budget
from swarm.supervisor.views.run_state import RunState

ROOT = AgentSpawned(agent_id="r", path="/root", epoch=1, pid=1)
CHILD = AgentSpawned(
    agent_id="c", path="/root/c", epoch=1, pid=2, limits=Limits(budget=Budget(requests=5))
)


def records(*bodies):
    return [
        Record(seq=seq, ts=float(seq), body=body, agent=agent)
        for seq, (agent, body) in enumerate(bodies, 1)
    ]


def drew(tokens, *, agent="r", name="", usd=0.5):
    usage = TokenUsage(input_tokens=tokens, total_tokens=tokens)
    return ResponseBilled(
        agent_id=agent, provider="p", model="m", usage=usage, usd=usd, reservation=name
    )


def reserved(tokens, *, agent="r", name):
    return Reserved(agent_id=agent, reservation=name, tokens=tokens)


STORY = records(
    ("/root", BudgetSet(budget=Budget(tokens=1000))),
    ("/root", ROOT),
    ("/root", reserved(300, name="1-1")),
    ("/root", drew(100, name="1-1")),
    ("/root/c", CHILD),
    ("/root/c", reserved(50, agent="c", name="1-2")),
    ("", ReservationReleased(agent_id="c", reservation="1-2", tokens=40, usd=0.1, requests=1)),
    ("/root", reserved(200, name="1-3")),
)


def test_the_journal_gives_back_what_was_spent_and_what_was_under_way():
    ledger = fold_ledger(STORY)
    assert ledger.spent() == Amount(tokens=140, nano_usd=600_000_000, requests=2)
    assert ledger.spent("/root/c") == Amount(tokens=40, nano_usd=100_000_000, requests=1)
    assert ledger.held_amount().tokens == 200
    assert list(ledger.held) == ["1-3"]


def test_what_was_written_off_is_not_counted_again():
    late = records(
        ("/root", ReservationReleased(agent_id="r", reservation="1-3", tokens=200, requests=1)),
        ("/root", drew(180, name="1-3")),
    )
    ledger = fold_ledger([*STORY, *late])
    assert ledger.spent().tokens == 340
    assert ledger.held == {}


def test_a_run_without_a_bound_is_counted_too_so_that_a_resume_may_set_one():
    ledger = fold_ledger(records(("/root", ROOT), ("/root", drew(700)), ("", drew(50, agent="x"))))
    assert ledger.spent() == Amount(tokens=750, nano_usd=1_000_000_000, requests=2)


def test_after_a_cut_an_agent_that_had_room_again_may_have_its_last_grant_again():
    last = Reserved(agent_id="r", reservation="1-4", tokens=900, last=True)
    more = records(
        *(("/root", body) for body in (last, drew(900, name="1-4"))),
        ("/root", BudgetSet(budget=Budget(tokens=5000))),
        *(("/root", body) for body in (reserved(10, name="2-1"), drew(10, name="2-1"))),
    )
    ask = BudgetReservation(agent_id="r", path="/root", amount=Amount(tokens=9000), worked=True)
    spent, raised = (fold_ledger([*STORY, *more[:end]]).reserve(ask, "x") for end in (2, 5))
    assert isinstance(spent, BudgetRefusal)
    assert isinstance(raised, BudgetRefusal)
    assert (spent.ask_again, raised.ask_again) == (False, True)


def test_the_footer_shows_the_shares_of_the_runs_bounds():
    state = RunState(slots_max=2)
    bodies = [
        RunStarted(run_id="0" * 32, task="-", title="t", cwd="/", version="1"),
        BudgetSet(budget=Budget(tokens=1000, usd=2.0, requests=40), deadline_unix_s=601.0),
        drew(850),
        ReservationReleased(agent_id="r", reservation="x", tokens=50, requests=1),
    ]
    for record in records(*(("/root", body) for body in bodies)):
        state.apply(Recorded(record=record))
    view = state.view()
    assert (view.drawn_tokens, view.drawn_requests, view.usd) == (900, 2, 0.5)
    assert budget_parts(view, now=541.0) == [
        ("90% of 1.0k tokens", True),
        ("$0.50 of $2.00 (25%)", False),
        ("5% of 40 requests", False),
        ("1 m 00 s left", True),
    ]
    footer = render_run(view, width=160, height=10, now=541.0).text.splitlines()[-1]
    assert "90% of 1.0k tokens" in footer


def test_a_run_without_a_bound_has_no_share():
    assert budget_parts(RunView(), now=1.0) == []
    assert describe_budget(Budget()) == ""


def test_the_last_line_says_what_of_the_budget_was_used_over_all_parts_of_the_run():
    conversion = JsonConversion()
    before = BudgetSet(budget=Budget(tokens=9000), spent_tokens=500, spent_requests=2)
    bodies = [
        ("/root", before),
        ("/root", drew(100)),
        (
            "/root",
            ReservationReleased(agent_id="r", reservation="x", tokens=7, usd=0.25, requests=1),
        ),
        ("/root/c", BudgetSet(budget=Budget(tokens=1))),
        ("", RunCompleted(status="budget", result="best")),
    ]
    last: Any = [line for record in records(*bodies) for line in conversion.record_lines(record)][
        -1
    ]
    assert (last.status, last.result) == ("budget", "best")
    assert (last.budget.tokens, last.budget.usd, last.budget.requests) == (9000, None, None)
    used = (last.budget.used_tokens, last.budget.used_usd, last.budget.used_requests)
    assert used == (607, 0.75, 4)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (BudgetSet(budget=Budget(tokens=5000, usd=2.0)), "5.0k tokens, $2.00"),
        (reserved(300, name="1-1"), "1-1 granted: up to 300 tokens"),
        (
            ReservationReleased(
                agent_id="a", reservation="1-1", tokens=40, reason="it was cut off"
            ),
            "1-1 counts as 40 tokens (it was cut off)",
        ),
    ],
)
def test_the_log_tells_the_books(body, words):
    assert describe_body(body) == words


def test_the_words_name_whose_bound_it_is_and_what_to_do():
    share = BudgetUsage(path="/root", unit="tokens", used=8_500, bound=10_000)
    assert "85 % of the run's budget is used (8,500 of 10,000 tokens" in budget_notice(share)
    assert "--budget-tokens" in budget_used_up_text(share)
    child = BudgetUsage(path="/root/a", unit="dollars", used=0.9, bound=1.0)
    assert "the budget of /root/a is used (0.9 of 1 dollars" in budget_notice(child)
    assert "{" not in budget_notice(share) + budget_notice(child) + deadline_notice(30)


@pytest.mark.parametrize(
    ("now", "told", "cut", "hour"),
    [
        (100.0, False, False, DeadlineStep(due="nothing", wait_s=90.0)),
        (190.0, False, False, DeadlineStep(due="notify", wait_s=10.0)),
        (195.0, True, False, DeadlineStep(due="nothing", wait_s=5.0)),
        (200.0, True, False, DeadlineStep(due="interrupt", wait_s=5.0)),
        (200.0, False, False, DeadlineStep(due="interrupt", wait_s=5.0)),
        (203.0, True, True, DeadlineStep(due="nothing", wait_s=2.0)),
        (205.0, True, True, DeadlineStep(due="end", wait_s=None)),
        (300.0, False, False, DeadlineStep(due="interrupt", wait_s=0.0)),
    ],
)
def test_an_agent_is_told_at_nine_tenths_interrupted_at_the_end_and_ended_after_it(
    now, told, cut, hour
):
    assert (
        next_deadline_step(began=100.0, deadline=200.0, now=now, notified=told, interrupted=cut)
        == hour
    )
