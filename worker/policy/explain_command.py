"""The `explain` command: probes the sandbox, calls the deciding functions, prints.

The CLI has read everything (limits, rules) once, as a run does; this module reads no configuration.
"""

import sys

import msgspec

from swarm.mailbox.errors import SwarmError
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import DangerFullAccess, Limits
from swarm.roles.rules.rule_loader import LoadedRules

from ..sandbox.sandbox_probe import probe_sandbox
from .explanation import Situation, explain_command
from .explanation_text import render_explanation


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
