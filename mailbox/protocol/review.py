"""The result of a code review. Values only; the shape is Codex's, so that tools read both."""

from typing import Literal

from .values.base import Tagged, Value

ReviewTarget = Literal["uncommitted", "base", "commit", "custom"]


class LineRange(Value):
    """Lines of a file, counted from 1, the last one included."""

    start: int = 1
    end: int = 1


class CodeLocation(Value):
    absolute_file_path: str = ""
    line_range: LineRange = LineRange()


class ReviewFinding(Value):
    title: str
    body: str = ""
    confidence_score: float = 0.0  # 0 to 1
    priority: int | None = None  # 0 (stop everything) to 3 (nice to have)
    code_location: CodeLocation = CodeLocation()


class ReviewOutput(Value):
    """Only `overall_explanation` is set if the reviewer's answer did not fit the schema."""

    findings: tuple[ReviewFinding, ...] = ()
    overall_correctness: str = ""  # "patch is correct" or "patch is incorrect"
    overall_explanation: str = ""
    overall_confidence_score: float = 0.0


# --- records ---------------------------------------------------------------------------------


class EnteredReviewMode(Tagged):
    """A code review begins: done by this agent, or by `reviewer` for it."""

    target: ReviewTarget
    hint: str = ""  # for people: what is under review
    reviewer: str = ""  # path
    broken: tuple[str, ...] = ()  # changed files that do not parse: `path: why`


class ExitedReviewMode(Tagged):
    """The review has ended; without `output` it gave no result."""

    output: ReviewOutput | None = None
    reviewer: str = ""
