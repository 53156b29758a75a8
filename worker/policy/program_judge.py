"""Judges the programs of a command as it would find them outside of the sandbox."""

from collections.abc import Mapping

from swarm.mailbox.base.held_programs import (
    FoundProgram,
    Lookup,
    UnheldProgram,
    find_program,
    why_unheld,
)
from swarm.mailbox.base.writable_places import WritablePlaces

from .command_facts import WhyUnheld


class ProgramJudge:
    """For commands in one folder, with the variables that they would get outside."""

    def __init__(self, environment: Mapping[str, str], folder: str, places: WritablePlaces) -> None:
        self._lookup = Lookup(environment.get("PATH", ""), folder, places)
        self._home = why_unheld(environment.get("HOME") or "/", places)

    def find(self, name: str) -> FoundProgram:
        """What the name stands for."""
        return find_program(name, self._lookup)

    def why(self, name: str) -> str:
        """Why an agent could exchange it, or what it reads at its start; "" if none could.

        What is missing cannot be started.
        """
        return self.why_of(self.find(name))

    def why_of(self, found: FoundProgram) -> str:
        """The same for what was found."""
        if isinstance(found, UnheldProgram):
            return found.reason if found.path else ""
        return f"settings are read from the home folder, and {self._home}" if self._home else ""


def judge_in(environment: Mapping[str, str], folder: str, places: WritablePlaces) -> WhyUnheld:
    """As `gather_facts` asks for it."""
    return ProgramJudge(environment, folder, places).why
