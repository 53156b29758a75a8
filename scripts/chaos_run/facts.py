"""What is known when a play is over: the journal, and what the world outside of it shows."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from model import served_numbers
from person import Person
from plot import Play
from stage import Stage

from swarm.mailbox.protocol.records import Record
from swarm.supervisor.journal.reading import read_records


class Start(NamedTuple):
    """One start of the command: how it ended, and what could excuse another end than 0."""

    code: int
    said: str  # stderr
    lost: bool = False  # it was killed by us
    filled: bool = False  # the disk was full for a while
    ended: bool = False  # it was asked to end, by a signal
    left: tuple[str, ...] = ()  # processes that outlived it by seconds


class Facts(NamedTuple):
    """All that the checks look at."""

    play: Play
    max_agents: int
    records: tuple[Record, ...]
    effects: tuple[str, ...] = ()  # call ids, as the commands themselves wrote them
    outside: tuple[str, ...] = ()  # likewise, of commands outside of the sandbox
    said: Mapping[tuple[str, str], bool] = {}  # approval id and its words → the person's answer
    words: Mapping[str, str] = {}  # a person's words that were taken → for whom
    served: int = 0  # answers that the model server sent whole
    starts: tuple[Start, ...] = ()
    left_files: tuple[str, ...] = ()
    in_time: bool = True
    vanished: str = ""  # the run's folder, if it was deleted in mid-run: then nothing else is left


def gather(stage: Stage, play: Play, max_agents: int, person: Person) -> Facts:
    """Read everything that is on the disk."""
    return Facts(
        play=play,
        max_agents=max_agents,
        records=tuple(read_records(stage.places)) if stage.run_id else (),
        effects=_lines(stage.work / "effects"),
        outside=_lines(stage.folder / "outside"),
        said=dict(person.said),
        words=dict(person.words),
        served=len(list(served_numbers(stage.served))),
        left_files=tuple(stage.leftovers()),
    )


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text().split()) if path.exists() else ()
