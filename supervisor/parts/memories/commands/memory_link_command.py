"""`swarm memory link`: one set of memories for two folders, because the person says so."""

import os

import click

from swarm.mailbox.base.errors import UsageError

from ....base.safe_text import clean_line
from ....clients.cli.run_setup.run_settings import find_cwd
from ....runs.paths import find_user_paths
from ..memory_context import forget_path, remember_path
from ..memory_database import using_database
from ..memory_facts import GLOBAL
from ..memory_paths import MemoryPaths, find_project
from ..memory_store import MemoryStore
from .memory_access import WAIT_S


@click.command("link")
@click.argument("folder", required=False)
@click.option("-C", "--cd", "cd", metavar="DIR", help="The clone; default: here.")
@click.option("--off", is_flag=True, help="The clone has memories of its own again.")
def link(folder: str | None, *, cd: str | None, off: bool) -> None:
    """Let this folder, say another clone, share the memories of FOLDER.

    \b
    Example:
      swarm memory link ~/work/project
    """
    if off == (folder is not None):
        raise UsageError("name the folder whose memories are shared, or give --off")
    paths = MemoryPaths(find_user_paths(dict(os.environ)))
    own, top = find_project(str(find_cwd(cd)))
    with paths.writing(wait_s=WAIT_S), using_database(paths.database) as base:
        store = MemoryStore(base)
        if folder is None:
            store.unlink(top)
            forget_path(paths.folder, top)
            click.echo(clean_line(f"{top} has memories of its own"), err=True)
            return
        key, home = find_project(str(find_cwd(folder)))
        project = store.project_at(home) or key
        if home == top or project in (GLOBAL, own):
            raise UsageError(f"{clean_line(home)} and {clean_line(top)} have the same memories")
        if store.project_at(home) is None:
            store.settle(home, project)
        store.settle(top, project)
        store.know_path(top, project)
        remember_path(paths.folder, top, project)
    click.echo(clean_line(f"{top} shares the memories of {home}"), err=True)
