"""Commands that steer a live run from any terminal, each by one request to its supervisor."""

import sys

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.control import (
    AnyControl,
    ChangeSettings,
    CompactAgent,
    ContinueAgent,
    EndRun,
    InterruptAgent,
    KillAgent,
    PauseAgent,
    SendText,
)

from ..confirmation import confirm
from ..control_client import send_request_for_message
from ..lazy_commands import ColorCommand, OptionValue
from ..options import APPROVALS, SANDBOXES

_MAX_TEXT_BYTES = 512 << 10


def _send(run: str, request: AnyControl) -> None:
    """Print what the supervisor did."""
    click.echo(send_request_for_message(run, request), err=True)


@click.command("send", cls=ColorCommand)
@click.argument("run")
@click.argument("agent")
@click.argument("text")
@click.option(
    "--wake/--no-wake", default=True, show_default=True, help="Start a turn if none runs."
)
def send(run: str, agent: str, text: str, wake: bool) -> None:
    """Send a message to an agent of a live run.

    AGENT is a path (/root/scout) or its last step; TEXT may be - for stdin.

    \b
    Example:
      swarm send 4f21c0aa root "Leave the tests alone."
    """
    content = text
    if text == "-":
        content = sys.stdin.buffer.read(_MAX_TEXT_BYTES + 1).decode("utf-8", "replace")
    if not content.strip():
        raise UsageError("there is nothing to send")
    if len(content.encode()) > _MAX_TEXT_BYTES:
        raise UsageError("that is over 512 KiB; put it into a file and name the file")
    _send(run, SendText(agent=agent, text=content, wake=wake))


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
    _send(run, InterruptAgent(agent=agent or "", keep_commands=keep_commands))


@click.command("kill", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def kill(run: str, agent: str | None) -> None:
    """End an agent and all below it, or the whole run.

    \b
    Example:
      swarm kill 4f21c0aa /root/scout
    """
    _send(run, KillAgent(agent=agent or ""))


@click.command("end", cls=ColorCommand)
@click.argument("run")
def end(run: str) -> None:
    """End a run that stays open, in order, with its last answer.

    A run at work ends when its work is done.

    \b
    Example:
      swarm end 4f21c0aa
    """
    _send(run, EndRun())


@click.command("set", cls=ColorCommand)
@click.argument("run")
@click.argument("agent")
@click.option("-m", "--model", help="Another model, as NAME or PROVIDER:NAME; '' for the default.")
@click.option("--provider", metavar="ID", help="Another provider of the run; '' for its own.")
@click.option(
    "--effort", help="Reasoning effort: none, minimal, low, medium, high, xhigh, max, ''."
)
@click.option(
    "--summary",
    type=click.Choice(["auto", "concise", "detailed", "none"]),
    help="Of the model's reasoning.",
)
@click.option(
    "--verbosity", type=click.Choice(["low", "medium", "high"]), help="Of the model's answers."
)
@click.option("-s", "--sandbox", type=click.Choice(SANDBOXES), help="A narrower one.")
@click.option("-a", "--approval", type=click.Choice(APPROVALS), help="A stricter one.")
@click.option("-C", "--cd", "cwd", metavar="DIR", help="Another folder, within what it may write.")
@click.option("--plan", is_flag=True, default=None, help="Plan mode: only read, until `accept`.")
@click.option("--widen", is_flag=True, help="Also a wider sandbox, or a looser approval policy.")
@click.option("--yes", is_flag=True, help="Do not ask before rights are widened.")
def set_agent_settings(
    run: str, agent: str, *, widen: bool, yes: bool, **given: OptionValue
) -> None:
    """Change the model, effort or rights of an agent of a live run.

    It counts from the next turn on. Without --widen rights can only be taken away. AGENT is a path
    (/root/scout) or its last step.

    \b
    Example:
      swarm set 4f21c0aa root --effort high --sandbox read-only
      swarm set 4f21c0aa root --sandbox workspace-write --widen
    """
    if all(value is None for value in given.values()):
        raise UsageError("say what is to change: swarm set --help")
    if widen:
        rights = ", ".join(
            f"{name} {given[name]}" for name in ("sandbox", "approval") if given[name]
        )
        if not rights:
            raise UsageError("--widen needs --sandbox or --approval")
        confirm(f"Give {agent} of run {run} {rights}?", yes=yes)
    changes = {"type": "change_settings", "agent": agent, "widen": widen, **given}
    _send(run, msgspec.convert(changes, ChangeSettings))


@click.command("pause", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def pause(run: str, agent: str | None) -> None:
    """Pause one agent of a live run, or all: no further requests.

    What already runs is finished; the run's deadline keeps running.

    \b
    Example:
      swarm pause 4f21c0aa
    """
    _send(run, PauseAgent(agent=agent or ""))


@click.command("continue", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
def continue_agent(run: str, agent: str | None) -> None:
    """Continue a paused agent, or the whole run.

    \b
    Example:
      swarm continue 4f21c0aa
    """
    _send(run, ContinueAgent(agent=agent or ""))


@click.command("compact", cls=ColorCommand)
@click.argument("run")
@click.argument("agent", required=False)
@click.option("--undo", is_flag=True, help="Put back what the last compaction took.")
def compact(run: str, agent: str | None, undo: bool) -> None:
    """Shorten the history of an agent of a live run.

    Without AGENT: the root's. It is done before the agent's next request. What a compaction took
    can be put back as long as it fits the model's window.

    \b
    Example:
      swarm compact 4f21c0aa /root/scout
    """
    _send(run, CompactAgent(agent=agent or "", undo=undo))
