"""A reviewer's answer: read whatever its form, bounded, and shown."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema_rs import validator_for

from swarm.mailbox.protocol.review import CodeLocation, LineRange, ReviewFinding, ReviewOutput
from swarm.supervisor.parts.review.review_output import (
    SCHEMA,
    ReviewDoubts,
    as_json,
    checked_review,
    parse_review,
    render_review,
)

FINDING = ReviewFinding(
    title="[P1] The last line is lost",
    body="Without a line feed at the end\nthe loop stops early.",
    confidence_score=0.9,
    priority=1,
    code_location=CodeLocation(
        absolute_file_path="/w/read.py", line_range=LineRange(start=10, end=12)
    ),
)
OUTPUT = ReviewOutput(
    findings=(FINDING,),
    overall_correctness="patch is incorrect",
    overall_explanation="It loses data.",
    overall_confidence_score=0.85,
)
TEXT = json.dumps(as_json(OUTPUT))


@pytest.mark.parametrize(
    "text", [TEXT, f"```json\n{TEXT}\n```", f"Here it is:\n{TEXT}\nThat is all."]
)
def test_an_answer_is_read_with_words_or_a_fence_around_it(text):
    assert parse_review(text) == OUTPUT


@pytest.mark.parametrize(
    "text", ["It looks good.", "{", "}{", "[1]", '{"findings": 7}', "", "{" * 100_000]
)
def test_what_is_no_such_json_is_kept_as_words(text):
    assert parse_review(text) == ReviewOutput(overall_explanation=text.strip()[:32_000])


def test_numbers_out_of_their_range_and_long_texts_are_bounded():
    wild = {
        "findings": [
            {
                "title": "a\nb" + "x" * 999,
                "body": "y" * 99_999,
                "confidence_score": 7,
                "priority": 9,
                "code_location": {
                    "absolute_file_path": "/f",
                    "line_range": {"start": -4, "end": -9},
                },
            }
        ]
        * 999,
        "overall_confidence_score": -1,
    }
    output = parse_review(json.dumps(wild))
    one = output.findings[0]
    assert (len(output.findings), len(one.title), len(one.body)) == (200, 200, 8_000)
    assert (one.confidence_score, one.priority, output.overall_confidence_score) == (1, 3, 0)
    assert one.code_location.line_range == LineRange(start=1, end=1)
    assert "\n" not in one.title


@given(st.text() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_read_and_can_be_shown_and_told(text):
    output = parse_review(text)
    assert render_review(output)
    assert json.loads(json.dumps(as_json(output))) == as_json(output)


def test_what_is_told_fits_the_schema_that_the_model_is_asked_for():
    validator_for(SCHEMA).validate(as_json(OUTPUT))


def test_people_see_the_verdict_then_each_finding_with_its_place_the_weightiest_first():
    later = ReviewFinding(title="Name it", priority=3, code_location=CodeLocation())
    output = ReviewOutput(
        findings=(later, FINDING), overall_correctness="patch is incorrect",
        overall_explanation="It loses data.", overall_confidence_score=0.85,
    )  # fmt: skip
    assert render_review(output) == (
        "It loses data.\n\n"
        "Verdict: patch is incorrect (confidence 85%)\n\n"
        "Findings:\n\n"
        "- [P1] The last line is lost — /w/read.py:10-12\n"
        "  Without a line feed at the end\n"
        "  the loop stops early.\n\n"
        "- [P3] Name it"
    )


def test_no_findings_are_said():
    output = ReviewOutput(overall_correctness="patch is correct", overall_confidence_score=1)
    assert render_review(output) == "Verdict: patch is correct (confidence 100%)\n\nNo findings."
    assert render_review(ReviewOutput()) == "The reviewer gave no answer."


GOOD = ReviewOutput(
    overall_correctness="patch is correct",
    overall_explanation="All is fine.",
    overall_confidence_score=1.0,
)


def test_a_verdict_is_contradicted_by_a_file_that_does_not_parse():
    doubts = ReviewDoubts(broken=("/w/a.py: line 7: invalid syntax",))
    checked = checked_review(GOOD, doubts)
    assert checked.overall_correctness == "patch is incorrect"
    assert checked.findings[0].priority == 0
    assert checked.findings[0].code_location == CodeLocation(
        absolute_file_path="/w/a.py", line_range=LineRange(start=7, end=7)
    )
    shown = render_review(checked)
    assert "called this correct, but it does not parse: /w/a.py: line 7" in shown
    assert "All is fine." in shown


def test_a_model_that_is_often_wrong_is_never_sure_and_the_review_says_so():
    caution = "tiny is a small model and is often wrong"
    checked = checked_review(GOOD, ReviewDoubts(caution=caution))
    shown = render_review(checked)
    assert caution in shown and "confidence 50%" in shown and "100%" not in shown
    less = msgspec.structs.replace(GOOD, overall_confidence_score=0.3)
    assert checked_review(less, ReviewDoubts(caution=caution)).overall_confidence_score == 0.3


def test_without_doubts_a_review_stays_as_it_is():
    assert checked_review(OUTPUT, ReviewDoubts()) == OUTPUT
