"""Facts in, verdict out: Run, Ask or Refuse. Pure; whatever cannot be decided is refused.

The texts of refusals are read by the model. Order: the guard on wishes, then for each command its
rules or, without any, the heuristic; the strictest wins; then what the approval policy makes of it.

Source: section 8 of the behaviour sheet in its later form. Stricter here: a command leaves the
sandbox only by a rule for every one of its plain commands or by an approval, never because it is
known safe.
"""

from typing import Literal

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import AskForApproval, DangerFullAccess, ReadOnly

from .facts import Facts, PatchFacts, PolicyCommand, RuleDecision, RuleMatch
from .quoting import join_words

Cause = Literal["untrusted", "dangerous", "escalation", "permissions", "rule", "patch"]
_SEVERITY: dict[RuleDecision, int] = {"allow": 0, "prompt": 1, "forbidden": 2}
_POLICY_NAMES: dict[AskForApproval, str] = {
    "untrusted": "UnlessTrusted",
    "on-failure": "OnFailure",
    "on-request": "OnRequest",
    "never": "Never",
}
NEVER_ASKS = "approval required by policy, but AskForApproval is set to Never"
OUTSIDE_PROJECT = "writing outside of the project; rejected by user approval settings"
READ_ONLY = "writing is blocked by read-only sandbox; rejected by user approval settings"
FORCED_REMOVAL = "rm -f style commands are not permitted. Use a safer approach"


class Run(Value):
    sandboxed: bool = True


class Ask(Value):
    """`subject` is what would be done; `then` is how it runs when the answer is yes."""

    subject: str
    cause: Cause
    reason: str | None = None
    then: Run = Run()


class Refuse(Value):
    reason: str  # whole, ready for the model


Verdict = Run | Ask | Refuse


def decide(facts: Facts) -> Verdict:
    """Say whether a command runs, is asked about, or is refused."""
    if not facts.argv:
        return Refuse(reason="execution error: the command is empty")
    refusal = _guard_wishes(facts)
    if refusal is not None:
        return refusal
    worst = max(
        (_judge(command, facts) for command in facts.commands),
        key=lambda judged: _SEVERITY[judged.decision],
    )
    match worst.decision:
        case "forbidden":
            return Refuse(reason=_forbidden_text(facts, worst.rule))
        case "prompt":
            return _ask(facts, worst)
        case "allow":
            return _run(facts)


def decide_patch(facts: PatchFacts) -> Verdict:
    """The same for a verified patch; a refusal already says `patch rejected`."""
    if not facts.paths:
        return Refuse(reason="patch rejected: empty patch")
    unbound = isinstance(facts.sandbox, DangerFullAccess)
    then = Run(sandboxed=not unbound and not facts.outside)
    subject = "apply_patch to " + ", ".join(facts.outside or facts.paths)
    asking = Ask(subject=subject, cause="patch", then=then)
    if facts.approval == "untrusted":
        return asking
    if unbound:
        return Run(sandboxed=False)
    if not facts.outside or facts.approval == "on-failure":
        if facts.sandbox_available:
            return Run()
        return _patch_refusal(facts) if facts.approval == "never" else asking
    return _patch_refusal(facts) if facts.approval == "never" else asking


def refusal_without_reviewer(ask: Ask) -> Refuse:
    """What an Ask becomes in a run where nobody can answer it."""
    why = {
        "untrusted": "every command needs approval under this run's policy",
        "dangerous": "it removes files by force",
        "escalation": "it would run outside of the sandbox",
        "permissions": "it asks for permissions beyond the sandbox",
        "rule": "a rule wants it approved",
        "patch": "it would write where this agent may not",
    }[ask.cause]
    stated = f" ({ask.reason})" if ask.reason else ""
    return Refuse(
        reason=f"Not run: {_cut(ask.subject)} needs approval, because {why}{stated}. Nobody can "
        "be asked in this run. Do not try the same by other means: find a way that needs no "
        "approval, or say in your answer what is left undone and that it needs approval."
    )


class _Judged(Value):
    decision: RuleDecision
    rule: RuleMatch | None = None  # None: the heuristic said it
    cause: Cause = "rule"


def _guard_wishes(facts: Facts) -> Refuse | None:
    """A wish for more is refused where no one would be asked about it."""
    wants_more = facts.wish.permissions != "use_default" and not facts.wish.pre_approved
    if not wants_more or facts.approval in ("on-request", "untrusted"):
        return None
    policy = _POLICY_NAMES[facts.approval]
    return Refuse(
        reason=f"approval policy is {policy}; reject command — you cannot ask for escalated "
        f"permissions if the approval policy is {policy}"
    )


def _judge(command: PolicyCommand, facts: Facts) -> _Judged:
    if not command.rules:
        return _judge_unmatched(command, facts)
    decision = max(command.rules, key=lambda rule: _SEVERITY[rule.decision]).decision
    speaking = [rule for rule in command.rules if rule.decision == decision]
    return _Judged(decision=decision, rule=max(speaking, key=lambda rule: len(rule.matched_prefix)))


def _judge_unmatched(command: PolicyCommand, facts: Facts) -> _Judged:
    """The heuristic: the first row that applies."""
    untrusted = facts.approval == "untrusted"
    if command.is_dangerous:
        decision: RuleDecision = "forbidden" if facts.approval == "never" else "prompt"
        return _Judged(decision=decision, cause="dangerous")
    if untrusted:
        return _Judged(decision="prompt", cause=_cause_of_wish(facts) or "untrusted")
    unbound = isinstance(facts.sandbox, DangerFullAccess)
    wish = _cause_of_wish(facts)
    if command.is_safe or unbound or wish is None or facts.approval != "on-request":
        return _Judged(decision="allow")
    return _Judged(decision="prompt", cause=wish)


def _cause_of_wish(facts: Facts) -> Cause | None:
    if facts.wish.pre_approved:
        return None
    match facts.wish.permissions:
        case "require_escalated":
            return "escalation"
        case "with_additional_permissions":
            return "permissions"
        case "use_default":
            return None


def _ask(facts: Facts, judged: _Judged) -> Verdict:
    if facts.approval == "never":
        return Refuse(reason=NEVER_ASKS)
    reason = facts.wish.justification
    if judged.rule is not None:
        stated = judged.rule.justification
        reason = f"`{join_words(facts.argv)}` requires approval"
        reason += f": {stated}" if stated else " by policy"
    return Ask(
        subject=f"`{join_words(facts.argv)}`",
        cause=judged.cause,
        reason=reason,
        then=_approved_run(facts),
    )


def _run(facts: Facts) -> Run:
    """Without the sandbox only where there is none, or a rule allows every plain command."""
    by_rule = all(command.rules for command in facts.commands)
    bypass = by_rule and facts.shell_is_known and not facts.is_complex
    return Run(sandboxed=not bypass and not isinstance(facts.sandbox, DangerFullAccess))


def _approved_run(facts: Facts) -> Run:
    escalated = facts.wish.permissions == "require_escalated"
    return Run(sandboxed=not escalated and not isinstance(facts.sandbox, DangerFullAccess))


def _forbidden_text(facts: Facts, rule: RuleMatch | None) -> str:
    command = f"`{join_words(facts.argv)}`"
    if rule is None:
        return f"{command} rejected: {FORCED_REMOVAL}"
    if rule.justification:
        return f"{command} rejected: {rule.justification}"
    prefix = join_words(rule.matched_prefix)
    return f"{command} rejected: policy forbids commands starting with `{prefix}`"


def _patch_refusal(facts: PatchFacts) -> Refuse:
    why = READ_ONLY if isinstance(facts.sandbox, ReadOnly) else OUTSIDE_PROJECT
    return Refuse(reason=f"patch rejected: {why}")


def _cut(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}…"
