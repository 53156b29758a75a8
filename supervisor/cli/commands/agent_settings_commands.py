"""`swarm set`, `pause`, `continue`: change the settings of a live agent, pause it, continue it."""

from typing import Any

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.control import ChangeSettings, ContinueAgent, PauseAgent

from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand
from ..options import APPROVALS, SANDBOXES


@click.command("set", cls=ColorCommand)
@click.argument("run")
@click.argument("agent")
@click.option("-m", "--model", help="Another model of the run's provider; '' for its default.")
@click.option("--effort", help="Reasoning effort: none, minimal, low, medium, high, xhigh; or ''.")
@click.option(
    "--summary",
    type=click.Choice(["auto", "concise", "detailed", "none"]),
    help="Of the model's reasoning.",
)
@click.option(
    "--verbosity", type=click.Choice(["low", "medium", "high"]), help="Of the model's answers."
)
@click.option("-s", "--sandbox", type=click.Choice(SANDBOXES), help="Only a narrower one.")
@click.option("-a", "--approval", type=click.Choice(APPROVALS), help="Only a stricter one.")
@click.option("-C", "--cd", "cwd", metavar="DIR", help="Another folder, within what it may write.")
def set_agent_settings(run: str, agent: str, **said: Any) -> None:
    """Change how an agent of a live run works, from its next turn on.

    Rights can only be taken away. AGENT is a path (/root/scout) or its last step.

    \b
    Example:
      swarm set 4f21c0aa root --effort high --sandbox read-only
    """
    if all(value is None for value in said.values()):
        raise UsageError("say what is to change: swarm set --help")
    wish = msgspec.convert({"type": "change_settings", "agent": agent, **said}, ChangeSettings)
    click.echo(send_request_for_message(run, wish), err=True)


@click.command("pause", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def pause(run: str, agent: str | None) -> None:
    """Hold one agent of a live run, or all: no further requests.

    What already runs is finished; the run's deadline keeps running.

    \b
    Example:
      swarm pause 4f21c0aa
    """
    click.echo(send_request_for_message(run, PauseAgent(agent=agent or "")), err=True)


@click.command("continue", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def continue_agent(run: str, agent: str | None) -> None:
    """Let a paused agent, or the whole run, go on.

    \b
    Example:
      swarm continue 4f21c0aa
    """
    click.echo(send_request_for_message(run, ContinueAgent(agent=agent or "")), err=True)
