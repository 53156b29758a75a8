"""Parses a reviewer's last message; renders what the requesting agent reads; counts denials. Pure.

Only a complete answer that is exactly one object of the schema counts; an unreadable answer never
approves. An `allow` that contradicts the risk it names becomes a denial. *Denied* and *the review
failed* are different outcomes with different texts.
"""

import json
import re
from collections import deque
from typing import Literal, NoReturn

import msgspec

from swarm.mailbox.protocol.values.base import Value

from .review_transcript import cut_middle

Risk = Literal["low", "medium", "high", "critical"]
Authorization = Literal["unknown", "low", "medium", "high"]

NOT_JSON = "guardian assessment was not valid JSON"
SCHEMA = msgspec.json.encode(
    {
        "type": "object",
        "properties": {
            "risk_level": {"type": "string", "enum": ["low", "medium", "high", "critical"]},
            "user_authorization": {
                "type": "string",
                "enum": ["unknown", "low", "medium", "high"],
            },
            "outcome": {"type": "string", "enum": ["allow", "deny"]},
            "rationale": {"type": "string"},
        },
        "required": ["outcome"],
        "additionalProperties": False,
    }
)
IN_A_ROW, OF_THE_LAST, WINDOW = 3, 10, 50  # denials that end a turn
_ALLOWED = "The reviewer allowed the action as low in risk and gave no further reason."
_DENIED = "The reviewer denied the action and gave no further reason."
_NO_RATIONALE = "Auto-reviewer denied the action without a specific rationale."
_RATIONALE_TOKENS = 500
_MAX_CHARS = 200_000
_SPACE = " \t\r\n"  # JSON's whitespace; other text beside the object is not accepted
_FENCE = re.compile(r"```(?:json|JSON)?[ \t]*\r?\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
# What the policy never allows: critical risk, and high risk that the user has not authorized.
_FORBIDDEN: dict[Risk, frozenset[Authorization]] = {
    "low": frozenset(),
    "medium": frozenset(),
    "high": frozenset({"unknown", "low"}),
    "critical": frozenset({"unknown", "low", "medium", "high"}),
}


class Assessment(Value):
    """A reviewer's assessment, missing fields filled with defaults."""

    outcome: Literal["allow", "deny"]
    risk: Risk
    authorization: Authorization
    rationale: str


class AssessmentUnreadable(Exception):
    """The message holds no assessment; the text says why."""


class _ReviewerAnswer(msgspec.Struct, forbid_unknown_fields=True):
    outcome: Literal["allow", "deny"]
    risk_level: Risk | msgspec.UnsetType = msgspec.UNSET
    user_authorization: Authorization | msgspec.UnsetType = msgspec.UNSET
    rationale: str | msgspec.UnsetType = msgspec.UNSET


def assess(message: str) -> Assessment:
    """Parse a reviewer's last message. Raises only AssessmentUnreadable, for any text."""
    answer = _read(message)
    allows = answer.outcome == "allow"
    bare = answer.risk_level is answer.user_authorization is answer.rationale is msgspec.UNSET
    if allows and not bare and answer.risk_level is msgspec.UNSET:
        raise AssessmentUnreadable(
            f"{NOT_JSON}: it allows more than a bare allow does, and names no risk"
        )
    rationale = cut_middle((answer.rationale or "").strip(), limit_tokens=_RATIONALE_TOKENS)
    return _deny_forbidden(
        Assessment(
            outcome=answer.outcome,
            risk=answer.risk_level or ("low" if allows else "high"),
            authorization=answer.user_authorization or "unknown",
            rationale=rationale or (_ALLOWED if allows else _DENIED),
        )
    )


def _deny_forbidden(assessment: Assessment) -> Assessment:
    """Return the assessment, or a denial if it allows what the named risk forbids."""
    if assessment.outcome == "deny" or assessment.authorization not in _FORBIDDEN[assessment.risk]:
        return assessment
    why = (
        "The reviewer's answer contradicts itself: it allows an action of "
        f"{assessment.risk} risk with {assessment.authorization} authorization by the user, "
        "which the policy denies."
    )
    if assessment.rationale != _ALLOWED:
        why += f" It said: {assessment.rationale}"
    return msgspec.structs.replace(assessment, outcome="deny", rationale=why)


def _read(message: str) -> _ReviewerAnswer:
    """Decode the object that is the whole message; one code fence around it is accepted."""
    if len(message) > _MAX_CHARS:
        raise AssessmentUnreadable(f"{NOT_JSON}: over {_MAX_CHARS} characters")
    text = message.strip(_SPACE)
    if (fence := _FENCE.fullmatch(text)) is not None:
        text = fence["inside"].strip(_SPACE)
    if not text.startswith("{"):
        raise AssessmentUnreadable(f"{NOT_JSON}: it is not one object alone")
    try:
        answer = msgspec.json.decode(text.encode(), type=_ReviewerAnswer)
        json.loads(text, object_pairs_hook=_refuse_double_keys, parse_constant=_refuse_constant)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise AssessmentUnreadable(f"{NOT_JSON}: {error}") from None
    return answer


def _refuse_double_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object; a key that appears twice is ambiguous and refused."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def rejection_text(assessment: Assessment) -> str:
    """What an agent reads when its action was denied."""
    reason = assessment.rationale
    if not reason or reason == _DENIED:
        reason = _NO_RATIONALE
    return (
        "This action was rejected due to unacceptable risk.\n"
        f"Reason: {reason}\n"
        "Do not try to reach the same result another way: no workaround, no indirect execution, no "
        "way around the policy. Go on only with something that is clearly safer, or once the user "
        "has been told of this risk and has approved the action in so many words. Otherwise stop "
        "and ask the user."
    )


def failure_text(why: str) -> str:
    """What an agent reads when the review itself failed: nobody judged its action."""
    return (
        "This action was not run, because its automatic review failed. Nobody judged the action "
        "itself, so this is not a denial.\n"
        f"Reason: Automatic approval review failed: {why}\n"
        "You may ask for it once more. If the review fails again, go on without this action or ask "
        "the user to approve it; do not try to reach the same result around the review."
    )


def timeout_text(deadline_s: float) -> str:
    """What an agent reads when no verdict came in time."""
    return (
        f"This action was not run: its automatic review was not finished within {deadline_s:g} "
        "seconds. That says nothing about the action; do not take it for unsafe because of this. "
        "You may try once more, or ask the user for guidance or an explicit approval."
    )


def retry_text(why: str) -> str:
    """What a reviewer reads when its answer could not be used."""
    return (
        f"Your last message could not be used: {why}. Answer for the same requested action again, "
        'now with the JSON object alone: {"outcome": "allow"}, or an object with risk_level, '
        "user_authorization, outcome and rationale. Each of them once, nothing else in it, nothing "
        "before it and nothing after it."
    )


class CircuitBreaker:
    """Ends a turn after too many denials. One for each reviewed agent.

    Such a turn is taken as an attempt to get around the reviewer. Only denials count: a failed
    review says nothing about the agent.
    """

    def __init__(self) -> None:
        self._turn = ""
        self._in_a_row = 0
        self._denials: deque[bool] = deque(maxlen=WINDOW)
        self._tripped = False

    def count(self, turn_id: str, *, denied: bool) -> str:
        """Count one review; return a warning if it ends the turn (at most once a turn), else "".

        A new turn starts at zero; a review without a turn id counts for the current turn.
        """
        if turn_id and turn_id != self._turn:
            self._turn, self._in_a_row, self._tripped = turn_id, 0, False
            self._denials.clear()
        self._denials.append(denied)
        self._in_a_row = self._in_a_row + 1 if denied else 0
        recent = sum(self._denials)
        if self._tripped or not denied or (self._in_a_row < IN_A_ROW and recent < OF_THE_LAST):
            return ""
        self._tripped = True
        return (
            "Automatic approval review rejected too many approval requests for this turn "
            f"({self._in_a_row} consecutive, {recent} in the last {WINDOW} reviews); "
            "interrupting the turn."
        )
