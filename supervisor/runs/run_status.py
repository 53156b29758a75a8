"""A run's status from how its root agent ended. Pure.

Rule guarded: a run is completed only if its root's work came to a good end and its answer fits; a
provider that did not answer, or refused for good, is told from any other failure.
"""

from typing import Literal

import msgspec

from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.records import AgentEnded, RunCompleted
from swarm.mailbox.schema_check import find_schema_violation

RunStatus = Literal[
    "completed", "failed", "refused", "budget", "deadline", "provider", "sandbox",
    "interrupted", "terminated",
]  # fmt: skip

PROVIDER_FAULTS = frozenset(
    {
        "unauthorized", "connection_failed", "overloaded", "usage_limit_exceeded", "missing_key",
        "no_provider", "idle_timeout", "stream_disconnected", "bad_response", "bad_request",
        "invalid_image", "other",
    }
)  # fmt: skip


def run_result(
    outcome: AgentEnded,
    end: TurnCompleted | TurnFailed | TurnAborted | None,
    *,
    schema: dict[str, object] | None,
) -> RunCompleted:
    """What the run came to.

    Args:
        outcome: How the root ended.
        end: Its last turn's end, if there was one in this life of the run.
        schema: What the answer must fit.
    """
    status = _status_of(outcome, end)
    if status == "budget" and isinstance(end, TurnCompleted):
        why = "the budget was used up; the answer is the best the root had by then"
        return RunCompleted(status=status, result=outcome.message, message=why)
    if status != "completed":
        return RunCompleted(status=status, message=outcome.message)
    if schema is not None and (fault := find_schema_violation(outcome.message, schema)):
        return RunCompleted(status="failed", result=outcome.message, message=fault)
    return RunCompleted(status="completed", result=outcome.message)


def as_interrupted(completed: RunCompleted) -> RunCompleted:
    """The same run, if a person interrupted agents at work after the root had answered."""
    if completed.status != "completed":
        return completed
    why = "agents at work were interrupted after the root had answered"
    return msgspec.structs.replace(completed, status="interrupted", message=why)


def _status_of(
    outcome: AgentEnded, end: TurnCompleted | TurnFailed | TurnAborted | None
) -> RunStatus:
    match outcome.state:
        case "completed" | "truncated":
            return "completed"
        case "interrupted" | "budget" | "deadline" | "refused":
            return outcome.state
        case "failed" | "crashed" | "killed":
            of_provider = isinstance(end, TurnFailed) and end.kind in PROVIDER_FAULTS
            return "provider" if of_provider else "failed"
