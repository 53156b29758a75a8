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

    It has the journal and settings. What is or looks like a secret is removed from each line, also
    the values of present variables whose names suggest a secret. Copies of files and images are not
    included. The journal has what agents read of your project: check it before you pass it on.

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
