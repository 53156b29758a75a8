"""A reviewer's answer: its JSON schema, its parsing and its rendering for people. Pure.

Any answer of a model becomes a bounded `ReviewOutput`; an answer in the wrong form is kept as text.
"""

import re
from typing import cast

import msgspec

from swarm.mailbox.protocol.review import CodeLocation, LineRange, ReviewFinding, ReviewOutput
from swarm.mailbox.protocol.values.base import Value

CORRECT, INCORRECT = "patch is correct", "patch is incorrect"
NO_ANSWER = "The reviewer gave no answer."
_MAX_FINDINGS = 200
_TITLE_CHARS, _BODY_CHARS, _EXPLANATION_CHARS = 200, 8_000, 32_000
_MOST_SURE_OF_WEAK = 0.5  # what a model that is often wrong says of its own confidence counts for
_LAST_LINE = 10_000_000


def _closed(properties: dict[str, object]) -> dict[str, object]:
    """A schema that requires every property and allows no other, as strict providers need it."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_LINE: dict[str, object] = {"type": "integer", "minimum": 1}
_SCORE: dict[str, object] = {"type": "number", "minimum": 0, "maximum": 1}
_FINDING = _closed(
    {
        "title": {"type": "string"},
        "body": {"type": "string"},
        "confidence_score": _SCORE,
        "priority": {"type": "integer", "minimum": 0, "maximum": 3},
        "code_location": _closed(
            {
                "absolute_file_path": {"type": "string"},
                "line_range": _closed({"start": _LINE, "end": _LINE}),
            }
        ),
    }
)
SCHEMA = _closed(
    {
        "findings": {"type": "array", "items": _FINDING},
        "overall_correctness": {"type": "string", "enum": [CORRECT, INCORRECT]},
        "overall_explanation": {"type": "string"},
        "overall_confidence_score": _SCORE,
    }
)


def parse_review(text: str) -> ReviewOutput:
    """Parse the answer as JSON, else the part from its first `{` to its last `}`, else as text."""
    for piece in (text, text[text.find("{") : text.rfind("}") + 1]):
        try:
            return _bounded(msgspec.json.decode(piece.encode(), type=ReviewOutput, strict=False))
        except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError):
            continue
    return ReviewOutput(overall_explanation=text.strip()[:_EXPLANATION_CHARS])


def _bounded(output: ReviewOutput) -> ReviewOutput:
    return ReviewOutput(
        findings=tuple(_bounded_finding(one) for one in output.findings[:_MAX_FINDINGS]),
        overall_correctness=output.overall_correctness[:_TITLE_CHARS],
        overall_explanation=output.overall_explanation.strip()[:_EXPLANATION_CHARS],
        overall_confidence_score=_share(output.overall_confidence_score),
    )


def _bounded_finding(one: ReviewFinding) -> ReviewFinding:
    where = one.code_location
    start = min(max(1, where.line_range.start), _LAST_LINE)
    return ReviewFinding(
        title=" ".join(one.title.split())[:_TITLE_CHARS] or "(no title)",
        body=one.body.strip()[:_BODY_CHARS],
        confidence_score=_share(one.confidence_score),
        priority=None if one.priority is None else min(max(0, one.priority), 3),
        code_location=CodeLocation(
            absolute_file_path=where.absolute_file_path[:4096],
            line_range=LineRange(
                start=start, end=min(max(start, where.line_range.end), _LAST_LINE)
            ),
        ),
    )


def _share(score: float) -> float:
    return min(max(0.0, score), 1.0) if score == score else 0.0


class ReviewDoubts(Value):
    """What speaks against a reviewer's word."""

    broken: tuple[str, ...] = ()  # changed files that do not parse: `path: why`
    caution: str = ""  # why the model's answers are not to be trusted


def checked_review(output: ReviewOutput, doubts: ReviewDoubts) -> ReviewOutput:
    """The review, contradicted by what was checked, and as sure as its model may be."""
    said, sure = output.overall_explanation, output.overall_confidence_score
    notes: list[str] = []
    if doubts.caution:
        notes.append(doubts.caution)
        sure = min(sure, _MOST_SURE_OF_WEAK)
    findings, verdict = output.findings, output.overall_correctness
    if doubts.broken:
        listed = "; ".join(doubts.broken)
        if verdict == CORRECT:
            notes.insert(0, f"The reviewer called this correct, but it does not parse: {listed}.")
        findings = (*map(_broken_finding, doubts.broken), *findings)[:_MAX_FINDINGS]
        verdict, sure = INCORRECT, 1.0
    return ReviewOutput(
        findings=findings,
        overall_correctness=verdict,
        overall_explanation="\n\n".join((*notes, *filter(None, (said,)))),
        overall_confidence_score=sure,
    )


def _broken_finding(fault: str) -> ReviewFinding:
    path, _, why = fault.partition(": ")
    number = re.match(r"line (\d{1,7})\b", why)
    line = int(number[1]) if number is not None else 1
    return ReviewFinding(
        title=f"[P0] {path} does not parse"[:_TITLE_CHARS],
        body=f"Found by a check of the syntax: {why}",
        confidence_score=1.0,
        priority=0,
        code_location=CodeLocation(
            absolute_file_path=path, line_range=LineRange(start=line, end=line)
        ),
    )


def render_review(output: ReviewOutput) -> str:
    """Render for people: explanation, verdict, then each finding with its location."""
    blocks = [output.overall_explanation] if output.overall_explanation else []
    if output.overall_correctness:
        sure = f"{output.overall_confidence_score:.0%}"
        blocks.append(f"Verdict: {output.overall_correctness} (confidence {sure})")
    if output.findings:
        ordered = sorted(output.findings, key=lambda one: _rank(one.priority))
        blocks.append("Findings:\n\n" + "\n\n".join(map(_render_finding, ordered)))
    elif output.overall_correctness:
        blocks.append("No findings.")
    return "\n\n".join(blocks) or NO_ANSWER


def _rank(priority: int | None) -> int:
    return 4 if priority is None else priority


def _render_finding(one: ReviewFinding) -> str:
    mark = "" if one.priority is None or one.title.startswith("[P") else f"[P{one.priority}] "
    lines, path = one.code_location.line_range, one.code_location.absolute_file_path
    place = f"{path}:{lines.start}" + (f"-{lines.end}" if lines.end > lines.start else "")
    head = f"- {mark}{one.title}" + (f" — {place}" if path else "")
    body = "".join(f"\n  {line}".rstrip() for line in one.body.splitlines())
    return head + ("\n" + body.lstrip("\n") if body else "")


def as_json(output: ReviewOutput) -> dict[str, object]:
    """All fields, including those with default values."""
    return _all_fields(output)


def _all_fields(value: msgspec.Struct) -> dict[str, object]:
    return {name: _complete(one) for name, one in msgspec.structs.asdict(value).items()}


def _complete(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return _all_fields(value)
    if isinstance(value, tuple):
        return [_complete(one) for one in cast("tuple[object, ...]", value)]
    return value
