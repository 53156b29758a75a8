"""The facts that a decision is made from. Gathering them reads only the command's text."""

from collections.abc import Callable, Sequence

from swarm.mailbox.protocol.approvals import ExtraPermissions, LossPreview, SandboxPermissions
from swarm.mailbox.protocol.rules import RuleDecision
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Granular,
    Limits,
    ReadOnly,
    Reviewer,
    SandboxPolicy,
)

from .safe_commands import is_safe_command, is_system_program, might_be_dangerous
from .script_commands import input_commands, named_commands
from .shell_parser import Words, heredoc_command, plain_commands, shell_script


class RuleMatch(Value):
    """What a rule file says about one command."""

    decision: RuleDecision
    matched_prefix: Words
    justification: str | None = None
    unconfined: bool = False  # it also takes out what its words do not say


class PolicyCommand(Value):
    """One command as the policy sees it, judged by its own words."""

    words: Words
    rules: tuple[RuleMatch, ...] = ()
    is_safe: bool = False
    is_dangerous: bool = False


class EscalationRequest(Value):
    """What the model requested in addition to the command itself."""

    permissions: SandboxPermissions = "use_default"
    justification: str | None = None
    extra: ExtraPermissions | None = None  # requested with `with_additional_permissions`
    pre_approved: bool = False  # granted before, for exactly this much


class AgentStanding(Value):
    """What holds for an agent in addition to its limits."""

    held: ExtraPermissions = ExtraPermissions()  # granted before; added to every sandboxed command
    is_locked: bool = False  # its launcher enforces the role: nothing ever leaves the sandbox
    lock_reason: str = ""  # for the model; set where it is locked
    rules_broken: str = ""  # why the rules cannot be read; "" = they can
    may_commit: bool = False  # the user approved in advance recording work in a repository


class CommandFacts(Value):
    argv: Words
    commands: tuple[PolicyCommand, ...]  # never empty
    approval: AskForApproval = "on-request"
    granular: Granular | None = None
    sandbox: SandboxPolicy = ReadOnly()
    reviewer: Reviewer = "person"
    escalation: EscalationRequest = EscalationRequest()
    standing: AgentStanding = AgentStanding()
    loss: LossPreview | None = None  # what it would destroy for good, if anything
    # The repository whose data it would write, where the sandbox could open just that: it only
    # records work there, or destroys what is recorded.
    repository: str = ""
    records_only: bool = False
    is_complex: bool = False  # one command with a heredoc as its input
    shell_is_known: bool = True  # False: the shell itself is a program of unknown origin
    unheld: str = ""  # why a program of it could be exchanged by agents; "" = none could
    beyond: str = ""  # what rules that allow it do not say of it; "" = they say all


class PatchFacts(Value):
    """`outside` are those of `paths` that the policy does not let the agent write."""

    paths: tuple[str, ...]
    outside: tuple[str, ...] = ()
    approval: AskForApproval = "on-request"
    granular: Granular | None = None
    sandbox: SandboxPolicy = ReadOnly()
    reviewer: Reviewer = "person"
    is_locked: bool = False
    lock_reason: str = ""  # for the model; set where it is locked
    sandbox_available: bool = True  # this machine can hold writes to the policy


MatchRules = Callable[[Words], tuple[RuleMatch, ...]]
WhyUnheld = Callable[[str], str]  # of a program as a command names it; "" = no agent could


def no_rules(_: Words) -> tuple[RuleMatch, ...]:
    """For runs without rule files."""
    return ()


def gather_facts(
    argv: Sequence[str],
    limits: Limits,
    escalation: EscalationRequest | None = None,
    *,
    match_rules: MatchRules = no_rules,
    why_unheld: WhyUnheld | None = None,
    standing: AgentStanding | None = None,
) -> CommandFacts:
    """Split the command as the policy does, and judge each part.

    The parts are the plain commands of a shell script, or the one command with a heredoc as its
    input, or the argv as it is. A script that a shell in it reads as input is judged too, and is
    never known safe.

    `why_unheld` is asked for every program that can be read in the command, if it may leave the
    sandbox: by a rule, or because that was requested.
    """
    words = tuple(argv)
    known = is_system_program(words[0]) if words else False
    judged, is_complex = _judge_parts(words, match_rules, known=known)
    may_leave = any(one.rules for one in judged) or _may_leave(limits, escalation)
    unheld = ""
    if why_unheld is not None and may_leave:
        unheld = _find_unheld(words, judged, why_unheld)
    return CommandFacts(
        argv=words,
        unheld=unheld,
        commands=judged,
        approval=limits.approval,
        granular=limits.granular,
        sandbox=limits.sandbox,
        reviewer=limits.reviewer,
        escalation=escalation or EscalationRequest(),
        standing=standing or AgentStanding(),
        is_complex=is_complex,
        shell_is_known=known,
    )


def _judge_parts(
    words: Words, match_rules: MatchRules, *, known: bool
) -> tuple[tuple[PolicyCommand, ...], bool]:
    """The parts of a command, judged, and whether it is one with a heredoc.

    `known`: it starts a program of the system, by its name or path.
    """
    script = shell_script(words)
    plain = None if script is None else plain_commands(script)
    fed = heredoc_command(script) if script is not None and plain is None else None
    commands = plain or ((fed,) if fed else (words,))
    judged = tuple(
        PolicyCommand(
            words=one,
            rules=match_rules(one),
            is_safe=fed is None and known and is_safe_command(one),
            is_dangerous=might_be_dangerous(one),
        )
        for one in commands
    )
    judged += _restricted_commands(words, commands, match_rules)
    fed_words = () if script is None else input_commands(script)
    judged += tuple(
        PolicyCommand(words=one, rules=match_rules(one), is_dangerous=might_be_dangerous(one))
        for one in fed_words
    )
    return judged, fed is not None


def _may_leave(limits: Limits, escalation: EscalationRequest | None) -> bool:
    """Whether a command may leave the sandbox without a rule: now, or when the sandbox stops it."""
    asked = escalation is not None and escalation.permissions == "require_escalated"
    retries = limits.approval in ("untrusted", "on-failure") or limits.granular is not None
    return asked or retries


def _find_unheld(argv: Words, judged: tuple[PolicyCommand, ...], why_unheld: WhyUnheld) -> str:
    """Why the first program that an agent could exchange is one; "" if there is none."""
    named = (*argv[:1], *(one.words[0] for one in judged if one.words))
    deeper = (words[0] for words in named_commands(argv) if words)
    found = (why_unheld(name) for name in dict.fromkeys((*named, *deeper)))
    return next(filter(None, found), "")


def _restricted_commands(
    argv: Words, judged: tuple[Words, ...], match_rules: MatchRules
) -> tuple[PolicyCommand, ...]:
    """Commands that a rule asks about or forbids, anywhere in the script, behind any word.

    Examples: `time git push`, `X=1 git push >log`. A rule that allows applies only to what was read
    completely.
    """
    if match_rules is no_rules:
        return ()
    found: list[PolicyCommand] = []
    for words in named_commands(argv):
        strict = tuple(one for one in match_rules(words) if one.decision != "allow")
        if strict and words not in judged:
            found.append(PolicyCommand(words=words, rules=strict))
    return tuple(found)
