"""`swarm explain`: the configuration of this folder, as `run` would use it, handed to the worker's
own judges. Rule: this room may not import them; they are started in our place.
"""

import os
import sys
from typing import NoReturn

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.limits import Limits, UnixSockets
from swarm.roles.config.schema import NetworkTable
from swarm.roles.login_shell import find_shell
from swarm.roles.narrow import narrow_approval, narrow_role_sockets, narrow_sandbox
from swarm.roles.rules.load import rules_of
from swarm.roles.sockets import run_sockets, tighten_sockets

from ..console.style import is_terminal
from ..places import find_places
from ..taskfile import Task
from .doors import DoorCommand
from .holding import denied_paths
from .options import APPROVALS, SANDBOXES, RunOptions
from .permissions import run_sandbox
from .reviewing import choose_reviewer, find_answering
from .settings import Settings, load_settings
from .tools import become

_REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command("explain", cls=DoorCommand, context_settings=_REST)
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

    Nothing is run. One argument with blanks or shell signs is a script, as a model would send it.

    \b
    Example:
      swarm explain -a on-request -- "git add -A && git push"
    """
    environment = dict(os.environ)
    chosen = () if permission_profile is None else (f"default_permissions={permission_profile}",)
    options = RunOptions(sandbox=sandbox, approval=approval, config=chosen)
    settings = load_settings(options, Task(name="explain", body=""), environment)
    places, held = find_places(environment), settings.loaded.requirements
    warnings = list(settings.loaded.warnings)
    at = find_answering(environment, on_terminal=is_terminal(sys.stdin) and is_terminal(sys.stderr))
    if sandbox is not None and permission_profile is not None:
        raise UsageError("give --sandbox or --permission-profile, not both")
    granted = run_sandbox(settings.loaded, cwd=settings.cwd)
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
        "loaded": rules_of(settings.loaded.layers, held),
        "hidden_paths": [
            *places.hidden,
            *denied_paths(held),
        ],
        "shell": find_shell(environment),
        "allow_commit": settings.config.allow_commit,
        "warnings": warnings,
    }
    words = command[1:] if command[:1] == ("--",) else command
    flags = ["--json"] if as_json else []
    order_fd = os.memfd_create("swarm-explain", 0)  # rules can be longer than an argument may be
    with os.fdopen(order_fd, "wb", closefd=False) as file:
        file.write(msgspec.json.encode(order))
    become("swarm.worker.policy.standalone", "explain", str(order_fd), *flags, "--", *words)


def _sockets(settings: Settings, profile: NetworkTable | None) -> UnixSockets:
    """As a run here would have them."""
    rules = narrow_role_sockets(run_sockets(settings.config, profile), settings.role)
    demand = settings.loaded.requirements.network
    return rules if demand is None else tighten_sockets(rules, demand)
