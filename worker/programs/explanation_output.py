"""The `explain` command: probes the sandbox, calls the deciding functions, prints.

The CLI has read everything (limits, rules) once, as a run does; this module reads no configuration.
All text from the command is escaped before it reaches the terminal.
"""

import sys
from collections.abc import Iterator

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits
from swarm.roles.rules.rule_loader import LoadedRules

from ..policy.shell_parser import join_words
from ..sandbox.sandbox_probe import probe_sandbox
from .explanation import (
    READINGS,
    CommandExplanation,
    Explanation,
    RuleExplanation,
    Situation,
    explain_command,
)


class ExplainRequest(Value):
    """The CLI's request, as JSON in an open file whose descriptor is the first argument."""

    limits: Limits
    cwd: str
    loaded: LoadedRules = LoadedRules()
    hidden_paths: tuple[str, ...] = ()
    shell: str = "/bin/bash"
    warnings: tuple[str, ...] = ()
    allow_commit: bool = False


def run_explain(arguments: list[str]) -> int:
    """Print the explanation; return the exit code (0 for every verdict)."""
    match arguments:
        case [order, "--json", "--", *words] if words:
            as_json = True
        case [order, "--", *words] if words:
            as_json = False
        case _:
            sys.stderr.write("Usage: explain SITUATION [--json] -- COMMAND [ARGUMENT]...\n")
            return 2
    try:
        with open(int(order), "rb") as file:  # noqa: PTH123
            file.seek(0)
            situation = _situation(msgspec.json.decode(file.read(), type=ExplainRequest))
    except (ValueError, OSError, msgspec.DecodeError) as error:
        sys.stderr.write(f"swarm explain: the situation cannot be read: {error}\n")
        return 2
    except SwarmError as error:
        sys.stderr.write(f"swarm explain: {error}\n")
        return error.exit_code
    explanation = explain_command(words, situation)
    for warning in explanation.warnings:
        sys.stderr.write(f"swarm explain: {warning}\n")
    if as_json:
        sys.stdout.write(msgspec.json.encode(explanation).decode() + "\n")
    else:
        sys.stdout.write(render_explanation(explanation))
    return 0


def _situation(order: ExplainRequest) -> Situation:
    unbound = isinstance(order.limits.sandbox, DangerFullAccess)
    loaded = order.loaded
    warnings = (*order.warnings, *loaded.warnings)
    return Situation(
        limits=order.limits,
        cwd=order.cwd,
        loaded=msgspec.structs.replace(loaded, warnings=warnings),
        hidden_paths=order.hidden_paths,
        stack="none" if unbound else probe_sandbox().stack,
        shell=order.shell,
        allow_commit=order.allow_commit,
    )


_MAX_TEXT = 400
_MOST_COMMANDS = 40
_MOST_SHOWN = 20


def render_explanation(one: Explanation) -> str:
    """The lines, each with a newline; about 20."""
    return "".join(f"{line}\n" for line in _lines(one))


def _lines(one: Explanation) -> Iterator[str]:
    yield f"command   {_clean(one.command)}"
    yield f"in        {_clean(one.cwd)}"
    yield f"read as   {READINGS[one.reading]}"
    for command in one.commands[:_MOST_COMMANDS]:
        yield from _command_lines(command)
    if len(one.commands) > _MOST_COMMANDS:
        yield f"          … and {len(one.commands) - _MOST_COMMANDS} commands more"
    if one.throws_away:
        yield f"throws    work away: {_clean('; '.join(one.throws_away))}"
    if one.rules_broken:
        yield f"rules     none is known: {_clean(one.rules_broken)}"
    elif not any(command.rules for command in one.commands):
        yield "rules     none matches"
    yield f"approval  {one.approval}; {_reviewer_name(one.reviewer)} is asked"
    yield from _sandbox_lines(one)
    yield f"verdict   {_verdict(one)}"
    yield f"because   {_clean(one.reason)}"


def _command_lines(command: CommandExplanation) -> Iterator[str]:
    kind = "dangerous" if command.dangerous else "safe" if command.safe else "not known safe"
    yield f"words     {_clean(join_words(command.words))}"
    yield f"          {kind}: {command.why}"
    if command.program:
        unheld = _clean(command.unheld)
        why = f"not held: {unheld}" if unheld else "held: no agent writes it"
        yield f"          is {_clean(command.program)}; {why}"
    for rule in command.rules:
        yield f"          {_rule(rule)}"


def _rule(rule: RuleExplanation) -> str:
    where = f" in {_clean(rule.file)}" if rule.file else ""
    program = f" as {_clean(rule.resolved_program)}" if rule.resolved_program else ""
    why = f": {_clean(rule.justification)}" if rule.justification else ""
    prefix = _clean(join_words(rule.matched_prefix))
    return f"rule {rule.decision} `{prefix}`{program}{where}{why}"


def _sandbox_lines(one: Explanation) -> Iterator[str]:
    box = one.sandbox
    if box.problem:
        yield f"sandbox   {box.profile or box.policy}: {_clean(box.problem)}"
        return
    if box.stack == "none":
        yield f"sandbox   {box.policy}: none"
        return
    name = f"{box.policy} {_clean(box.profile)}" if box.profile else box.policy
    yield f"sandbox   {name} by {box.stack}; network {'on' if box.network else 'off'}"
    places = [_clean(path) for path in box.writable]
    places += ["a private /tmp"] if box.private_tmp else []
    yield f"          may write: {', '.join(places) or 'nothing'}"
    if box.readable != ("/",):
        read = [_clean(path) for path in box.readable if path not in box.writable]
        yield f"          may read:  {', '.join(read) or 'nothing else'}"
    if box.denied:
        shown = [_clean(path) for path in box.denied[:_MOST_SHOWN]]
        more = len(box.denied) - len(shown)
        yield f"          closed:    {', '.join(shown)}{f', and {more} more' if more else ''}"
    if box.sockets:
        yield f"          sockets:   {', '.join(_clean(path) for path in box.sockets)}"
    if box.sockets_closed:
        why = "hidden, denied, or no socket now" if box.stack == "bwrap" else "needs bubblewrap"
        names = ", ".join(_clean(path) for path in box.sockets_closed)
        yield f"          sockets out of reach ({why}): {names}"
    if box.read_only:
        yield f"          read-only: {', '.join(_clean(path) for path in box.read_only)}"


def _verdict(one: Explanation) -> str:
    where = "in the sandbox" if one.sandboxed else "outside of the sandbox"
    if one.sandbox.policy == "danger-full-access":
        where = "without a sandbox"
    match one.verdict:
        case "run":
            return f"runs {where}, unasked"
        case "ask":
            return f"asks first ({one.cause}); after a yes it runs {where}"
        case "refuse":
            return "refused, unasked"


def _reviewer_name(reviewer: str) -> str:
    return {"person": "a person", "guardian": "the Guardian"}.get(reviewer, "nobody")


def _clean(text: str) -> str:
    shown = "".join(sign if sign.isprintable() else _escaped(sign) for sign in text[:_MAX_TEXT])
    return shown if len(text) <= _MAX_TEXT else f"{shown}…"


def _escaped(sign: str) -> str:
    return {"\n": "⏎", "\t": "⇥"}.get(sign, "�")
