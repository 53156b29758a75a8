"""Decides from facts: Run, Ask or Refuse. Pure; what cannot be decided is refused.

The model reads the refusal texts. Order: first the check of an escalation request; then each
command's rules, or the heuristic if it has none; the strictest result wins; then the approval
policy applies.

Source: Codex's decision table in its later form. Stricter here: a command leaves the
sandbox only by a rule for every one of its plain commands or by an approval, never because it is
known safe; and unreadable rules do not count as no rules.
"""

import msgspec

from swarm.mailbox.base.path_rules import denies_reading, is_writable
from swarm.mailbox.protocol.approvals import Cause, ExtraPermissions, LossPreview
from swarm.mailbox.protocol.requests import Decided
from swarm.mailbox.protocol.rules import RuleDecision
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
)

from .command_facts import CommandFacts, PatchFacts, PolicyCommand, RuleMatch
from .permission_sets import is_empty, union
from .shell_quoting import join_words, quote_command

_SEVERITY: dict[RuleDecision, int] = {"allow": 0, "prompt": 1, "forbidden": 2}
_POLICY_NAMES: dict[AskForApproval, str] = {
    "untrusted": "UnlessTrusted",
    "on-failure": "OnFailure",
    "on-request": "OnRequest",
    "never": "Never",
}
NEVER_ASKS = "approval required by policy, but AskForApproval is set to Never"
NO_RULE_QUESTIONS = "approval required by policy rule, but AskForApproval::Granular.rules is false"
NO_SANDBOX_QUESTIONS = (
    "approval required by policy, but AskForApproval::Granular.sandbox_approval is false"
)
ROLE_LOCKED = (
    "this agent's role is locked in its sandbox for its whole life: nothing of it can run outside, "
    "or with more rights. Leave `sandbox_permissions` out, and say in your answer what would need "
    "more than the sandbox gives"
)
MUST_STAY_SANDBOXED = (
    "this run's permission profile denies reading some paths, so nothing of it runs outside of the "
    "sandbox. Ask with `with_additional_permissions` for the paths or the network that are needed, "
    "or say in your answer what would need more"
)
KEPT_INSIDE = (
    "A rule allows this command outside of the sandbox, but it ran inside, since a program of it "
    "could be exchanged by agents: "
)
NOT_ALL_SAID = (
    "A rule allows this command outside of the sandbox, but it ran inside, since the rule does not "
    "say all that it would do: "
)
OUTSIDE_PROJECT = "writing outside of the project; rejected by user approval settings"
READ_ONLY = "writing is blocked by read-only sandbox; rejected by user approval settings"
FORCED_REMOVAL = "commands that remove by force are not permitted. Use a safer approach"


_ASKS_AT_NEED: tuple[AskForApproval, ...] = ("on-request", "on-failure")


class Run(Value):
    """How to run: `extra` widens the sandbox, if there is one. `answer` is the approval, if asked.

    `commits_in` opens this repository's data, but nothing that git would run.
    """

    sandboxed: bool = True
    commits_in: str = ""
    extra: ExtraPermissions | None = None
    answer: Decided | None = None
    notice: str = ""  # for the model: why a rule did not take the command out of the sandbox


class Ask(Value):
    """`subject` is what would be done; `then` is how it runs after an approval."""

    subject: str
    cause: Cause
    reason: str | None = None
    then: Run = Run()
    retry_reason: str = ""  # what went wrong before
    preview: LossPreview | None = None


class Refuse(Value):
    reason: str  # complete, ready for the model


PolicyDecision = Run | Ask | Refuse


class _Judgement(Value):
    decision: RuleDecision
    rule: RuleMatch | None = None  # None: decided by the heuristic
    cause: Cause = "rule"


def decide_command(facts: CommandFacts) -> PolicyDecision:
    """Decide whether a command runs, needs an approval, or is refused."""
    if not facts.argv:
        return Refuse(reason="execution error: the command is empty")
    refusal = _check_escalation(facts)
    if refusal is not None:
        return refusal
    worst = max(
        (_judge(command, facts) for command in facts.commands),
        # Of several that ask, show the user the one that matters most.
        key=lambda judged: (_SEVERITY[judged.decision], judged.cause == "dangerous"),
    )
    match worst.decision:
        case "forbidden":
            return Refuse(reason=_forbidden_text(facts, worst.rule))
        case "prompt":
            asking = _with_effects(worst, facts)
            return _commit(facts) if _is_commit_preapproved(asking, facts) else _ask(facts, asking)
        case "allow":
            return _ask_about_effects(facts) or _run(facts)


def _with_effects(judged: _Judgement, facts: CommandFacts) -> _Judgement:
    """If an approval is needed anyway, its cause becomes the command's effect, which says more."""
    if judged.cause in ("untrusted", "escalation") and facts.loss is not None:
        return _Judgement(decision="prompt", cause="destructive")
    if judged.cause == "untrusted" and facts.records_only and facts.repository:
        return _Judgement(decision="prompt", cause="commit")
    return judged


def _ask_about_effects(facts: CommandFacts) -> PolicyDecision | None:
    """Ask about a permitted command that destroys work or writes what git records.

    A rule for every plain command of it counts as the user's decision on that.
    """
    if _is_by_rule(facts) and not _is_unheld(facts):
        return None
    unbound = isinstance(facts.sandbox, DangerFullAccess)
    if facts.loss is not None:
        if facts.approval == "never":  # never asks, so only the sandbox limits it
            return Refuse(reason=_loss_text(facts)) if unbound and not facts.loss.kept else None
        return _ask(facts, _Judgement(decision="prompt", cause="destructive"))
    may_open = not unbound and not facts.standing.is_locked
    if not may_open or not facts.records_only or not facts.repository:
        return None
    if _reads_by_order(facts) and not facts.standing.may_commit:
        return None  # the sandbox refuses it
    if facts.standing.may_commit:
        return _commit(facts)
    if facts.approval == "never":
        return None
    return _ask(facts, _Judgement(decision="prompt", cause="commit"))


def _is_commit_preapproved(asking: _Judgement, facts: CommandFacts) -> bool:
    """Whether the user has approved in advance all that would be asked: recording work."""
    bound = not isinstance(facts.sandbox, DangerFullAccess) and not facts.standing.is_locked
    return asking.cause == "commit" and facts.standing.may_commit and bound


def _commit(facts: CommandFacts) -> Run:
    """Run a command that records work, which was allowed when the run began."""
    return msgspec.structs.replace(_in_sandbox(facts), commits_in=facts.repository)


def decide_patch(facts: PatchFacts) -> PolicyDecision:
    """The same for a verified patch; a refusal already says `patch rejected`."""
    if not facts.paths:
        return Refuse(reason="patch rejected: empty patch")
    unbound = isinstance(facts.sandbox, DangerFullAccess)
    then = Run(sandboxed=not unbound and not facts.outside)
    if facts.is_locked and not unbound and (facts.outside or not facts.sandbox_available):
        return Refuse(reason=f"patch rejected: {facts.lock_reason or ROLE_LOCKED}")
    asking = Ask(
        subject="apply_patch to " + ", ".join(facts.outside or facts.paths),
        cause="patch",
        then=then,
    )
    if facts.approval == "untrusted" and not (facts.outside and _reads_by_order(facts)):
        return asking
    if unbound:
        return Run(sandboxed=False)
    if facts.sandbox_available and (not facts.outside or facts.approval == "on-failure"):
        return Run()
    muted = facts.granular is not None and not facts.granular.sandbox_approval
    if facts.approval == "never" or muted or _reads_by_order(facts):
        return _patch_refusal(facts)
    return asking


def _reads_by_order(facts: PatchFacts | CommandFacts) -> bool:
    """A person wants nothing written: the reviewer that stands in for them is not asked about it.

    Only the person could want otherwise, and is asked.
    """
    return facts.reviewer == "guardian" and not is_writable(facts.sandbox)


def asks_without_rules(command: PolicyCommand, facts: CommandFacts) -> bool:
    """Whether the heuristic alone would ask about this one command."""
    return _judge_unmatched(command, facts).decision == "prompt"


def _check_escalation(facts: CommandFacts) -> Refuse | None:
    """Refuse an escalation request where no approval could be requested."""
    wants_more = facts.escalation.permissions != "use_default"
    if wants_more and facts.standing.is_locked:
        return Refuse(reason=facts.standing.lock_reason or ROLE_LOCKED)
    if facts.escalation.permissions == "require_escalated" and must_stay_sandboxed(facts):
        return Refuse(reason=MUST_STAY_SANDBOXED)
    if (
        not wants_more
        or facts.escalation.pre_approved
        or facts.approval in ("on-request", "untrusted")
    ):
        return None
    policy = _POLICY_NAMES[facts.approval]
    return Refuse(
        reason=f"approval policy is {policy}; reject command — you cannot ask for escalated "
        f"permissions if the approval policy is {policy}"
    )


def _judge(command: PolicyCommand, facts: CommandFacts) -> _Judgement:
    if not command.rules:
        return _judge_unmatched(command, facts)
    decision = max(command.rules, key=lambda rule: _SEVERITY[rule.decision]).decision
    if decision == "allow" and facts.standing.rules_broken:
        return _judge_unmatched(command, facts)  # the unreadable rules may forbid it
    if decision == "allow" and _is_unheld(facts) and _escalation_cause(facts) == "escalation":
        return _judge_unmatched(command, facts)  # the rule was not written for that
    speaking = [rule for rule in command.rules if rule.decision == decision]
    return _Judgement(
        decision=decision, rule=max(speaking, key=lambda rule: len(rule.matched_prefix))
    )


def _judge_unmatched(command: PolicyCommand, facts: CommandFacts) -> _Judgement:
    """The heuristic: the first row that applies."""
    untrusted = facts.approval == "untrusted"
    # What removes by force removes nothing where the sandbox lets it write nothing.
    is_held = not is_writable(facts.sandbox) and facts.escalation.permissions == "use_default"
    is_held = is_held and not facts.standing.held.write and facts.approval in _ASKS_AT_NEED
    if command.is_dangerous and not is_held:
        decision: RuleDecision = "forbidden" if facts.approval == "never" else "prompt"
        return _Judgement(decision=decision, cause="dangerous")
    if facts.standing.rules_broken and not command.is_safe:
        return _Judgement(decision="prompt", cause="rule")
    if untrusted:
        return _Judgement(decision="prompt", cause=_escalation_cause(facts) or "untrusted")
    unbound = isinstance(facts.sandbox, DangerFullAccess)
    cause = _escalation_cause(facts)
    if command.is_safe or unbound or cause is None or facts.approval != "on-request":
        return _Judgement(decision="allow")
    return _Judgement(decision="prompt", cause=cause)


def _escalation_cause(facts: CommandFacts) -> Cause | None:
    if facts.escalation.pre_approved:
        return None
    match facts.escalation.permissions:
        case "require_escalated":
            return "escalation"
        case "with_additional_permissions":
            return "permissions"
        case "use_default":
            return None


def _ask(facts: CommandFacts, judged: _Judgement) -> PolicyDecision:
    fault = _fault_text(facts) if judged.cause == "rule" and judged.rule is None else ""
    if facts.approval == "never":
        return Refuse(reason=f"{NEVER_ASKS}: {fault}" if fault else NEVER_ASKS)
    granular = facts.granular
    if granular is not None and judged.cause == "rule" and not granular.rules:
        return Refuse(reason=NO_RULE_QUESTIONS)
    if granular is not None and judged.cause != "rule" and not granular.sandbox_approval:
        return Refuse(reason=NO_SANDBOX_QUESTIONS)
    reason = fault or facts.escalation.justification or _stated(facts, judged.cause)
    if judged.rule is not None:
        stated = judged.rule.justification
        reason = f"{quote_command(facts.argv)} requires approval"
        reason += f": {stated}" if stated else " by policy"
    return Ask(
        subject=quote_command(facts.argv),
        cause=judged.cause,
        reason=reason,
        then=_approved_run(facts),
        preview=facts.loss,
    )


def _stated(facts: CommandFacts, cause: Cause) -> str | None:
    if cause == "commit":
        return f"it records work in the repository {facts.repository}"
    return facts.loss.summary if facts.loss is not None and cause == "destructive" else None


def _loss_text(facts: CommandFacts) -> str:
    lost = facts.loss.summary if facts.loss is not None else ""
    return (
        f"{quote_command(facts.argv)} rejected: {lost} No copy of it can be kept, there is no "
        "sandbox, and AskForApproval is set to Never. Use a safer approach"
    )


def _run(facts: CommandFacts) -> Run:
    """Run without the sandbox only if there is none, or a rule allows every plain command."""
    bypass = _is_by_rule(facts) and not must_stay_sandboxed(facts)
    if bypass and _is_unheld(facts):
        why = KEPT_INSIDE + facts.unheld if facts.unheld else NOT_ALL_SAID + facts.beyond
        return msgspec.structs.replace(_in_sandbox(facts), notice=why)
    return _in_sandbox(facts) if not bypass else Run(sandboxed=False)


def _is_unheld(facts: CommandFacts) -> bool:
    """Whether agents could change what it runs, or its rules do not say all that it would do."""
    is_open = bool(facts.unheld or facts.beyond)
    return is_open and not isinstance(facts.sandbox, DangerFullAccess)


def must_stay_sandboxed(facts: CommandFacts) -> bool:
    """Whether no rule and no approval lets it leave the sandbox: locked, or some reads denied."""
    sandbox = facts.sandbox
    denies = isinstance(sandbox, ProfilePolicy) and denies_reading(sandbox)
    return denies or facts.standing.is_locked


def _is_by_rule(facts: CommandFacts) -> bool:
    """Whether a rule matches every plain command of it."""
    by_rule = all(command.rules for command in facts.commands) and not facts.standing.rules_broken
    return by_rule and facts.shell_is_known and not facts.is_complex


def _approved_run(facts: CommandFacts) -> Run:
    if facts.escalation.permissions == "require_escalated":
        return Run(sandboxed=False)
    run = _in_sandbox(facts, facts.escalation.extra)
    if not run.sandboxed or facts.standing.is_locked:
        return run
    return msgspec.structs.replace(run, commits_in=facts.repository)


def _in_sandbox(facts: CommandFacts, asked: ExtraPermissions | None = None) -> Run:
    """Run in the sandbox, if there is one, with the rights granted before and those in `asked`."""
    if isinstance(facts.sandbox, DangerFullAccess):
        return Run(sandboxed=False)
    extra = union(facts.standing.held, asked)
    return Run(extra=None if is_empty(extra) or facts.standing.is_locked else extra)


def _fault_text(facts: CommandFacts) -> str:
    return (
        f"the rule files of this run cannot be read ({_cut(facts.standing.rules_broken)}); until "
        "that is mended, whatever a rule might speak about needs approval"
    )


def _forbidden_text(facts: CommandFacts, rule: RuleMatch | None) -> str:
    command = quote_command(facts.argv)
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
