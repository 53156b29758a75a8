"""`swarm memory edit`, `export` and `import`: memories as files."""

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.held_programs import held_environment
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.safe_open import read_user_file
from swarm.roles.config.atomic_replace import replace_file

from ....base.own_editor import find_own_editor
from ....base.safe_text import clean_line
from ....clients.cli.base.lazy_commands import ColorCommand
from ....clients.console.terminal import is_terminal
from ....request.run_places import project_lookup
from ..memory_files import HANDBOOK
from ..memory_transfer import MAX_BYTES, export_memories, import_memories
from .memory_access import of_project, open_memories


@click.command("edit", cls=ColorCommand)
@of_project
def edit(*, cd: str | None, is_global: bool) -> None:
    """Open MEMORY.md in your editor: change, remove and add lines.

    \b
    Example:
      swarm memory edit
    """
    with open_memories(cd, is_global=is_global) as opened:
        path = opened.paths.project(opened.project) / HANDBOOK
        if not path.is_file():
            opened.rewrite()
    lookup = project_lookup(os.environ, str(Path.cwd()))
    environment = held_environment(os.environ, lookup)
    editor = find_own_editor(os.environ, lookup)
    if not editor and not is_terminal(sys.stdin):
        raise UsageError(
            f"there is no terminal for `vi`: set EDITOR to a program that needs none, or edit "
            f"{path}, which is a plain file"
        )
    editor = editor or "vi"
    try:
        subprocess.run(
            ["/bin/sh", "-c", f'{editor} "$1"', "sh", str(path)], check=True, env=environment
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(
            f"the editor `{clean_line(editor)}` failed ({_why(error)}); {path} is a plain file: "
            "edit it with another program, or set EDITOR"
        ) from error
    with open_memories(cd, is_global=is_global) as opened:
        click.echo(_count(len(opened.store.facts.all(opened.project)), "memories"), err=True)


@click.command("export", cls=ColorCommand)
@click.argument("file", required=False)
@click.option("--all-projects", is_flag=True, help="Memories of all projects.")
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@of_project
def export(
    file: str | None, *, all_projects: bool, force: bool, cd: str | None, is_global: bool
) -> None:
    """Write memories as JSON, to stdout or into FILE.

    \b
    Example:
      swarm memory export memories.json
    """
    if file is not None and os.path.lexists(file) and not force:
        raise UsageError(f"{file} exists; give another name, or --force")
    with open_memories(cd, is_global=is_global) as opened:
        projects = opened.store.projects() if all_projects else (opened.project,)
        data = export_memories(opened.store, projects)
    if file is None:
        click.echo(data.decode())
    else:
        replace_file(Path(file), data)
        click.echo(f"written: {clean_line(file)}", err=True)


@click.command("import", cls=ColorCommand)
@click.argument("file")
@of_project
def import_file(file: str, *, cd: str | None, is_global: bool) -> None:
    """Add the memories of a file that `export` wrote; nothing that is here is lost.

    \b
    Example:
      swarm memory import memories.json
    """
    try:
        data = read_user_file(file, most_bytes=MAX_BYTES)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    with open_memories(cd, is_global=is_global) as opened:
        done, projects = import_memories(opened.store, data, redactor=Redactor(()), now=time.time())
        for project in projects:
            opened._replace(project=project).rewrite()
    words = f"{_count(done.facts, 'memories')} and {_count(done.runs, 'runs')} added"
    known = f", {done.known} known here already" if done.known else ""
    click.echo(words + known + (f", {done.refused} refused" if done.refused else ""), err=True)


def _count(number: int, things: str) -> str:
    one = {"memories": "memory", "runs": "run"}[things]
    return f"{number} {one if number == 1 else things}"


def _why(error: OSError | subprocess.CalledProcessError) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return f"exit code {error.returncode}"
    return error.strerror or str(error)
