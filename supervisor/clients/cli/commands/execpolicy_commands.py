"""`swarm execpolicy check`: what rule files say about a command, in Codex's JSON.

Arguments are taken as they are: no shell script is unwrapped, and only the rules are consulted. For
a file that is not a policy the exit code is 1, with Codex's first line.
"""

import json
from pathlib import Path

import click

from swarm.roles.rules.matching import MatchedRule, RuleIndex, strictest
from swarm.roles.rules.rule_loader import load_files

from ..base.lazy_commands import ColorCommand

_REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group("execpolicy")
def execpolicy() -> None:
    """Check commands against rule files.

    \b
    Example:
      swarm execpolicy check -r default.rules -- git push
    """


@execpolicy.command("check", cls=ColorCommand, context_settings=_REST)
@click.option(
    "-r", "--rules", "files", multiple=True, required=True, metavar="FILE", type=click.Path(),
    help="A rule file; may be given again.",
)  # fmt: skip
@click.option("--pretty", is_flag=True, help="Indented JSON.")
@click.option(
    "--resolve-host-executables", "resolve", is_flag=True,
    help="Rules that name a program bare also speak about its absolute path.",
)  # fmt: skip
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def check(
    ctx: click.Context, *, files: tuple[str, ...], pretty: bool, resolve: bool,
    command: tuple[str, ...],
) -> None:  # fmt: skip
    """Print which rules match a command, and the strictest decision.

    Exit codes: 0 also when nothing matches; 1 for a file that is not a policy.

    \b
    Example:
      swarm execpolicy check -r default.rules --pretty -- git push origin
    """
    loaded = load_files([Path(name) for name in files])
    if loaded.broken_file:
        click.echo(
            f"Error: failed to parse policy at {loaded.broken_file}\n\nCaused by:\n"
            f"    {loaded.rules.broken}",
            err=True,
        )
        ctx.exit(1)
    argv = command[1:] if command[:1] == ("--",) else command
    found = RuleIndex(loaded.rules).find([_text(word) for word in argv], resolve=resolve)
    click.echo(_encode(found, pretty=pretty))


def _encode(found: tuple[MatchedRule, ...], *, pretty: bool) -> str:
    answer: dict[str, object] = {
        "matchedRules": [{"prefixRuleMatch": _match(one)} for one in found]
    }
    decision = strictest([one.rule.decision for one in found])
    if decision is not None:
        answer["decision"] = decision
    if pretty:
        return json.dumps(answer, ensure_ascii=False, indent=2)
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _match(one: MatchedRule) -> dict[str, object]:
    """Keys in Codex's order; absent ones are left out."""
    match: dict[str, object] = {
        "matchedPrefix": list(one.matched_prefix),
        "decision": one.rule.decision,
    }
    if one.resolved_program is not None:
        match["resolvedProgram"] = one.resolved_program
    if one.rule.justification is not None:
        match["justification"] = one.rule.justification
    return match


def _text(word: str) -> str:
    """An argument may be any bytes; bytes that are not text are matched and shown as U+FFFD."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
