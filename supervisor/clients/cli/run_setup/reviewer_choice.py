"""Chooses who answers a run's approvals: as configured, or by where the run was started. Pure.

A request that nobody can answer is not asked: under `CI` no person is waited for.
"""

from collections.abc import Mapping
from typing import Literal

from swarm.mailbox.protocol.values.limits import Reviewer
from swarm.roles.config.schema import Config

from ...console.terminal import is_ci

NO_PERSON_WARNING = "nobody can answer approvals under CI: what would ask a person is refused"
AnswerLocation = Literal["terminal", "elsewhere", "nowhere"]
# terminal: a person is here; elsewhere: only another terminal could answer; nowhere: CI


def find_answer_location(environment: Mapping[str, str], *, on_terminal: bool) -> AnswerLocation:
    """Where a person could answer. `on_terminal`: keys are read and text is shown here."""
    if is_ci(environment):
        return "nowhere"
    return "terminal" if on_terminal else "elsewhere"


def choose_reviewer(config: Config, warnings: list[str], *, at: AnswerLocation) -> Reviewer:
    """The run's reviewer; warnings about the choice are appended to `warnings`."""
    match config.approvals_reviewer:
        case "nobody":
            return "nobody"
        case "user" if at == "nowhere":
            warnings.append(NO_PERSON_WARNING)
            return "nobody"
        case "user":
            return "person"
        case None if at == "terminal":
            return "person"
        case None | "auto_review" | "guardian_subagent":
            return _guardian(config, warnings)


def _guardian(config: Config, warnings: list[str]) -> Reviewer:
    """Choose the guardian and warn if the policy is not one under which it judges."""
    policy = config.approval
    if policy in {"untrusted", "on-failure"}:
        is_chosen = config.approvals_reviewer is not None
        warnings.append(
            f"the reviewer judges only under approval on-request: under {policy} what would ask "
            + ("is refused; use --reviewer person" if is_chosen else "is refused")
        )
    return "guardian"
