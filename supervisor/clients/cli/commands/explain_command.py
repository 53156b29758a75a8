"""`swarm explain`: passes the configuration of this folder, as `run` would use it, to the worker's
policy code. This package may not import that code, so this process is replaced by it.
"""

import os
import sys
from typing import NoReturn

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.values.limits import Limits, UnixSockets
from swarm.roles.base.login_shell import find_shell
from swarm.roles.config.schema import NetworkTable
from swarm.roles.rights.narrow import narrow_approval, narrow_role_sockets, narrow_sandbox
from swarm.roles.rights.unix_sockets import apply_socket_requirements, run_socket_rules
from swarm.roles.rules.rule_loader import load_layer_rules

from ....runs.paths import find_user_paths
from ...console.terminal import is_terminal
from ..base.lazy_commands import ColorCommand
from ..run_setup.options import APPROVALS, SANDBOXES, RunOptions
from ..run_setup.reviewer_choice import choose_reviewer, find_answer_location
from ..run_setup.run_requirements import denied_paths
from ..run_setup.run_settings import RunSettings, load_settings
from ..run_setup.sandbox_choice import resolve_run_sandbox
from ..run_setup.task_file import Task
from .worker_tool_commands import exec_python_module

_REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command("explain", cls=ColorCommand, context_settings=_REST)
@click.option("-s", "--sandbox", type=click.Choice(SANDBOXES), help="As for `swarm run`.")
@click.option("-P", "--permission-profile", metavar="NAME", help="In the place of a sandbox mode.")
@click.option("-a", "--approval", type=click.Choice(APPROVALS), help="As for `swarm run`.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def explain(
    *,
    sandbox: str | None,
    permission_profile: str | None,
    approval: str | None,
    as_json: bool,
    command: tuple[str, ...],
) -> NoReturn:
    """Say what would happen to a command here, and why.

    Nothing is run. One argument with blanks or shell characters is a script, as a model would send.

    \b
    Example:
      swarm explain -a on-request -- "git add -A && git push"
    """
    environment = dict(os.environ)
    chosen = () if permission_profile is None else (f"default_permissions={permission_profile}",)
    options = RunOptions(sandbox=sandbox, approval=approval, config=chosen)
    settings = load_settings(options, Task(name="explain", body=""), environment)
    places, required = find_user_paths(environment), settings.loaded.requirements
    warnings = list(settings.loaded.warnings)
    at = find_answer_location(
        environment, on_terminal=is_terminal(sys.stdin) and is_terminal(sys.stderr)
    )
    if sandbox is not None and permission_profile is not None:
        raise UsageError("give --sandbox or --permission-profile, not both")
    granted = resolve_run_sandbox(settings.loaded, cwd=settings.cwd)
    warnings += granted.warnings
    limits = Limits(
        sandbox=narrow_sandbox(granted.policy, settings.role),
        approval=narrow_approval(settings.config.approval, settings.role.approval),
        granular=settings.config.granular,
        reviewer=choose_reviewer(settings.config, warnings, at=at),
        unix_sockets=_sockets(settings, granted.network),
    )
    order = {
        "limits": limits,
        "cwd": settings.cwd,
        "loaded": load_layer_rules(settings.loaded.layers, required),
        "hidden_paths": [*places.hidden, *denied_paths(required)],
        "shell": find_shell(environment),
        "allow_commit": settings.config.allow_commit,
        "warnings": warnings,
    }
    argv = command[1:] if command[:1] == ("--",) else command
    flags = ["--json"] if as_json else []
    order_fd = os.memfd_create("swarm-explain", 0)  # rules may exceed the limit of an argument
    with os.fdopen(order_fd, "wb", closefd=False) as file:
        file.write(msgspec.json.encode(order))
    exec_python_module(
        "swarm.worker.programs.policy_command", "explain", str(order_fd), *flags, "--", *argv
    )


def _sockets(settings: RunSettings, profile: NetworkTable | None) -> UnixSockets:
    """The socket settings that a run would have."""
    rules = narrow_role_sockets(run_socket_rules(settings.config, profile), settings.role)
    demand = settings.loaded.requirements.network
    return rules if demand is None else apply_socket_requirements(rules, demand)
