"""`swarm accept`: accept an agent's plan, so that it may carry it out."""

import click

from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import AcceptPlan

from ..base.confirmation import confirm
from ..base.control_client import send_request_for_message
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    all_projects_option,
    choose_live_run,
    split_agent,
    take_run_wanted,
    yes_option,
)
from ..run_setup.click_values import OptionValue


@click.command("accept", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("-p", "--prompt", default="", help="What it is told with the acceptance.")
@all_projects_option
@yes_option
def accept(run: str | None, agent: str | None, *, prompt: str, **given: OptionValue) -> None:
    """Accept the plan of an agent in plan mode: it gets its rights and carries it out.

    Without AGENT the root. It gets what the run was started with.

    \b
    Example:
      swarm accept 4f21c0aa -p "Yes, but leave the tests alone."
    """
    run, agent = split_agent(run, agent)
    wanted, name = take_run_wanted(run, given), agent or ROOT_PATH
    here = choose_live_run(wanted)
    short = short_id(here.folder.name)
    question = (
        f"End the plan mode of {name} of run {short}? It may then change what it was allowed."
    )
    confirm(question, yes=wanted.yes)
    request = AcceptPlan(agent=agent or "", text=prompt)
    message = send_request_for_message(here.folder.name, request)
    click.echo(message, err=True)
