"""What an agent may ask of the clock, and the fold of what became of it."""

import pytest

from swarm.mailbox.parts.wakeups.wakeup_messages import (
    WakeMe,
    WakeUp,
    WakeUpEnded,
    WakeUpFired,
    WakeUpMade,
)
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.wakeups.wakeup_book import WakeUpBook, pending_after
from swarm.supervisor.parts.wakeups.wakeup_lines import describe_pending
from swarm.supervisor.parts.wakeups.wakeup_rules import (
    MAX_MADE,
    MAX_PENDING,
    clock_text,
    decide_due,
)

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def due(pending: int = 0, made: int = 0, **request) -> float:
    wanted = WakeMe(**{"why": "look at the build", **request})
    return decide_due(wanted, now_unix_s=NOW, pending=pending, made=made)


@pytest.mark.parametrize(
    ("request_fields", "after_s"),
    [
        ({"after_s": 60}, 60),
        ({"after_s": 7 * 86_400}, 7 * 86_400),
        ({"at": "2027-01-15T08:05:00Z"}, 300),
        ({"at": "2027-01-15T09:05:00+01:00"}, 300),
        ({"at": " 2027-01-15 08:05:00+00:00 "}, 300),
    ],
)
def test_a_time_from_a_minute_to_a_week_away_is_taken(request_fields, after_s):
    assert due(**request_fields) == NOW + after_s


@pytest.mark.parametrize(
    ("request_fields", "told"),
    [
        ({"after_s": 59}, "60 seconds to 7 days"),
        ({"after_s": -1}, "60 seconds to 7 days"),
        ({"after_s": 7 * 86_400 + 1}, "60 seconds to 7 days"),
        ({"after_s": float("inf")}, "60 seconds to 7 days"),
        ({"after_s": float("nan")}, "60 seconds to 7 days"),
        ({"at": "2026-01-15T08:05:00Z"}, "60 seconds to 7 days"),
        ({"at": "tomorrow"}, "which is no time"),
        ({"at": "9999-12-31T23:59:59-23:59"}, "which is no time"),
        ({}, "either after_s or at"),
        ({"after_s": 60, "at": "2027-01-15T08:05:00Z"}, "either after_s or at"),
        ({"after_s": 60, "why": " \n"}, "why must not be empty"),
        ({"after_s": 60, "why": "x" * 301}, "too long"),
        ({"after_s": 60, "pending": MAX_PENDING}, "take one back"),
        ({"after_s": 60, "made": MAX_MADE}, "end your work"),
    ],
)
def test_every_other_request_is_refused_with_what_to_do(request_fields, told):
    with pytest.raises(AgentRequestError, match=told):
        due(**request_fields)


def made(number: int, **fields) -> WakeUpMade:
    fields = {"agent": "/root", "cause": "clock", "made_unix_s": NOW, **fields}
    return WakeUpMade(wake_up=WakeUp(number=number, **fields))


def test_the_book_and_the_view_hold_the_same_after_each_record():
    book, shown = WakeUpBook(), ()
    records = [
        (made(1, due_unix_s=NOW + 60), [1]),
        (made(2, cause="command", most=9, until_unix_s=NOW + 50), [1, 2]),
        (WakeUpFired(number=2, is_last=False), [1, 2]),
        (made(3), [1, 2, 3]),
        (WakeUpFired(number=1), [2, 3]),
        (WakeUpFired(number=1), [2, 3]),  # nobody fires it again
        (WakeUpEnded(number=3, reason="agent"), [2]),
        (WakeUpEnded(number=0, reason="person"), [2]),
    ]
    for body, numbers in records:
        book.take("/root", body)
        shown = pending_after(shown, body)
        assert list(book.pending) == numbers
        assert tuple(book.pending.values()) == shown
    assert book.pending[2].fired == 1
    assert (book.last_number, book.made, book.is_barred) == (3, {"/root": 2}, True)


def test_the_clock_looks_at_what_is_due_or_over_first():
    book = WakeUpBook()
    for body in (made(1, due_unix_s=NOW + 9), made(2, until_unix_s=NOW + 5), made(3)):
        book.take("/root", body)
    following = book.next_due()
    assert following is not None
    assert following.number == 2


def test_a_late_wake_up_says_that_it_is_late():
    one = made(4, due_unix_s=NOW, why="see").wake_up
    assert "was due" not in clock_text(one, NOW + 1)
    assert "It was due at" in clock_text(one, NOW + 3600)


def test_what_people_see_names_the_agent_the_cause_the_time_and_the_reason():
    (line,) = describe_pending([made(1, due_unix_s=NOW + 60, why="b\x1bad").wake_up])
    assert "/root waits for the clock (2027-01-15" in line
    assert "\x1b" not in line
    assert describe_pending([]) == []
    assert "2 wake-ups" in describe_pending([made(1).wake_up, made(2).wake_up])[0]
