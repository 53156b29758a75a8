"""Which run a command means: the one that is named, else the newest of this folder's project.

A command that was given no run says which one it means, and asks on a terminal before it changes
anything.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.values.base import Value

from ....base.number_format import render_age
from ....base.safe_text import clean_line
from ....runs.client_errors import RunNotAlive
from ....runs.paths import RunPaths, UserPaths, find_run, find_user_paths, paths_of_run
from ....runs.project_runs import project_of, runs_of_project
from ....runs.run_metadata import is_run_alive, read_metadata
from ..run_setup.click_values import OptionValue
from .confirmation import can_ask, confirm
from .printing import say

_MOST_SHOWN = 9

all_projects_option = click.option(
    "--all-projects", is_flag=True, help="Without RUN: the newest run of all projects."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


class RunWanted(Value):
    """What a command was given to find its run."""

    run: str | None = None
    all_projects: bool = False
    yes: bool = False


def take_run_wanted(run: str | None, given: dict[str, OptionValue]) -> RunWanted:
    """Remove the options of this module from a command's other options."""
    return RunWanted(
        run=run, all_projects=given.pop("all_projects", False), yes=given.pop("yes", False)
    )


def choose_run(wanted: RunWanted) -> RunPaths:
    """The run to look at. Raises UsageError if there is none."""
    places = find_user_paths(dict(os.environ))
    if wanted.run is not None:
        return paths_of_run(places, find_run(places, wanted.run))
    found = next(_runs(places, wanted), None)
    if found is None:
        raise _no_run(places, wanted)
    _say(found)
    return found


def choose_live_run(wanted: RunWanted) -> RunPaths:
    """The run to ask or steer. On a terminal a person chooses among several.

    Raises UsageError if several fit and nobody can choose, RunNotAlive if none is alive.
    """
    if wanted.run is not None:
        here = choose_run(wanted)
        if not is_run_alive(here):
            raise RunNotAlive(here.folder.name)
        return here
    places = find_user_paths(dict(os.environ))
    live = [one for one in _runs(places, wanted) if is_run_alive(one)]
    if len(live) == 1:
        _say(live[0])
        return live[0]
    if live:
        return _pick(live)
    newest = next(_runs(places, wanted), None)
    raise _no_run(places, wanted) if newest is None else RunNotAlive(newest.folder.name)


def choose_run_to_change(wanted: RunWanted, what: str, *, live: bool = True) -> RunPaths:
    """The run to change. One that was not named is asked about on a terminal.

    Args:
        wanted: What the command was given.
        what: The change in words: `send a message to`.
        live: It must be alive.
    """
    here = choose_live_run(wanted) if live else choose_run(wanted)
    if wanted.run is None and can_ask():
        confirm(f"{what[:1].upper()}{what[1:]} run {_describe(here)}?", yes=wanted.yes)
    return here


def split_agent(run: str | None, agent: str | None) -> tuple[str | None, str | None]:
    """A single word that is an agent's path is the agent: `swarm interrupt /root/scout`."""
    if agent is None and run is not None and run.startswith("/"):
        return None, run
    return run, agent


def _runs(places: UserPaths, wanted: RunWanted) -> Iterator[RunPaths]:
    """The runs that may be meant, newest first."""
    here = None if wanted.all_projects else project_of(_present_folder())
    return (run_paths for run_paths, _ in runs_of_project(places, here))


def _present_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError("the current folder is gone; name the run") from error


def _no_run(places: UserPaths, wanted: RunWanted) -> UsageError:
    find_run(places, None)  # raises if there is none at all
    where = "" if wanted.all_projects else f" in {project_of(_present_folder())}"
    return UsageError(
        f"there is no run{where}; `swarm ps` lists all, --all-projects means the newest of them"
    )


def _describe(here: RunPaths) -> str:
    about = read_metadata(here)
    age = render_age(time.time() - about.started)
    return clean_line(f"{short_id(about.run_id)} ({age}, in {about.cwd}: {about.title})")


def _say(here: RunPaths) -> None:
    say(f"run {_describe(here)}")


def _pick(live: list[RunPaths]) -> RunPaths:
    shown = live[:_MOST_SHOWN]
    lines = [f"{number}  {_describe(one)}" for number, one in enumerate(shown, start=1)]
    listed = "\n".join(f"  {line}" for line in lines)
    if not can_ask():
        raise UsageError(f"{len(live)} runs of this project are alive; name one:\n{listed}")
    say(f"{len(live)} runs of this project are alive:\n{listed}")
    number: int = click.prompt("Which", type=click.IntRange(1, len(shown)), err=True)
    return shown[number - 1]
