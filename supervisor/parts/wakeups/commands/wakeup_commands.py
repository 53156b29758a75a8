"""`swarm wakeups list|cancel`: what a live run waits for, and taking it back."""

import click
import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.wakeups.wakeup_messages import CancelWakeUps

from ....clients.cli.base.control_client import fetch_run_view, send_request_for_message
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.cli.base.printing import print_columns, print_json
from ....clients.cli.base.run_choice import (
    all_projects_option,
    choose_live_run,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ....clients.cli.run_setup.click_values import OptionValue
from ..wakeup_rules import written


@click.group("wakeups")
def wakeups() -> None:
    """Show what the agents of a live run wait for without a process, and take it back.

    \b
    Example:
      swarm wakeups list
    """


@wakeups.command("list", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a wake-up.")
@all_projects_option
@yes_option
def list_wakeups(run: str | None, *, as_json: bool, **given: OptionValue) -> None:
    """The wake-ups of a live run that have not fired. Without RUN: the run of this project.

    \b
    Example:
      swarm wakeups list 4f21c0aa
    """
    here = choose_live_run(take_run_wanted(run, given))
    view = trio.run(fetch_run_view, here)
    if as_json:
        for one in view.parts.wake_ups:
            print_json(msgspec.to_builtins(one))
        return
    if not view.parts.wake_ups:
        click.echo("swarm: no agent of this run waits for a wake-up", err=True)
        return
    rows = [
        (
            str(one.number),
            one.agent or "(all)",
            one.cause,
            "-" if one.due_unix_s is None else written(one.due_unix_s),
            written(one.made_unix_s),
            one.why,
        )
        for one in view.parts.wake_ups
    ]
    print_columns(("NO", "AGENT", "BY", "DUE", "SINCE", "WHY"), rows, fits=True)


@wakeups.command("cancel", cls=ColorCommand)
@click.argument("words", nargs=-1, metavar="[RUN] NUMBER|all")
@all_projects_option
@yes_option
def cancel(words: tuple[str, ...], **given: OptionValue) -> None:
    """Take back a wake-up of a live run, or all of them.

    After `all` its agents cannot ask for others. A run that waits for nothing else ends.

    \b
    Example:
      swarm wakeups cancel 4f21c0aa 3
    """
    if not 1 <= len(words) <= 2:
        raise UsageError("say which wake-up: swarm wakeups cancel [RUN] NUMBER|all")
    *run, number = words
    if number != "all" and not (number.isascii() and number.isdigit() and int(number) > 0):
        raise UsageError(f"{number!r} is no number of a wake-up; `swarm wakeups list` shows them")
    wanted = take_run_wanted(run[0] if run else None, given)
    here = choose_run_to_change(wanted, f"take back wake-up {number} of")
    request = CancelWakeUps(number=0 if number == "all" else int(number))
    click.echo(send_request_for_message(here.folder.name, request), err=True)
