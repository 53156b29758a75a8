"""The worker's tools as commands, and shell completion.

This package may not import the worker's code; each tool replaces this process and is started by its
module name.
"""

import os
import sys
from typing import NoReturn

import click
import msgspec

from swarm.mailbox.base.errors import UsageError

from ....runs.paths import find_user_paths
from ..base.lazy_commands import ColorCommand
from ..run_setup.options import SANDBOXES

_REST = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def exec_python_module(module: str, *arguments: str) -> NoReturn:
    """Replace this process by a Python module, started outside the user's folder."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *arguments])


@click.command("sandbox", cls=ColorCommand, context_settings=_REST)
@click.option(
    "-s", "--sandbox", "policy", default="read-only", show_default=True,
    type=click.Choice(SANDBOXES),
)  # fmt: skip
@click.option(
    "-P", "--permission-profile", metavar="NAME",
    help="In its place: a profile of your configuration, or :read-only and its like.",
)  # fmt: skip
@click.option("--network", is_flag=True, help="Let it use the network.")
@click.option("-C", "--cd", metavar="DIR", default=".", help="Where it runs.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def sandbox(
    ctx: click.Context,
    policy: str,
    *,
    permission_profile: str | None,
    network: bool,
    cd: str,
    command: tuple[str, ...],
) -> NoReturn:
    """Run a command in the sandbox that agents get.

    The exit code is the command's; 125 says that the sandbox itself failed.

    \b
    Example:
      swarm sandbox -s workspace-write -- make test
    """
    environment = dict(os.environ)
    closed = (
        *find_user_paths(environment).hidden,
        *_required(environment, policy, network),
    )
    hidden = [word for path in closed for word in ("--hide", path)]
    flags = ["-s", policy]
    if permission_profile is not None:
        if ctx.get_parameter_source("policy") is not click.core.ParameterSource.DEFAULT:
            raise UsageError("give --sandbox or --permission-profile, not both")
        flags = ["--policy", _profile(permission_profile, cd)]
    flags += ["--network"] if network else []
    argv = command[1:] if command[:1] == ("--",) else command
    exec_python_module(
        "swarm.worker.programs.sandbox_command", *flags, "-C", cd, *hidden, "--", *argv
    )


class SandboxNotAllowed(UsageError):
    """The requirements forbid this sandbox, or it does not exist; nothing was started."""

    exit_code = 125


def _profile(name: str, folder: str) -> str:
    """The profile's policy as JSON. Raises SandboxNotAllowed."""
    # Reads the configuration; no other path does.
    from ..run_setup.sandbox_choice import resolve_profile_in

    try:
        return msgspec.json.encode(resolve_profile_in(name, folder)).decode()
    except UsageError as error:
        raise SandboxNotAllowed(f"sandbox: {error}") from error


def _required(environment: dict[str, str], policy: str, network: bool) -> tuple[str, ...]:
    """The paths to hide, as for a run's commands. Raises SandboxNotAllowed."""
    from ..run_setup.run_requirements import denied_paths, find_requirements, standalone_refusal

    try:
        required = find_requirements(environment)
        if (why := standalone_refusal(policy, required, network=network)) is not None:
            raise UsageError(why)
        return denied_paths(required)
    except UsageError as error:
        raise SandboxNotAllowed(f"sandbox: {error}") from error


@click.command("apply-patch", cls=ColorCommand, context_settings=_REST)
@click.argument("patch", nargs=-1, type=click.UNPROCESSED)
def apply_patch(patch: tuple[str, ...]) -> NoReturn:
    """Apply a patch in the apply_patch format.

    PATCH is the text itself; without it, stdin. Exit codes: 0 done, 1 not applied, 2 wrong usage.

    \b
    Example:
      swarm apply-patch < change.patch
    """
    exec_python_module("swarm.worker.parts.patch.apply_patch_command", *patch)


@click.command("parse-command", cls=ColorCommand, context_settings=_REST)
@click.option("--json", "as_json", is_flag=True, help="A JSON list of meanings.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def parse_command(*, as_json: bool, command: tuple[str, ...]) -> NoReturn:
    """Say what a command does: read, list, search, or unknown.

    \b
    Example:
      swarm parse-command --json -- bash -lc "cat README.md | head"
    """
    argv = command[1:] if command[:1] == ("--",) else command
    flags = ["--json"] if as_json else []
    exec_python_module("swarm.worker.programs.policy_command", "parse-command", *flags, "--", *argv)


@click.command("completion", cls=ColorCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]), metavar="SHELL")
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    Example:
      swarm completion bash > ~/.local/share/bash-completion/completions/swarm
    """
    from click.shell_completion import get_completion_class

    whole = click.get_current_context().find_root().command
    chosen = get_completion_class(shell)
    assert chosen is not None  # click accepts only these three names
    click.echo(chosen(whole, {}, "swarm", "_SWARM_COMPLETE").source())
