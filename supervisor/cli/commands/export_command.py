"""`swarm export`: a run as one redacted archive."""

import os
from pathlib import Path

import click

from ...console.number_format import render_bytes
from ..control_client import resolve_run
from ..lazy_commands import ColorCommand


@click.command("export", cls=ColorCommand)
@click.argument("run")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
def export(run: str, file: Path, *, force: bool) -> None:
    """Write a run's records into a redacted archive (.tar.gz).

    Its journal and settings go in, each line without what is or looks like a secret; also values
    of today's environment whose names say so. Copies of files and images stay at home. What agents
    read of your project is in the journal: look before you pass it on.

    \b
    Example:
      swarm export 4f21c0aa run.tar.gz
    """
    from swarm.mailbox.redact import Redactor

    from ...runs.run_export import export_run, secret_values

    redactor = Redactor(secret_values(os.environ))
    done = export_run(resolve_run(run), file, redactor=redactor, force=force)
    click.echo(
        f"{file}: {done.files} files, {done.lines} lines, {render_bytes(done.size_bytes)}; "
        f"secrets hidden in {done.redacted} lines",
        err=True,
    )
