"""What is known when a play is over: the journal, and what the world outside of it shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from chaos_model_server import served_numbers
from chaos_scenario import Scenario
from chaos_testbed import ChaosTestbed
from simulated_person import SimulatedPerson

from swarm.mailbox.protocol.records import Record
from swarm.supervisor.journal.journal_reader import read_records


class CommandStart(NamedTuple):
    """One start of the command: how it ended, and what could excuse another end than 0."""

    code: int
    stderr: str  # stderr
    was_killed: bool = False  # it was killed by us
    disk_was_full: bool = False  # the disk was full for a while
    ended: bool = False  # it was asked to end, by a signal
    left: tuple[str, ...] = ()  # processes that outlived it by seconds


class RunEvidence(NamedTuple):
    """All that the checks look at."""

    play: Scenario
    max_agents: int
    records: tuple[Record, ...]
    sandboxed_calls: tuple[str, ...] = ()  # call ids, as the commands themselves wrote them
    unsandboxed_calls: tuple[str, ...] = ()  # likewise, of commands outside of the sandbox
    # Approval id and its words → the person's answer.
    person_answers: Mapping[tuple[str, str], bool] = {}
    person_messages: Mapping[str, str] = {}  # a person's words that were taken → for whom
    served: int = 0  # answers that the model server sent whole
    starts: tuple[CommandStart, ...] = ()
    left_files: tuple[str, ...] = ()
    ended_in_time: bool = True
    vanished: str = ""  # the run's folder, if it was deleted in mid-run: then nothing else is left


def collect_evidence(
    stage: ChaosTestbed, play: Scenario, max_agents: int, person: SimulatedPerson
) -> RunEvidence:
    """Read everything that is on the disk."""
    return RunEvidence(
        play=play,
        max_agents=max_agents,
        records=tuple(read_records(stage.places)) if stage.run_id else (),
        sandboxed_calls=_lines(stage.work / "effects"),
        unsandboxed_calls=_lines(stage.folder / "outside"),
        person_answers=dict(person.answers),
        person_messages=dict(person.sent_messages),
        served=len(list(served_numbers(stage.served))),
        left_files=tuple(stage.leftovers()),
    )


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text().split()) if path.exists() else ()
