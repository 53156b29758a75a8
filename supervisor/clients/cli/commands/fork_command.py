"""`swarm fork`: a new run that continues from a turn of another one."""

import os

import click

from swarm.mailbox.base.ids import new_uuid7, short_id

from ....runs.paths import find_user_paths, paths_of_run
from ...console.terminal import ColorChoice
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    all_projects_option,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ..run_setup.click_values import OptionValue
from ..run_setup.options import keep_open_options, show_options
from .resume_command import rebuild_request, settings_change_options
from .run_command import parse_show_options
from .run_execution import start_run


@click.command("fork", cls=ColorCommand)
@click.argument("run", required=False)
@click.option(
    "--at", default="", metavar="TURN",
    help="The last turn to take over: its number (1, 2, … or -1), its id, or `last`.",
)  # fmt: skip
@click.option("-p", "--prompt", help="The next prompt for its root; the new run starts at once.")
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE", help="As for `swarm run`.")
@settings_change_options
@keep_open_options
@show_options
@all_projects_option
@yes_option
@click.pass_obj
def fork(
    color: ColorChoice, /, run: str | None, *, at: str, prompt: str | None, **given: OptionValue
) -> int:
    """Start a new run from a turn of another one.

    Without RUN: of the newest one of this project.

    Its root has the history up to that turn, and the settings of the run. Other agents and the
    state of files are not copied; what those agents sent to the root is in its history. Without -p
    its id is printed, and `swarm resume` goes on with it. The run itself stays as it is; it may be
    alive.

    \b
    Examples:
      swarm fork 4f21c0aa --at 2 -p "Try it with sqlite instead."
      swarm fork 4f21c0aa
    """
    from ..base.run_fork import describe_agents_left_out, fork_run

    source = choose_run_to_change(take_run_wanted(run, given), "branch off from", live=False)
    show = parse_show_options(given, color)
    environment = dict(os.environ)
    places = find_user_paths(environment)
    target = paths_of_run(places, new_uuid7())
    cut = fork_run(source, target, at=at, agent_id=new_uuid7())
    short = short_id(target.folder.name)
    where = f"in the middle of turn {cut.number}" if cut.open_turn else f"after turn {cut.number}"
    click.echo(
        f"swarm: run {short} branches off from {short_id(source.folder.name)} {where}", err=True
    )
    if cut.left:
        first = cut.left[0][0]
        click.echo(
            f"swarm: not copied: {describe_agents_left_out(cut.left)}; what they sent to the root "
            f"is in its history, the rest is in the other run: swarm show "
            f"{short_id(source.folder.name)} {first}",
            err=True,
        )
    if prompt is None:
        click.echo(short)
        click.echo(f'go on with it: swarm resume {short} -p "…"', err=True)
        return 0
    bounds = dict.fromkeys(("budget_tokens", "budget_usd", "budget_requests", "deadline"))
    request = rebuild_request(target, environment, {**given, **bounds, "prompt": prompt})
    return start_run(request, show, places)
