"""A reviewer's answer is read by one rule, and a turn that is denied too often ends."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.parts.guardian.assessment import (
    NOT_JSON,
    SCHEMA,
    Assessment,
    AssessmentUnreadable,
    CircuitBreaker,
    assess,
    failure_text,
    rejection_text,
    timeout_text,
)

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
        (f"```\n{FULL}\n```\n", of("allow", "high", "medium", "asked")),
        (f" \r\n\t{FULL}\n\n", of("allow", "high", "medium", "asked")),
        (
            '{"outcome":"allow","risk_level":"medium"}',
            of("allow", "medium", "unknown", ALLOWED),
        ),
        ('{"outcome":"deny","risk_level":"low"}', of("deny", "low", "unknown", DENIED)),
        (
            '{"outcome":"deny","rationale":"no {braces}"}',
            of("deny", "high", "unknown", "no {braces}"),
        ),
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
        # Prose around the object, or two answers at once.
        'I deny this. If harmless I would have answered {"outcome": "allow"}',
        'not {"outcome":"allow"}', f"Here it is: {FULL} Done.", f"{FULL}\nDone.", f"{FULL}{FULL}",
        f"```json\n{FULL}\n```\nDone.", f"No:\n```json\n{FULL}\n```",
        f"```json\n{FULL}\n```\n```json\n{FULL}\n```", f"```json {FULL} ```",
        f"```\nnot {FULL}\n```", f"~~~\n{FULL}\n~~~", f"`{FULL}`", f"\ufeff{FULL}", f"\u00a0{FULL}",
        f'"{FULL}"', f"[{FULL}]", f'{{"answer":{FULL}}}', f"// yes\n{FULL}", "'" + FULL + "'",
        '{"outcome":"allow"}' + " " * 200_000 + "no",
        # A key that stands twice, at any depth and however it is written.
        '{"outcome":"deny","outcome":"allow"}', '{"outcome":"allow","outcome":"allow"}',
        '{"\\u006futcome":"deny","outcome":"allow"}',
        '{"outcome":"deny","risk_level":"low","risk_level":"critical"}',
        # Not what the schema says.
        '{"outcome":"allow","more":1}', '{"outcome":"allow","risk_level":null}',
        '{"outcome":"deny","rationale":NaN}', '{"outcome":"deny","rationale":["no"]}',
        '{"outcome":"deny","more":{"a":1,"a":2}}', '{"outcome":"deny","rationale":"\\ud800"}',
        '{"outcome":"allow","risk_level":"low","rationale":"\ud800"}',
        # An allow that is more than the bare one must name its risk.
        '{"outcome":"allow","rationale":"fine"}', '{"outcome":"allow","user_authorization":"high"}',
    ],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_no_yes(message):
    with pytest.raises(AssessmentUnreadable, match=NOT_JSON):
        assess(message)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_is_read_or_refused(text):
    try:
        assessment = assess(text)
    except AssessmentUnreadable:
        return
    assert assessment.rationale


RISKS = ("low", "medium", "high", "critical")
AUTHORIZATIONS = ("unknown", "low", "medium", "high")


@pytest.mark.parametrize("authorization", [None, *AUTHORIZATIONS])
@pytest.mark.parametrize("risk", RISKS)
def test_an_allow_that_its_own_risk_forbids_is_a_denial_that_says_so(risk, authorization):
    said = {"outcome": "allow", "risk_level": risk, "rationale": "it is fine"}
    if authorization is not None:
        said["user_authorization"] = authorization
    found = assess(json.dumps(said))
    allowed = risk in ("low", "medium") or (risk == "high" and authorization in ("medium", "high"))
    assert found.outcome == ("allow" if allowed else "deny")
    assert (found.risk, found.authorization) == (risk, authorization or "unknown")
    assert "it is fine" in found.rationale
    assert ("contradicts itself" in found.rationale) is not allowed


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("authorization", AUTHORIZATIONS)
def test_a_denial_stays_one_whatever_stands_beside_it(risk, authorization):
    said = {"outcome": "deny", "risk_level": risk, "user_authorization": authorization}
    assert assess(json.dumps(said)).outcome == "deny"


fields = {
    "outcome": st.sampled_from(("allow", "deny", "perhaps", None, True, ["allow"])),
    "risk_level": st.sampled_from((*RISKS, "", None, 3)),
    "user_authorization": st.sampled_from((*AUTHORIZATIONS, "yes", None)),
    "rationale": st.text() | st.none() | st.just('{"outcome": "allow"}'),
    "note": st.integers(),
}
pairs = st.lists(
    st.sampled_from(sorted(fields)).flatmap(lambda name: st.tuples(st.just(name), fields[name])),
    max_size=5,
)
around = st.text() | st.sampled_from(("", " ", "\n", "not ", "[", "]", "```", "```json\n", ", "))


@given(pairs, around, around)
def test_only_one_whole_object_of_the_schema_is_ever_a_yes(said, before, after):
    inner = ", ".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in said)
    message = f"{before}{{{inner}}}{after}"
    try:
        allowed = assess(message).outcome == "allow"
    except AssessmentUnreadable:
        return
    values = dict(said)
    assert len(values) == len(said)
    assert "note" not in values
    assert not (before + after).strip(" \t\r\n") or message.strip(" \t\r\n").startswith("```")
    assert values["outcome"] == "allow" or not allowed
    assert not allowed or values.get("risk_level", "low") in RISKS[:3]


@given(st.text(), st.text(), st.sampled_from((FULL, '{"outcome": "allow"}')))
def test_no_prose_around_an_allow_makes_it_a_yes(before, after, answer):
    if not (before + after).strip(" \t\r\n"):
        return
    with pytest.raises(AssessmentUnreadable):
        assess(f"x{before}{answer}{after}")
    with pytest.raises(AssessmentUnreadable):
        assess(f"{before}{answer}{after}x")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_without_an_outcome_is_refused(value):
    with pytest.raises(AssessmentUnreadable):
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
    return [breaker.count(turn, denied=denied) for denied in denials]


def test_three_denials_in_a_row_end_the_turn_once():
    first, second, third, fourth = notes(CircuitBreaker(), True, True, True, True)
    assert (first, second, fourth) == ("", "", "")
    assert third == (
        "Automatic approval review rejected too many approval requests for this turn (3 "
        "consecutive, 3 in the last 50 reviews); interrupting the turn."
    )


def test_anything_but_a_denial_begins_a_new_row():
    assert not any(notes(CircuitBreaker(), True, True, False, True, True, False))


def test_ten_denials_among_the_last_fifty_end_the_turn():
    pattern = [True, True, False] * 5
    said = notes(CircuitBreaker(), *pattern)
    assert [bool(text) for text in said].index(True) == 13
    assert "(2 consecutive, 10 in the last 50 reviews)" in said[13]


def test_denials_of_long_ago_are_forgotten():
    spread = ([True] + [False] * 5) * 40
    assert not any(notes(CircuitBreaker(), *spread))


def test_another_turn_starts_from_nothing_and_no_turn_is_the_present_one():
    breaker = CircuitBreaker()
    assert not any(notes(breaker, True, True, turn="a"))
    assert not any(notes(breaker, True, turn="b"))
    assert not any(notes(breaker, True, turn=""))
    assert breaker.count("b", denied=True)
