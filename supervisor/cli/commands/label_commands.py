"""`swarm name` and `swarm archive`: people's labels of runs."""

import os

import click
import msgspec

from swarm.mailbox.ids import short_id

from ...runs.paths import find_run, find_user_paths, paths_of_run
from ...runs.run_label import check_run_name, read_label, write_label
from ...runs.run_metadata import read_metadata
from ..control_client import resolve_run
from ..lazy_commands import ColorCommand


@click.command("name", cls=ColorCommand)
@click.argument("run")
@click.argument("name", required=False)
def name(run: str, name: str | None) -> None:
    """Give a run a name, or take it away.

    Every command that takes a run's id also takes its name. Without NAME the name is removed.

    \b
    Example:
      swarm name 4f21c0aa "parser rewrite"
    """
    here = resolve_run(run)
    read_metadata(here)
    wanted = check_run_name(name or "")
    write_label(here, msgspec.structs.replace(read_label(here), name=wanted))
    said = f"is called {wanted!r}" if wanted else "has no name"
    click.echo(f"{short_id(here.folder.name)} {said}", err=True)


@click.command("archive", cls=ColorCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--undo", is_flag=True, help="Bring them back into the list.")
def archive(runs: tuple[str, ...], *, undo: bool) -> None:
    """Put runs away: they stay, and are left out of lists.

    `swarm ps --all` shows them, `swarm prune` leaves them alone.

    \b
    Example:
      swarm archive 4f21c0aa
    """
    places = find_user_paths(dict(os.environ))
    for run_id in [find_run(places, wanted) for wanted in runs]:
        here = paths_of_run(places, run_id)
        read_metadata(here)
        write_label(here, msgspec.structs.replace(read_label(here), archived=not undo))
        click.echo(f"{'back in the list' if undo else 'put away'}: {short_id(run_id)}", err=True)
