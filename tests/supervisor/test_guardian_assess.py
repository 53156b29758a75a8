"""A reviewer's answer is read by one rule, and a turn that is denied too often ends."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.guardian.assess import (
    NOT_JSON,
    SCHEMA,
    Assessment,
    Unreadable,
    assess,
    failure_text,
    rejection_text,
    timeout_text,
)
from swarm.supervisor.guardian.breaker import Breaker

ALLOWED = "The reviewer allowed the action as low in risk and gave no further reason."
DENIED = "The reviewer denied the action and gave no further reason."


def of(outcome, risk, authorization, rationale):
    return Assessment(outcome=outcome, risk=risk, authorization=authorization, rationale=rationale)


FULL = '{"risk_level":"high","user_authorization":"medium","outcome":"allow","rationale":"asked"}'


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('{"outcome":"allow"}', of("allow", "low", "unknown", ALLOWED)),
        ('{"outcome":"deny"}', of("deny", "high", "unknown", DENIED)),
        ('{"outcome":"deny","rationale":"  "}', of("deny", "high", "unknown", DENIED)),
        (FULL, of("allow", "high", "medium", "asked")),
        (f"```json\n{FULL}\n```", of("allow", "high", "medium", "asked")),
        (f"Here it is: {FULL} Done.", of("allow", "high", "medium", "asked")),
        ('{"outcome":"allow","risk_level":null}', of("allow", "low", "unknown", ALLOWED)),
        # The outcome rules, whatever risk stands beside it.
        (
            '{"outcome":"allow","risk_level":"critical"}',
            of("allow", "critical", "unknown", ALLOWED),
        ),
        ('{"outcome":"deny","risk_level":"low"}', of("deny", "low", "unknown", DENIED)),
        ('{"outcome":"allow","more":1}', of("allow", "low", "unknown", ALLOWED)),
    ],
)
def test_an_answer_is_read_with_its_gaps_filled(message, expected):
    assert assess(message) == expected


@pytest.mark.parametrize(
    "message",
    [
        "", "{}", "allow", "null", "[]", '"allow"', '{"outcome":"perhaps"}', '{"outcome":true}',
        '{"outcome":"allow"', '{"outcome":"allow","risk_level":"tiny"}', "}{", "[" * 100_000,
        'First {"outcome":"deny"}, then {"outcome":"allow"}', '{"outcome":["allow"]}',
        '{"OUTCOME":"allow"}', '{"outcome":"Allow"}',
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_no_yes(message):
    with pytest.raises(Unreadable, match=NOT_JSON):
        assess(message)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_is_read_or_refused(text):
    try:
        assessment = assess(text)
    except Unreadable:
        return
    assert assessment.rationale


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_without_an_outcome_is_refused(value):
    with pytest.raises(Unreadable):
        assess(msgspec.json.encode(value).decode())


def test_the_schema_asks_for_the_outcome_and_for_nothing_unknown():
    schema = msgspec.json.decode(SCHEMA)
    assert schema["required"] == ["outcome"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {
        "risk_level", "user_authorization", "outcome", "rationale",
    }  # fmt: skip


def test_denied_failed_and_late_are_told_apart():
    denied = rejection_text(of("deny", "high", "low", "it removes the user's notes"))
    assert denied.splitlines()[:2] == [
        "This action was rejected due to unacceptable risk.",
        "Reason: it removes the user's notes",
    ]
    assert len(denied.splitlines()) == 3
    bare = rejection_text(of("deny", "high", "low", DENIED))
    assert "Reason: Auto-reviewer denied the action without a specific rationale." in bare
    failed = failure_text("it is gone")
    assert "Reason: Automatic approval review failed: it is gone" in failed
    assert "rejected" not in failed
    assert "90 seconds" in timeout_text(90.0)
    assert "rejected" not in timeout_text(90.0)


# --- the circuit breaker -----------------------------------------------------------------------


def notes(breaker, *denials, turn="t"):
    return [breaker.note(turn, denied=denied) for denied in denials]


def test_three_denials_in_a_row_end_the_turn_once():
    first, second, third, fourth = notes(Breaker(), True, True, True, True)
    assert (first, second, fourth) == ("", "", "")
    assert third == (
        "Automatic approval review rejected too many approval requests for this turn (3 "
        "consecutive, 3 in the last 50 reviews); interrupting the turn."
    )


def test_anything_but_a_denial_begins_a_new_row():
    assert not any(notes(Breaker(), True, True, False, True, True, False))


def test_ten_denials_among_the_last_fifty_end_the_turn():
    pattern = [True, True, False] * 5
    said = notes(Breaker(), *pattern)
    assert [bool(text) for text in said].index(True) == 13
    assert "(2 consecutive, 10 in the last 50 reviews)" in said[13]


def test_denials_of_long_ago_are_forgotten():
    spread = ([True] + [False] * 5) * 40
    assert not any(notes(Breaker(), *spread))


def test_another_turn_starts_from_nothing_and_no_turn_is_the_present_one():
    breaker = Breaker()
    assert not any(notes(breaker, True, True, turn="a"))
    assert not any(notes(breaker, True, turn="b"))
    assert not any(notes(breaker, True, turn=""))
    assert breaker.note("b", denied=True)
