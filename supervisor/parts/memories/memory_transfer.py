"""Memories as one JSON file, to take them to another machine. Blocks.

An import adds: what both have is kept once, the newer output of a run counts, and what was
forgotten here stays forgotten.
"""

from collections.abc import Callable

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import is_run_id
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.written_text import read_written_json
from swarm.mailbox.protocol.values.base import Value

from .memory_facts import (
    FACT_ID,
    MAX_FACT_CHARS,
    PROJECT,
    Fact,
    Output,
    hide_secrets,
    make_fact,
    one_line,
)
from .memory_store import MemoryStore

MAX_BYTES = 64 << 20
_FORMAT = 1


class _Project(Value):
    project: str
    paths: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    runs: dict[str, tuple[str, ...]] = {}  # by fact
    outputs: tuple[Output, ...] = ()


class MemoryFile(Value):
    format: int
    projects: tuple[_Project, ...] = ()


class Imported(Value):
    facts: int = 0
    known: int = 0  # facts that were here already
    runs: int = 0
    refused: int = 0  # forgotten here, or with a secret


def export_memories(store: MemoryStore, projects: tuple[str, ...]) -> bytes:
    """All that is remembered of these projects, as JSON."""
    found = tuple(
        _Project(
            project=project,
            paths=store.paths_of(project),
            facts=(facts := store.facts.all(project)),
            runs={one.fact_id: store.facts.runs_of(one.fact_id) for one in facts},
            outputs=store.outputs(project),
        )
        for project in projects
    )
    return msgspec.json.format(msgspec.json.encode(MemoryFile(format=_FORMAT, projects=found)))


def import_memories(
    store: MemoryStore, data: bytes, *, redactor: Redactor, now: float
) -> tuple[Imported, tuple[str, ...]]:
    """Add what the file holds; returns the counts and the projects that changed.

    Raises UsageError: it is no such file.
    """
    file = read_written_json(data, "this is not a file of memories", MemoryFile)
    if file.format != _FORMAT:
        raise UsageError(f"this file has format {file.format}, and format {_FORMAT} is known here")

    if wrong := next((one for one in file.projects if not PROJECT.fullmatch(one.project)), None):
        raise UsageError(f"this is not a file of memories: {wrong.project[:40]!r} is not a project")

    def is_clean(text: str) -> bool:
        return redactor.redact(hide_secrets(text)) == text

    facts = known = runs = refused = 0
    for one in file.projects:
        for fact in one.facts:
            sound = _sound(fact, one.project, is_clean)
            learned = filter(is_run_id, one.runs.get(fact.fact_id, ()))
            is_known = sound is not None and store.facts.find(sound.fact_id) is not None
            if sound is None or not store.facts.add(sound, learned, now=now):
                refused += 1
            elif is_known:
                known += 1
            else:
                facts += 1
        for output in one.outputs:
            is_safe = is_clean(output.raw_memory + output.summary + output.slug)
            is_own = output.project == one.project and is_run_id(output.run_id)
            runs += is_safe and is_own and store.add_output(output, now=now)
    changed = tuple(one.project for one in file.projects)
    return Imported(facts=facts, known=known, runs=runs, refused=refused), changed


def _sound(fact: Fact, project: str, is_clean: Callable[[str], bool]) -> Fact | None:
    """The fact with an id of its own words; None: it is no fact, or holds a secret."""
    if not FACT_ID.fullmatch(fact.fact_id) or not 0 < len(fact.text) <= MAX_FACT_CHARS:
        return None
    made = make_fact(project, fact.kind, fact.text, place=fact.place)
    if not made.text or not is_clean(made.text + made.place):
        return None
    return msgspec.structs.replace(
        fact,
        fact_id=made.fact_id,
        project=project,
        text=made.text,
        place=made.place,
        stale=one_line(fact.stale)[:MAX_FACT_CHARS],
        run_id=fact.run_id if is_run_id(fact.run_id) else "",
    )
