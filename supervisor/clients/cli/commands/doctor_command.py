"""`swarm doctor [--reap]`: checks what works here and prints the exact fix for what does not."""

import os

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.schema import Config

from ....runs.leftovers import Leftovers, end_leftovers, find_leftovers
from ....runs.paths import UserPaths, find_user_paths
from ..base.doctor_checks import all_checks
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..base.provider_checks import Check
from ..run_setup.run_settings import load_config_here


@click.command("doctor", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a check.")
@click.option("--reap", is_flag=True, help="End leftovers of dead runs.")
def doctor(*, as_json: bool, reap: bool) -> int:
    """Check what works on this machine, and how to fix the rest.

    Exit code 1 if something that every run needs does not work.

    \b
    Example:
      swarm doctor --reap
    """
    places = find_user_paths(dict(os.environ))
    if reap:
        checks = [reap_leftovers(places)]
    else:
        config, problem = _read_config()
        checks = [*problem, *all_checks(places, config), check_leftovers(places)]
    if as_json:
        for check in checks:
            print_json(check.as_dict())
    else:
        rows = [(check.state, check.name, check.summary) for check in checks]
        print_columns(("STATE", "WHAT", "DETAIL"), rows)
    return int(any(check.state == "fail" for check in checks))


def _read_config() -> tuple[Config, list[Check]]:
    try:
        loaded = load_config_here(lenient=True)
    except UsageError as error:
        return Config(), [Check.fail("configuration", str(error))]
    found = [Check.fail("configuration", problem) for problem in loaded.problems]
    found += [Check.warn("configuration", warning) for warning in loaded.warnings]
    return loaded.config, found or [Check.ok("configuration", "read")]


def check_leftovers(places: UserPaths) -> Check:
    """Processes and socket folders left over from runs that no supervisor owns."""
    found = find_leftovers(places)
    if not found.processes and not found.folders:
        return Check.ok("leftovers", "none")
    return Check.warn("leftovers", _counted(found), fix="swarm doctor --reap")


def reap_leftovers(places: UserPaths) -> Check:
    found = find_leftovers(places)
    ended = end_leftovers(found, places)
    names = ", ".join(f"{one.pid} {one.title}" for one in ended.processes[:10])
    detail = f"ended {_counted(ended)}{f' ({names})' if names else ''}"
    if left := len(found.processes) - len(ended.processes):
        fix = f"{left} had gone or changed meanwhile; run it again"
        return Check.warn("leftovers", detail, fix=fix)
    return Check.ok("leftovers", detail)


def _counted(found: Leftovers) -> str:
    return f"{len(found.processes)} processes, {len(found.folders)} socket folders"
