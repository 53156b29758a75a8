"""A run's status from the end of its root agent. No I/O.

A run is completed only if its root's work ended well, its answer is whole, and it fits the schema.
A provider that did not answer, or refused for good, has a status of its own.
"""

from typing import Literal

import msgspec

from swarm.mailbox.base.schema_check import find_schema_violation
from swarm.mailbox.parts.part_messages import PartEndState
from swarm.mailbox.protocol.events import TurnAborted, TurnCompleted, TurnFailed
from swarm.mailbox.protocol.records import AgentEnded, RunCompleted

RunStatus = (
    Literal[
        "completed",
        "partial",
        "truncated",
        "failed",
        "refused",
        "budget",
        "deadline",
        "provider",
        "sandbox",
        "interrupted",
        "terminated",
    ]
    | PartEndState
)

ANSWERED: frozenset[RunStatus] = frozenset({"completed", "partial"})  # the root completed

_TRUNCATED = (
    'the answer is cut: the model stopped at its output limit. `swarm resume RUN -p "go on"` '
    "continues it; --accept-truncated takes such an answer"
)

PROVIDER_FAULTS = frozenset(
    {
        "unauthorized",
        "connection_failed",
        "overloaded",
        "usage_limit_exceeded",
        "missing_key",
        "no_provider",
        "idle_timeout",
        "stream_disconnected",
        "bad_response",
        "bad_request",
        "invalid_image",
        "other",
    }
)


def run_result(
    outcome: AgentEnded,
    end: TurnCompleted | TurnFailed | TurnAborted | None,
    *,
    schema: dict[str, object] | None,
    accept_truncated: bool = False,
) -> RunCompleted:
    """The outcome of the run.

    Args:
        outcome: How the root ended.
        end: Its last turn's end, if there was one since the last start or resume of the run.
        schema: The JSON schema that the answer must fit.
        accept_truncated: An answer that the model's output limit cut counts as an answer.
    """
    status = _status_of(outcome, end)
    if status == "truncated" and not accept_truncated:
        return RunCompleted(status=status, result=outcome.message, message=_TRUNCATED)
    status = "completed" if status == "truncated" else status
    if status == "budget" and isinstance(end, TurnCompleted):
        why = "the budget was used up; the answer is the best the root had by then"
        return RunCompleted(status=status, result=outcome.message, message=why)
    if status != "completed":
        return RunCompleted(status=status, message=outcome.message)
    if schema is not None and (fault := find_schema_violation(outcome.message, schema)):
        return RunCompleted(status="failed", result=outcome.message, message=fault)
    return RunCompleted(status="completed", result=outcome.message)


def with_failed_items(
    completed: RunCompleted, *, items: int, failed: int, run: str
) -> RunCompleted:
    """The same outcome, if the root completed and items of its fan-out did not. `run`: its name."""
    if completed.status != "completed" or not failed:
        return completed
    status: RunStatus = "partial" if failed < items else "failed"
    count = f"{failed} of {items} items" if failed < items else f"all {items} items"
    why = (
        f"{count} failed: `swarm result {run} --items` lists them, `swarm resume {run}` runs "
        f"{'it' if failed == 1 else 'them'} again"
    )
    return msgspec.structs.replace(completed, status=status, message=why)


def as_interrupted(completed: RunCompleted) -> RunCompleted:
    """The same outcome, if agents were interrupted at work after the root had answered."""
    if completed.status not in ANSWERED:
        return completed
    why = "agents at work were interrupted after the root had answered"
    return msgspec.structs.replace(completed, status="interrupted", message=why)


def _status_of(
    outcome: AgentEnded, end: TurnCompleted | TurnFailed | TurnAborted | None
) -> RunStatus:
    match outcome.state:
        case "completed" | "truncated" | "interrupted" | "budget" | "deadline" | "refused":
            return outcome.state
        case "failed" | "crashed" | "killed":
            of_provider = isinstance(end, TurnFailed) and end.kind in PROVIDER_FAULTS
            return "provider" if of_provider else "failed"
