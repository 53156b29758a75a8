"""What the decision is made from. Gathering reads the command's text and nothing else."""

from collections.abc import Callable, Sequence
from typing import Literal

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import AskForApproval, Limits, ReadOnly, SandboxPolicy

from .safe import is_safe_command, is_system_program, might_be_dangerous
from .words import Words, heredoc_command, plain_commands, shell_script

SandboxPermissions = Literal["use_default", "require_escalated", "with_additional_permissions"]
RuleDecision = Literal["allow", "prompt", "forbidden"]


class RuleMatch(Value):
    """A rule file's word on one command."""

    decision: RuleDecision
    matched_prefix: Words
    justification: str | None = None


class PolicyCommand(Value):
    """One command as the policy sees it, judged by its own words."""

    words: Words
    rules: tuple[RuleMatch, ...] = ()
    is_safe: bool = False
    is_dangerous: bool = False


class Wish(Value):
    """What the model asked for beside the command itself."""

    permissions: SandboxPermissions = "use_default"
    justification: str | None = None
    pre_approved: bool = False  # granted before, for exactly this much


class Facts(Value):
    argv: Words
    commands: tuple[PolicyCommand, ...]  # never empty
    approval: AskForApproval = "on-request"
    sandbox: SandboxPolicy = ReadOnly()
    wish: Wish = Wish()
    is_complex: bool = False  # one command that is fed a heredoc
    shell_is_known: bool = True  # False: the shell itself is a program of unknown origin


class PatchFacts(Value):
    """`outside` are those of `paths` that the policy does not let the agent write."""

    paths: tuple[str, ...]
    outside: tuple[str, ...] = ()
    approval: AskForApproval = "on-request"
    sandbox: SandboxPolicy = ReadOnly()
    sandbox_available: bool = True  # writes can be held to the policy on this machine


MatchRules = Callable[[Words], tuple[RuleMatch, ...]]


def no_rules(_: Words) -> tuple[RuleMatch, ...]:
    """For runs without rule files."""
    return ()


def gather_facts(
    argv: Sequence[str],
    limits: Limits,
    wish: Wish | None = None,
    *,
    match_rules: MatchRules = no_rules,
) -> Facts:
    """Split the command as the policy does: the plain commands of a shell script, else the one
    command that is fed a heredoc, else the argv as it is.
    """
    words = tuple(argv)
    script = shell_script(words)
    known = is_system_program(words[0]) if words else False
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
    return Facts(
        argv=words,
        commands=judged,
        approval=limits.approval,
        sandbox=limits.sandbox,
        wish=wish or Wish(),
        is_complex=fed is not None,
        shell_is_known=known,
    )
