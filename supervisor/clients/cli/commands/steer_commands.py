"""Commands that steer a live run from any terminal, each by one request to its supervisor."""

import sys

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.base.written_text import decode_leniently
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

from ....runs.client_errors import RunSilent
from ....runs.silent_run import end_silent_run
from ..base.confirmation import can_ask, confirm
from ..base.control_client import send_request_for_message
from ..base.lazy_commands import ColorCommand
from ..base.run_choice import (
    RunWanted,
    all_projects_option,
    choose_run_to_change,
    split_agent,
    take_run_wanted,
    yes_option,
)
from ..run_setup.click_values import OptionValue
from ..run_setup.options import APPROVALS, SANDBOXES

_MAX_TEXT_BYTES = 512 << 10


def _send(wanted: RunWanted, request: AnyControl, what: str) -> None:
    """Send the request, and print what the supervisor did."""
    here = choose_run_to_change(wanted, what)
    click.echo(send_request_for_message(here.folder.name, request), err=True)


@click.command("send", cls=ColorCommand)
@click.argument("words", nargs=-1, metavar="[[RUN] AGENT] TEXT")
@click.option(
    "--wake/--no-wake", default=True, show_default=True, help="Start a turn if none runs."
)
@all_projects_option
@yes_option
def send(words: tuple[str, ...], *, wake: bool, **given: OptionValue) -> None:
    """Send a message to an agent of a live run.

    Without RUN: the run of this project that is alive; without AGENT: its root. AGENT is a path
    (/root/scout) or its last step; TEXT may be - for stdin.

    \b
    Example:
      swarm send 4f21c0aa root "Leave the tests alone."
    """
    if not 1 <= len(words) <= 3:
        raise UsageError("say what is sent: swarm send [[RUN] AGENT] TEXT")
    *place, text = words
    agent = place[-1] if place else ROOT_PATH
    wanted = take_run_wanted(place[0] if len(place) == 2 else None, given)
    content = text
    if text == "-":
        content = decode_leniently(sys.stdin.buffer.read(_MAX_TEXT_BYTES + 1)).text
    if not content.strip():
        raise UsageError("there is nothing to send")
    if len(content.encode()) > _MAX_TEXT_BYTES:
        raise UsageError("that is over 512 KiB; put it into a file and name the file")
    _send(wanted, SendText(agent=agent, text=content, wake=wake), f"send this to {agent} of")


@click.command("interrupt", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option(
    "--keep-commands", is_flag=True, help="Let the commands that it runs in the background go on."
)
@all_projects_option
@yes_option
def interrupt(
    run: str | None, agent: str | None, *, keep_commands: bool, **given: OptionValue
) -> None:
    """Stop the running turn of one agent, or of all.

    Its commands end too. The agent stays and accepts further input. Without AGENT nothing else of
    the run begins either, and it ends when nobody works; `swarm resume` continues it.

    \b
    Example:
      swarm interrupt 4f21c0aa /root/scout
    """
    run, agent = split_agent(run, agent)
    request = InterruptAgent(agent=agent or "", keep_commands=keep_commands)
    _send(take_run_wanted(run, given), request, f"interrupt {agent or 'all turns'} of")


@click.command("kill", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@all_projects_option
@yes_option
def kill(run: str | None, agent: str | None, **given: OptionValue) -> None:
    """End an agent and all below it, or the whole run.

    \b
    Example:
      swarm kill 4f21c0aa /root/scout
    """
    run, agent = split_agent(run, agent)
    wanted, what = take_run_wanted(run, given), f"{agent} of " if agent else ""
    if wanted.run is None and not (wanted.yes or can_ask()):
        raise UsageError("name the run to end, or say --yes for the one of this project")
    here = choose_run_to_change(wanted, f"end {what}")
    try:
        click.echo(
            send_request_for_message(here.folder.name, KillAgent(agent=agent or "")), err=True
        )
    except RunSilent as error:
        if agent:
            raise
        click.echo(f"{error}; its process is ended", err=True)
        click.echo(end_silent_run(here), err=True)


@click.command("end", cls=ColorCommand)
@click.argument("run", required=False)
@all_projects_option
@yes_option
def end(run: str | None, **given: OptionValue) -> None:
    """End a run that stays open, in order, with its last answer.

    A run at work ends when its work is done.

    \b
    Example:
      swarm end 4f21c0aa
    """
    _send(take_run_wanted(run, given), EndRun(), "end")


@click.command("set", cls=ColorCommand)
@click.argument("words", nargs=-1, metavar="[RUN] AGENT")
@click.option("-m", "--model", help="Another model, as NAME or PROVIDER:NAME; '' for the default.")
@click.option("--provider", metavar="ID", help="Another provider of the run; '' for its own.")
@click.option("--effort", help="Effort: none, minimal, low, medium, high, xhigh, max; or ''.")
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
@all_projects_option
@yes_option
def set_agent_settings(words: tuple[str, ...], *, widen: bool, **given: OptionValue) -> None:
    """Change the model, effort or rights of an agent of a live run.

    It counts from the next turn on. Without --widen rights can only be taken away. AGENT is a path
    (/root/scout) or its last step.

    \b
    Example:
      swarm set 4f21c0aa root --effort high --sandbox read-only
      swarm set 4f21c0aa root --sandbox workspace-write --widen
    """
    if not 1 <= len(words) <= 2:
        raise UsageError("say whose settings change: swarm set [RUN] AGENT")
    agent, wanted = words[-1], take_run_wanted(words[0] if len(words) == 2 else None, given)
    if all(value is None for value in given.values()):
        raise UsageError("say what is to change: swarm set --help")
    if widen:
        rights = ", ".join(
            f"{name} {given[name]}" for name in ("sandbox", "approval") if given[name]
        )
        if not rights:
            raise UsageError("--widen needs --sandbox or --approval")
        confirm(f"Give {agent} {rights}?", yes=wanted.yes)
    changes = {"type": "change_settings", "agent": agent, "widen": widen, **given}
    _send(wanted, msgspec.convert(changes, ChangeSettings), f"change settings of {agent} of")


@click.command("pause", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@all_projects_option
@yes_option
def pause(run: str | None, agent: str | None, **given: OptionValue) -> None:
    """Pause one agent of a live run, or all: no further requests.

    What already runs is finished; the run's deadline keeps running.

    \b
    Example:
      swarm pause 4f21c0aa
    """
    run, agent = split_agent(run, agent)
    what = f"pause {agent or 'all agents'} of"
    _send(take_run_wanted(run, given), PauseAgent(agent=agent or ""), what)


@click.command("continue", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@all_projects_option
@yes_option
def continue_agent(run: str | None, agent: str | None, **given: OptionValue) -> None:
    """Continue a paused agent, or the whole run.

    \b
    Example:
      swarm continue 4f21c0aa
    """
    run, agent = split_agent(run, agent)
    what = f"continue {agent or 'all agents'} of"
    _send(take_run_wanted(run, given), ContinueAgent(agent=agent or ""), what)


@click.command("compact", cls=ColorCommand)
@click.argument("run", required=False)
@click.argument("agent", required=False)
@click.option("--undo", is_flag=True, help="Put back what the last compaction took.")
@all_projects_option
@yes_option
def compact(run: str | None, agent: str | None, *, undo: bool, **given: OptionValue) -> None:
    """Shorten the history of an agent of a live run.

    Without AGENT: the root's. It is done before the agent's next request. What a compaction took
    can be put back as long as it fits the model's window.

    \b
    Example:
      swarm compact 4f21c0aa /root/scout
    """
    run, agent = split_agent(run, agent)
    what = f"shorten the history of {agent or ROOT_PATH} of"
    _send(take_run_wanted(run, given), CompactAgent(agent=agent or "", undo=undo), what)
