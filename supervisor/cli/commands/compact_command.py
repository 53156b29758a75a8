"""`swarm compact`: compact an agent's history now, or take the last compaction back."""

import click

from swarm.mailbox.protocol.control import CompactAgent

from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand


@click.command("compact", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
@click.option("--undo", is_flag=True, help="Put back what the last compaction took.")
def compact(run: str, agent: str | None, undo: bool) -> None:
    """Make the history of an agent of a live run shorter.

    Without AGENT: the root's. It is done before the agent's next request. What a compaction took
    can be put back as long as it fits the model's window.

    \b
    Example:
      swarm compact 4f21c0aa /root/scout
    """
    click.echo(send_request_for_message(run, CompactAgent(agent=agent or "", undo=undo)), err=True)
