"""`explain`, called by the command line's door: read the rules, try the sandbox, print.

Rule: the door says where (limits, folder, rule folders); what is read here is read as a run does.
"""

import sys
from pathlib import Path

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import DangerFullAccess, Limits
from swarm.roles.rules.load import load_rules

from ..sandbox.probe import probe_sandbox
from .explain import Situation, explain
from .explain_text import render_explanation


class ExplainOrder(Value):
    """The door's first argument, as JSON."""

    limits: Limits
    cwd: str
    rule_folders: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    shell: str = "/bin/bash"
    warnings: tuple[str, ...] = ()


def main_of_explain(arguments: list[str]) -> int:
    """Print the explanation; returns the exit code (0 whatever the verdict is)."""
    match arguments:
        case [order, "--json", "--", *words] if words:
            as_json = True
        case [order, "--", *words] if words:
            as_json = False
        case _:
            sys.stderr.write("Usage: explain SITUATION [--json] -- COMMAND [ARGUMENT]...\n")
            return 2
    try:
        situation = _situation(msgspec.json.decode(order, type=ExplainOrder))
    except msgspec.DecodeError as error:
        sys.stderr.write(f"swarm explain: the situation cannot be read: {error}\n")
        return 2
    except SwarmError as error:
        sys.stderr.write(f"swarm explain: {error}\n")
        return error.exit_code
    explanation = explain(words, situation)
    for warning in explanation.warnings:
        sys.stderr.write(f"swarm explain: {warning}\n")
    if as_json:
        sys.stdout.write(msgspec.json.encode(explanation).decode() + "\n")
    else:
        sys.stdout.write(render_explanation(explanation))
    return 0


def _situation(order: ExplainOrder) -> Situation:
    unbound = isinstance(order.limits.sandbox, DangerFullAccess)
    loaded = load_rules([Path(folder) for folder in order.rule_folders])
    warnings = (*order.warnings, *loaded.warnings)
    return Situation(
        limits=order.limits,
        cwd=order.cwd,
        loaded=msgspec.structs.replace(loaded, warnings=warnings),
        hidden_paths=order.hidden_paths,
        stack="none" if unbound else probe_sandbox().stack,
        shell=order.shell,
    )
