"""A command of the person's that runs outside of every sandbox, beside a run's agents."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.held_programs import held_environment
from swarm.roles.base.started_programs import find_started, why_started_unheld

from .run_places import program_lookup
from .run_request import RunRequest


class HeldCommand(NamedTuple):
    """A person's command that no agent could have exchanged, as it is started."""

    argv: tuple[str, ...]
    environment: dict[str, str]


class PersonsCommand:
    """Its program is looked for anew before each start."""

    def __init__(self, argv: Sequence[str], request: RunRequest) -> None:
        self._argv = tuple(argv)
        self._request = request

    def find(self) -> HeldCommand | str:
        """Look each time; where agents could have exchanged it, why it is not started."""
        lookup = program_lookup(self._request, cwd=str(Path.cwd()))
        program = find_started(self._argv, lookup)
        if why := why_started_unheld(program, lookup):
            return f"it was not started: {why}"
        environment = held_environment(self._request.environment, lookup)
        return HeldCommand((program.path, *self._argv[1:]), environment)
