"""Whether an approval can be requested in a run, and what an unanswerable request becomes. Pure.

The supervisor decides who answers; this module decides only what an agent's model is told and
offered. The model is never offered something that would always be refused.
"""

from swarm.mailbox.protocol.approvals import Cause
from swarm.mailbox.protocol.limits import DangerFullAccess, Limits

from .command_decision import Ask, Refuse, Run, must_stay_sandboxed
from .command_facts import CommandFacts
from .shell_quoting import join_words

RETRY_REASON = "command failed; retry without sandbox?"
_WHY: dict[Cause, str] = {
    "untrusted": "every command needs approval under this run's policy",
    "dangerous": "it removes files by force",
    "destructive": "it throws away work that no later command brings back",
    "escalation": "it would run outside of the sandbox",
    "permissions": "it asks for permissions beyond the sandbox",
    "retry": "the sandbox stopped it, and it would run again outside",
    "rule": "a rule wants it approved",
    "patch": "it would write where this agent may not",
    "commit": "it would write the repository's own data",
    "network": "it would reach a host that is not allowed",
    "question": "only a person can answer it",
}
# Approving one of these approves the command; approving the others grants one limited right.
_APPROVES_RETRY: frozenset[Cause] = frozenset({"untrusted", "dangerous", "escalation", "rule"})


def may_ask(limits: Limits) -> bool:
    """True if an approval request for a command can be answered in this run at all."""
    match limits.reviewer:
        case "nobody":
            return False
        case "guardian":
            return limits.approval == "on-request"
        case "person":
            return limits.approval != "never"


def may_escalate(limits: Limits, *, is_locked: bool) -> bool:
    """True if models may request to run a command outside the sandbox, or with more rights."""
    muted = limits.granular is not None and not limits.granular.sandbox_approval
    policy = limits.approval in ("on-request", "untrusted")
    bound = not isinstance(limits.sandbox, DangerFullAccess)
    return may_ask(limits) and policy and bound and not muted and not is_locked


def may_request_permissions(limits: Limits, *, is_locked: bool) -> bool:
    """True if models may request rights once, for all later commands."""
    if limits.granular is not None and not limits.granular.request_permissions:
        return False
    bound = not isinstance(limits.sandbox, DangerFullAccess)
    return may_ask(limits) and bound and not is_locked


def may_question_person(limits: Limits, *, is_root: bool) -> bool:
    """True if the model may ask the user its own questions."""
    return is_root and limits.reviewer == "person" and limits.approval != "never"


def decide_retry(facts: CommandFacts, first: Run | Ask | Refuse, ran: Run) -> Run | Ask | None:
    """What follows when the sandbox seems to have stopped a command; None: nothing.

    Args:
        facts: The facts of the command.
        first: The first decision about it.
        ran: How it was then run, with the answer if it was asked.
    """
    granular = facts.granular
    tries = facts.approval in ("untrusted", "on-failure") or (
        facts.approval == "on-request" and granular is not None and granular.sandbox_approval
    )
    if not tries or not ran.sandboxed or must_stay_sandboxed(facts):
        return None
    if isinstance(first, Ask) and ran.answer is not None and first.cause in _APPROVES_RETRY:
        return Run(sandboxed=False, answer=ran.answer)
    return Ask(
        subject=f"`{join_words(facts.argv)}`",
        cause="retry",
        reason=RETRY_REASON,
        then=Run(sandboxed=False),
    )


def refusal_without_reviewer(ask: Ask) -> Refuse:
    """What an Ask becomes in a run where no reviewer can answer it."""
    stated = f" ({ask.reason})" if ask.reason else ""
    return Refuse(
        reason=f"Not run: {_cut(ask.subject)} needs approval, because {_WHY[ask.cause]}{stated}. "
        "Nobody can be asked in this run. Do not try the same by other means: find a way that "
        "needs no approval, or say in your answer what is left undone and that it needs approval."
    )


def _cut(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}…"
