"""Trust in a project: the question before a run, and `swarm trust`.

A yes covers exactly what was shown. Without a terminal nobody is asked, and what is not trusted is
left out.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from swarm.mailbox.base.errors import UsageError
from swarm.roles.config.layers.config_loader import read_layers
from swarm.roles.config.layers.merge import merge_layers
from swarm.roles.config.layers.project_config import (
    ProjectFolder,
    project_root_markers,
    read_project_folders,
)
from swarm.roles.config.layers.trust import forget_trust_decisions, read_trust, save_trust_decision

from ....base.safe_text import exact_line
from ....runs.paths import find_user_paths
from ...console.terminal import is_ci, is_terminal
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns
from ..run_setup.run_settings import find_cwd
from ..run_setup.task_file import Task, read_task
from ..run_setup.task_trust import describe_task, find_widening_tasks, task_as_project
from ..run_setup.task_widening import Widening
from ..run_setup.trust_summary import describe_file_count, describe_projects


def ask_project_trust(folders: Sequence[ProjectFolder]) -> bool | None:
    """Show what these folders would do and ask; None if no answer came. For terminals only."""
    click.echo(
        f"swarm: this project brings configuration that you have not trusted "
        f"({describe_file_count(folders)}):\n",
        err=True,
    )
    store = read_trust(find_user_paths(dict(os.environ)).config)
    for line in describe_projects(folders, store):
        click.echo(line, err=True)
    click.echo(
        "\nWithout trust the run starts without it. A change of these files is asked about again.",
        err=True,
    )
    return click.confirm("Trust exactly this?", default=False, err=True)


def ask_task_trust(task: Task, found: Sequence[Widening]) -> bool | None:
    """Show a task file and what it widens, and ask. For terminals only."""
    click.echo("swarm: this task file asks for more than your flags and configuration:\n", err=True)
    for one in found:
        text = exact_line(f"{one.key}: {one.wanted} (yours: {one.own})")
        click.echo(f"  ! {text}", err=True)
    for line in describe_task(task):
        click.echo(line, err=True)
    click.echo("\nA change of the file is asked about again.", err=True)
    return click.confirm("Trust exactly this file?", default=False, err=True)


@click.command("trust", cls=ColorCommand)
@click.argument("folder", required=False, metavar="[DIR|TASK]")
@click.option("--revoke", is_flag=True, help="Forget the decisions about DIR and all below it.")
@click.option("-y", "--yes", is_flag=True, help="Trust without a question; for scripts.")
@click.option("--list", "as_list", is_flag=True, help="All folders that were decided about.")
def trust(folder: str | None, *, revoke: bool, yes: bool, as_list: bool) -> None:
    """Trust a project's own configuration, rules and roles as they are now.

    DIR is a folder of the project (default: this one). All of `.swarm` from the project's root
    down to DIR is shown, and the task files in DIR that could widen a run; TASK is one task file.
    A later change of any of it is asked about again.

    \b
    Examples:
      swarm trust
      swarm trust task.md
      swarm trust ~/work/parser --revoke
    """
    if sum((revoke, yes, as_list)) > 1:
        raise UsageError("give one of --revoke, --yes and --list")
    places = find_user_paths(dict(os.environ))
    if as_list:
        _list(places.config)
    elif revoke:
        _revoke(places.config, Path(folder or ".").absolute())
    elif folder is not None and Path(folder).is_file():
        _trust_tasks(places.config, [read_task(folder, prompt=None, read_stdin=bytes)], yes=yes)
    else:
        _trust(places.config, places.system, find_cwd(folder), yes=yes)


def _trust(config_folder: Path, system: Sequence[Path], cwd: Path, *, yes: bool) -> None:
    below = merge_layers(read_layers(config_folder=config_folder, system_folders=system)).values
    found = read_project_folders(cwd, project_root_markers(below), config_folder=config_folder)
    folders = [one for one in found if one.asks_for_trust]
    for link in (link for one in found if not one.asks_for_trust for link in one.left_out):
        click.echo(exact_line(link), err=True)
    tasks = find_widening_tasks(cwd)
    if not folders and not tasks:
        click.echo(f"{cwd}: there is nothing to trust: no .swarm with configuration", err=True)
        return
    if tasks:
        _trust_tasks(config_folder, tasks, yes=yes)
    if not folders:
        return
    if problems := [one.problem for one in folders if one.problem]:
        raise UsageError(f"this cannot be trusted: {problems[0]}")
    store = read_trust(config_folder)
    new = [one for one in folders if store.trust_state(one) != "trusted"]
    for line in describe_projects(new, store):
        click.echo(line)
    if not new:
        click.echo(f"{cwd}: trusted already ({describe_file_count(folders)})")
    elif yes or _confirmed():
        save_trust_decision(config_folder, new, trusted=True)
        click.echo(f"trusted: {describe_file_count(new)}")
    else:
        save_trust_decision(config_folder, new, trusted=False)
        click.echo("not trusted: runs here go without it")


def _trust_tasks(config_folder: Path, tasks: Sequence[Task], *, yes: bool) -> None:
    store = read_trust(config_folder)
    new = [one for one in tasks if store.trust_state(task_as_project(one)) != "trusted"]
    for task in new:
        for line in describe_task(task):
            click.echo(line)
    count = f"{len(new or tasks)} task file{'' if len(new or tasks) == 1 else 's'}"
    if not new:
        click.echo(f"trusted already: {count}")
        return
    agreed = yes or _confirmed()
    save_trust_decision(config_folder, [task_as_project(one) for one in new], trusted=agreed)
    click.echo(f"trusted: {count}" if agreed else "not trusted: they widen nothing")


def _confirmed() -> bool:
    if is_ci(os.environ) or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageError("nobody can be asked here; look at what is shown, then use --yes")
    return click.confirm("Trust exactly this?", default=False, err=True)


def _revoke(config_folder: Path, folder: Path) -> None:
    gone = forget_trust_decisions(config_folder, folder)
    for name in gone:
        click.echo(f"forgotten: {name}")
    if not gone:
        click.echo(f"{folder}: nothing was said about it", err=True)


def _list(config_folder: Path) -> None:
    store = read_trust(config_folder)
    if store.problem:
        raise UsageError(store.problem)
    rows = [
        (name, f"{len(seen.trusted)} trusted", f"{len(seen.declined)} declined")
        for name, seen in sorted(store.folders.items())
    ]
    print_columns(("FOLDER", "CONTENTS", ""), rows)
