"""`swarm name` and `swarm archive`: what people say of runs."""

import os

import click
import msgspec

from swarm.mailbox.ids import short_id

from ..about import read_about
from ..label import check_name, read_label, write_label
from ..places import find_places, find_run, run_places
from .asking import find_any
from .doors import DoorCommand


@click.command("name", cls=DoorCommand)
@click.argument("run")
@click.argument("name", required=False)
def name(run: str, name: str | None) -> None:
    """Give a run a name, or take it away.

    A run, alive or not, can be meant by its name wherever an id is asked for. Without NAME it has
    none any more.

    \b
    Example:
      swarm name 4f21c0aa "parser rewrite"
    """
    here = find_any(run)
    read_about(here)
    wanted = check_name(name or "")
    write_label(here, msgspec.structs.replace(read_label(here), name=wanted))
    said = f"is called {wanted!r}" if wanted else "has no name"
    click.echo(f"{short_id(here.folder.name)} {said}", err=True)


@click.command("archive", cls=DoorCommand)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--undo", is_flag=True, help="Bring them back into the list.")
def archive(runs: tuple[str, ...], *, undo: bool) -> None:
    """Put runs away: they stay, and are left out of lists.

    `swarm ps --all` shows them, `swarm prune` leaves them alone.

    \b
    Example:
      swarm archive 4f21c0aa
    """
    places = find_places(dict(os.environ))
    for run_id in [find_run(places, wanted) for wanted in runs]:
        here = run_places(places, run_id)
        read_about(here)
        write_label(here, msgspec.structs.replace(read_label(here), archived=not undo))
        click.echo(f"{'back in the list' if undo else 'put away'}: {short_id(run_id)}", err=True)
