"""What a run taught, found without a model: commands that worked and failed, and what a person
asked for.

Of outputs only the kind of an error is taken, by a table: their words may be anybody's.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from .bare_command import bare_command
from .fact_gate import FactGate, clean_place, reads_as_order
from .memory_facts import Fact, make_fact, one_line
from .memory_rules import load_memory_rules
from .run_evidence import RanCommand, RunEvidence

_MOST_SENTENCE_CHARS = 300
_MOST_EACH = 40  # facts of one kind and run
_WRAPPERS = frozenset(
    ["time", "env", "nice", "uv", "poetry", "pipenv", "npx", "bundle", "run", "exec"]
)
_WISH = re.compile(
    r"(?:please )?(?:always|never|prefer|use|do not|don't|avoid|from now on|remember|we)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class _Purposeful(NamedTuple):
    """A command that is worth keeping."""

    line: str
    purpose: str
    ran: RanCommand


def extract_facts(evidence: RunEvidence, project: str, gate: FactGate) -> tuple[Fact, ...]:
    """The facts of one run, the surest first."""

    commands = _with_purpose(evidence.commands)

    def facts() -> Iterator[Fact]:
        at, run_id = evidence.updated_at, evidence.run_id
        for text in _wishes(evidence):
            yield make_fact(project, "preference", text, run_id=run_id, now=at)
        for text in _working(commands):
            yield make_fact(project, "command", text, run_id=run_id, now=at)
        for text in _failing(commands):
            yield make_fact(project, "failure", text, run_id=run_id, now=at)
        for found in evidence.findings[:_MOST_EACH]:
            if not gate.why_not(found.fact):
                yield make_fact(
                    project,
                    "finding",
                    found.fact,
                    place=clean_place(found.place),
                    run_id=run_id,
                    now=at,
                )

    return tuple({fact.fact_id: fact for fact in facts()}.values())


def purpose_of(script: str) -> str:
    """What a command is for, by its first words; "" if it is not worth keeping."""
    words = bare_command(script).split()
    while words and (words[0] in _WRAPPERS or re.fullmatch(r"\w+=\S*", words[0])):
        words = words[1:]
    plain = " ".join(words)
    table = load_memory_rules().purposes
    return next((purpose for pattern, purpose in table if pattern.match(plain)), "")


def _wishes(evidence: RunEvidence) -> Iterator[str]:
    """Sentences of a person that tell how they want things done, as they are."""
    count = 0
    for text in evidence.said:
        for part in _SENTENCE.split(text):
            sentence = one_line(part).strip("-*# ")
            if not 12 <= len(sentence) <= _MOST_SENTENCE_CHARS or not _WISH.match(sentence):
                continue
            count += 1
            if count <= _MOST_EACH:
                yield sentence


def _with_purpose(commands: tuple[RanCommand, ...]) -> list[_Purposeful]:
    return [
        _Purposeful(line, purpose, one)
        for one in commands
        if (purpose := purpose_of(one.script))
        and not reads_as_order(line := bare_command(one.script))
    ]


def _working(commands: list[_Purposeful]) -> Iterator[str]:
    """Commands whose last try succeeded."""
    last = {one.line: one for one in commands}
    found = [one for one in last.values() if one.ran.exit_code == 0]
    for one in found[-_MOST_EACH:]:
        yield f"`{one.line}` {one.purpose} and succeeded."


def _failing(commands: list[_Purposeful]) -> Iterator[str]:
    """Commands that failed, and the one for the same purpose that worked later."""
    count = 0
    for at, one in enumerate(commands):
        if one.ran.exit_code == 0 or not (why := _error_of(one.ran.output)):
            continue
        later = (two for two in commands[at + 1 :] if two.ran.exit_code == 0)
        worked = next((two for two in later if two.purpose == one.purpose), None)
        count += 1
        if count > _MOST_EACH:
            return
        if worked is None:
            yield f"`{one.line}` failed: {why}."
        elif worked.line != one.line:
            yield f"`{one.line}` failed: {why}; `{worked.line}` worked instead."


def _error_of(output: str) -> str:
    for pattern, words in load_memory_rules().errors:
        if (found := pattern.search(output)) is not None:
            told = words.format(*found.groups())
            return "" if any(map(reads_as_order, found.groups())) else told
    return ""
