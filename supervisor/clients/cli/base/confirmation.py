"""Asks a person before a command changes something; `--yes` answers for scripts."""

import os
import sys
from collections.abc import Sequence

import click

from swarm.mailbox.base.errors import SwarmError, UsageError

from ....base.safe_text import clean_line, exact_line
from ...console.terminal import is_ci, is_terminal


class NotConfirmed(SwarmError):
    """The person said no; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("nothing was changed")


def can_ask() -> bool:
    """True if a question can be seen and answered."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr) and not is_ci(os.environ)


def confirm(question: str, *, yes: bool, details: Sequence[str] = ()) -> None:
    """Return if the answer is yes.

    Raises NotConfirmed for a no, and UsageError where nobody can be asked.
    """
    if yes:
        return
    for line in details:
        click.echo(f"  {exact_line(line)}", err=True)
    if not can_ask():
        raise UsageError(f"{clean_line(question)} Nobody can be asked here; --yes says yes")
    if not click.confirm(clean_line(question), default=False, err=True):
        raise NotConfirmed
