"""`swarm send`, `interrupt`, `kill`: control a live run from any terminal."""

import sys

import click

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.control import InterruptAgent, KillAgent, SendText

from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand

_MAX_TEXT_BYTES = 512 << 10


@click.command("send", cls=ColorCommand)
@click.argument("run")
@click.argument("agent")
@click.argument("text")
@click.option(
    "--wake/--no-wake", default=True, show_default=True, help="Start a turn if none runs."
)
def send(run: str, agent: str, text: str, wake: bool) -> None:
    """Say something to an agent of a live run.

    AGENT is a path (/root/scout) or its last step; TEXT may be - for stdin.

    \b
    Example:
      swarm send 4f21c0aa root "Leave the tests alone."
    """
    words = (
        sys.stdin.buffer.read(_MAX_TEXT_BYTES + 1).decode("utf-8", "replace")
        if text == "-"
        else text
    )
    if not words.strip():
        raise UsageError("there is nothing to send")
    if len(words.encode()) > _MAX_TEXT_BYTES:
        raise UsageError("that is over 512 KiB; put it into a file and name the file")
    click.echo(
        send_request_for_message(run, SendText(agent=agent, text=words, wake=wake)), err=True
    )


@click.command("interrupt", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
@click.option(
    "--keep-commands", is_flag=True, help="Let the commands that it runs in the background go on."
)
def interrupt(run: str, agent: str | None, keep_commands: bool) -> None:
    """Stop the running turn of one agent, or of all.

    Its commands end too. The agent stays and accepts further input. Without AGENT nothing else of
    the run begins either, and it ends when nobody works; `swarm resume` continues it.

    \b
    Example:
      swarm interrupt 4f21c0aa /root/scout
    """
    wish = InterruptAgent(agent=agent or "", keep_commands=keep_commands)
    click.echo(send_request_for_message(run, wish), err=True)


@click.command("kill", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def kill(run: str, agent: str | None) -> None:
    """End an agent and all below it, or the whole run.

    \b
    Example:
      swarm kill 4f21c0aa /root/scout
    """
    click.echo(send_request_for_message(run, KillAgent(agent=agent or "")), err=True)
