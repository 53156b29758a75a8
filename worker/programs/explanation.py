"""Explains what would happen to a command here, and why: facts, rules, verdict and sandbox.

This module decides nothing. It calls the agent's own functions and records their results, so an
explanation cannot differ from what a run does.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.held_programs import find_writable_places
from swarm.mailbox.base.path_rules import is_within
from swarm.mailbox.protocol.approvals import Cause, LossPreview
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits, ProfilePolicy, ReadOnly
from swarm.roles.rules.rule_loader import LoadedRules

from ..parts.patch.patch_interception import intercept_patch
from ..policy.approval_offers import may_ask
from ..policy.command_decision import Ask, PolicyDecision, Refuse, Run, decide_command
from ..policy.command_facts import AgentStanding, CommandFacts, PolicyCommand, gather_facts
from ..policy.command_summary import encode_parsed_commands, parse_command
from ..policy.commit_commands import find_recording_folder
from ..policy.destructive_commands import DestructiveCommand, find_destructive_commands
from ..policy.program_judge import ProgramJudge
from ..policy.rule_coverage import Surroundings, why_beyond
from ..policy.rule_matching import find_rules, rule_matcher
from ..policy.shell_parser import Words, join_words, plain_commands, shell_script
from ..sandbox.commit_grant import can_open_repository, find_repository
from ..sandbox.sandbox_plan import (
    SandboxPlan,
    SandboxUnavailable,
    Stack,
    allowed_sockets,
    plan_sandbox,
)

Reading = Literal["words", "script", "complex", "unreadable", "patch"]
READINGS: dict[Reading, str] = {
    "words": "a program and its arguments",
    "script": "a shell script of literal words; each command is judged by itself",
    "complex": "one command that is fed a heredoc: rules see it, but it is never known safe",
    "unreadable": "more shell than literal words (expansion, redirect, assignment …): it is "
    "judged as a whole, and only rules for the shell itself can match",
    "patch": "a patch: an agent checks and applies it by itself, by where it writes; what follows "
    "is for the words as a shell would run them",
}

_CAUSES: dict[Cause, str] = {
    "untrusted": "the approval policy `untrusted` asks about every command",
    "dangerous": "it removes by force",
    "destructive": "it throws work away",
    "escalation": "it would run outside of the sandbox",
    "permissions": "it wants more than the sandbox allows",
    "retry": "the sandbox stopped it before",
    "rule": "a rule asks about it",
    "patch": "it would write outside of what the sandbox allows",
    "commit": "it writes the repository's own data",
    "network": "it would reach a host that is not allowed",
    "question": "only a person can answer it",
    "hook": "a hook wants it to be asked about",
    "mcp_tool": "it is a tool of an MCP server that may change something",
}


class RuleExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that matched; `file` is "" where it is not known."""

    decision: str
    matched_prefix: Words
    file: str
    justification: str | None
    resolved_program: str | None


class CommandExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """One command as the policy sees it."""

    words: Words
    safe: bool
    dangerous: bool
    why: str
    rules: tuple[RuleExplanation, ...]
    program: str = ""  # what its first word stands for outside of the sandbox; "": nothing
    unheld: str = ""  # why an agent could exchange that, so that it stays in the sandbox


class SandboxExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The sandbox in which it would run. `problem` says why it could not."""

    policy: str
    stack: Stack
    writable: tuple[str, ...]
    read_only: tuple[str, ...]  # inside what is writable
    private_tmp: bool
    network: bool
    problem: str
    profile: str = ""  # the permission profile; then:
    readable: tuple[str, ...] = ("/",)
    denied: tuple[str, ...] = ()  # what exists of it now
    sockets: tuple[str, ...] = ()  # of other programs: opened by a rule and existing now
    sockets_closed: tuple[str, ...] = ()  # a rule names them, but they stay out of reach


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Complete: no field is left out of the JSON."""

    command: str
    argv: Words
    cwd: str
    reading: Reading
    meanings: msgspec.Raw
    commands: tuple[CommandExplanation, ...]
    throws_away: tuple[str, ...]  # the parts that destroy work, anywhere in the script
    approval: str
    reviewer: str
    verdict: Literal["run", "ask", "refuse"]
    sandboxed: bool | None  # None: it does not run
    cause: str | None  # of an ask
    reason: str  # in words, always
    text: str | None  # what the model or the user is told
    sandbox: SandboxExplanation
    rules_broken: str
    warnings: tuple[str, ...]


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the run except the command."""

    limits: Limits
    cwd: str
    loaded: LoadedRules
    hidden_paths: tuple[str, ...] = ()
    stack: Stack = "none"
    shell: str = "/bin/bash"
    allow_commit: bool = False


def as_argv(words: Sequence[str], shell: str) -> Words:
    """The words as given, or a script as when a model calls `exec_command`.

    A single word that is more than a bare word is a script.
    """
    only = words[0] if len(words) == 1 else ""
    is_bare = bool(only) and plain_commands(only) == ((only,),)
    return (shell, "-c", only) if len(words) == 1 and not is_bare else tuple(words)


def explain_command(words: Sequence[str], situation: Situation) -> Explanation:
    """Call every function that an agent would call. Never raises because of the words."""
    limits, loaded = situation.limits, situation.loaded
    argv = as_argv(words, situation.shell)
    places = find_writable_places(limits.sandbox, situation.cwd)
    judge = ProgramJudge(os.environ, situation.cwd, places)
    facts = gather_facts(
        argv,
        limits,
        match_rules=rule_matcher(loaded.rules),
        why_unheld=judge.why,
        standing=AgentStanding(rules_broken=loaded.rules.broken, may_commit=situation.allow_commit),
    )
    here = Surroundings(situation.cwd, places, os.environ.get("HOME", ""))
    facts = msgspec.structs.replace(facts, beyond=why_beyond(facts.commands, here))
    destroyed = find_destructive_commands(argv)
    verdict = decide_command(_with_effects(facts, destroyed, situation))
    runs = _run_of(verdict)
    return Explanation(
        command=join_words(argv),
        argv=argv,
        cwd=situation.cwd,
        reading=_reading(facts, situation.cwd),
        meanings=msgspec.Raw(encode_parsed_commands(parse_command(argv))),
        commands=tuple(_explain_part(one, facts, loaded, judge) for one in facts.commands),
        throws_away=tuple(one.shown for one in destroyed),
        approval=limits.approval,
        reviewer=limits.reviewer,
        verdict=_name(verdict),
        sandboxed=None if runs is None else runs.sandboxed,
        cause=verdict.cause if isinstance(verdict, Ask) else None,
        reason=_reason(verdict, facts, limits),
        text=None if isinstance(verdict, Run) else verdict.reason,
        sandbox=_sandbox(situation),
        rules_broken=loaded.rules.broken,
        warnings=loaded.warnings,
    )


def _with_effects(
    facts: CommandFacts, destroyed: tuple[DestructiveCommand, ...], situation: Situation
) -> CommandFacts:
    """Assume that there is something to lose; an agent checks first, and asks only if there is."""
    if isinstance(facts.sandbox, ReadOnly):
        return facts
    opens = can_open_repository(situation.stack) and not isinstance(facts.sandbox, DangerFullAccess)
    if destroyed:
        shown = "; ".join(one.shown for one in destroyed)
        kept = all(one.losses_are_files and not one.unknown for one in destroyed)
        loss = LossPreview(summary=f"if anything is there, {shown} throws it away", kept=kept)
        return msgspec.structs.replace(facts, loss=loss)
    commands = [one.words for one in facts.commands]
    records = find_recording_folder(
        facts.argv, commands, situation.cwd, is_complex=facts.is_complex
    )
    repository = find_repository(records) if opens and records is not None else None
    if repository is None or not facts.shell_is_known:
        return facts
    return msgspec.structs.replace(facts, repository=repository, records_only=True)


def _run_of(verdict: PolicyDecision) -> Run | None:
    match verdict:
        case Run():
            return verdict
        case Ask():
            return verdict.then
        case Refuse():
            return None


def _name(verdict: PolicyDecision) -> Literal["run", "ask", "refuse"]:
    match verdict:
        case Run():
            return "run"
        case Ask():
            return "ask"
        case Refuse():
            return "refuse"


def _reading(facts: CommandFacts, cwd: str) -> Reading:
    if intercept_patch(facts.argv, Path(cwd)) is not None:
        return "patch"
    script = shell_script(facts.argv)
    if script is None:
        return "words"
    if facts.is_complex:
        return "complex"
    return "script" if plain_commands(script) is not None else "unreadable"


def _explain_part(
    command: PolicyCommand, facts: CommandFacts, loaded: LoadedRules, judge: ProgramJudge
) -> CommandExplanation:
    rules = tuple(
        RuleExplanation(
            decision=found.rule.decision,
            matched_prefix=found.matched_prefix,
            file=loaded.files[found.at] if found.at < len(loaded.files) else "",
            justification=found.rule.justification,
            resolved_program=found.resolved_program,
        )
        for found in find_rules(loaded.rules, command.words)
    )
    found = judge.find(command.words[0] if command.words else "")
    return CommandExplanation(
        words=command.words,
        safe=command.is_safe,
        dangerous=command.is_dangerous,
        why=_why(command, facts),
        rules=rules,
        program=found.path,
        unheld=judge.why_of(found),
    )


def _why(command: PolicyCommand, facts: CommandFacts) -> str:
    if command.is_dangerous:
        return "it removes by force"
    if command.is_safe:
        return "it is known to only read"
    if not facts.shell_is_known:
        return "the program that would read it lies outside of the system's folders"
    if facts.is_complex:
        return "what it is fed is not judged, so it is not known to be safe"
    return "it is not on the list of commands that are known to only read"


def _reason(verdict: PolicyDecision, facts: CommandFacts, limits: Limits) -> str:
    match verdict:
        case Refuse():
            return verdict.reason
        case Ask():
            lonely = "" if may_ask(limits) else "; nobody can be asked, so it would be refused"
            return f"{_cause_in_words(verdict, facts)}{lonely}"
        case Run() if isinstance(facts.sandbox, DangerFullAccess):
            return "nothing forbids it, and this run has no sandbox"
        case Run() if not verdict.sandboxed:
            return "a rule allows each of its commands, so it runs outside of the sandbox"
        case Run() if verdict.notice:
            if facts.unheld:
                return f"a rule allows it, but {facts.unheld}, so it stays inside"
            return (
                f"a rule allows it, but does not say all of it, so it stays inside: {facts.beyond}"
            )
        case Run() if verdict.commits_in:
            return f"it only records work in {verdict.commits_in}, which `allow_commit` allows"
        case Run() if all(one.is_safe for one in facts.commands):
            return "it is known to only read, and the sandbox bounds it"
        case Run():
            return "no rule and no approval policy stands against it, and the sandbox bounds it"


def _cause_in_words(ask: Ask, facts: CommandFacts) -> str:
    stated = f" ({ask.reason})" if ask.reason else ""
    unknown = ask.cause == "rule" and facts.standing.rules_broken
    cause = "no rule is known, and one could speak about it" if unknown else _CAUSES[ask.cause]
    return f"{cause}{stated}"


def _sandbox(situation: Situation) -> SandboxExplanation:
    policy = situation.limits.sandbox
    name = type(policy).__struct_config__.tag
    rules = situation.limits.unix_sockets
    try:
        plan = plan_sandbox(
            policy,
            cwd=situation.cwd,
            tmp_dir=None,
            hidden_paths=situation.hidden_paths,
            sockets=allowed_sockets(rules),
            stack=situation.stack,
        )
        problem = ""
    except SandboxUnavailable as error:
        plan, problem = SandboxPlan(), str(error)
    return SandboxExplanation(
        policy=str(name),
        stack=plan.stack,
        writable=plan.writable,
        read_only=(*plan.protected, *plan.links, *plan.missing),
        private_tmp=plan.is_sandboxed and plan.tmp_writable,
        network=plan.network and not problem,
        problem=problem,
        profile=policy.name if isinstance(policy, ProfilePolicy) else "",
        readable=plan.readable,
        denied=(*plan.denied, *plan.denied_files),
        sockets=plan.sockets,
        sockets_closed=tuple(
            path
            for path in rules.allow
            if plan.is_sandboxed
            and path not in plan.sockets
            and not any(is_within(path, root) for root in plan.writable)
        ),
    )
