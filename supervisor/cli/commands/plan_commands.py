"""`swarm accept`: accept an agent's plan, so that it may carry it out."""

import click

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AcceptPlan

from ..confirmation import confirm
from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand


@click.command("accept", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
@click.option("-p", "--prompt", default="", help="What it is told with the acceptance.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def accept(run: str, agent: str | None, *, prompt: str, yes: bool) -> None:
    """Accept the plan of an agent in plan mode: it gets its rights and carries it out.

    Without AGENT the root. It gets what the run was started with.

    \b
    Example:
      swarm accept 4f21c0aa -p "Yes, but leave the tests alone."
    """
    name = agent or ROOT_PATH
    question = f"End the plan mode of {name} of run {run}? It may then change what it was allowed."
    confirm(question, yes=yes)
    message = send_request_for_message(run, AcceptPlan(agent=agent or "", text=prompt))
    click.echo(message, err=True)
