"""Memories as Markdown files that a person can read and edit. Pure.

    memory_summary.md             what agents read at their start
    MEMORY.md                     all facts
    raw_memories.md               what each selected run gave, newest first
    rollout_summaries/STEM.md     one for each selected run

A fact is one line, `- text [m1234abcd]`, with its id at the end: a line that a person removes is
forgotten, one that is changed is that person's own from then on, and so is a new line.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from .memory_facts import Fact, FactKind, Output, one_line

SUMMARY, HANDBOOK, RAW = "memory_summary.md", "MEMORY.md", "raw_memories.md"
SUMMARIES = "rollout_summaries"
EDITED = (HANDBOOK, SUMMARY)  # whose edits count
_BYTES_PER_TOKEN = 4
_SLUG_CHARS = 60
_TITLES: tuple[tuple[FactKind, str], ...] = (
    ("preference", "What the person asked for"),
    ("note", "Notes of the person"),
    ("command", "Commands that worked"),
    ("failure", "What failed, and why"),
    ("finding", "What agents found"),
)
_LINE = re.compile(
    r"- (?P<text>.+?)(?P<marks>(?: \((?:pinned|stale: [^()]{0,1000}|see [^()]{0,1000})\)){0,8})"
    r" \[(?P<id>m[0-9a-f]{8})\]"
)
EMPTY = "Nothing is remembered yet."


class FileEdits(NamedTuple):
    """What a person changed in a file since it was written."""

    removed: tuple[str, ...]  # fact ids
    reworded: tuple[tuple[str, str], ...]  # fact id and new text
    added: tuple[str, ...]


def render_files(
    facts: Sequence[Fact],
    outputs: Sequence[Output],
    *,
    label: str,
    summary_tokens: int,
    home: str = "",
) -> dict[str, str]:
    """All files of one project by name. `facts`: the most important first.

    `home`: the project's folder; the summary is told to agents, and holds no more than that.
    """
    told = [fact for fact in facts if fact.is_told_in(home)]
    files = {
        HANDBOOK: _handbook(facts, label),
        SUMMARY: render_summary(told, label=label, tokens=summary_tokens),
        RAW: _raw_memories(outputs),
    }
    for output in outputs:
        files[f"{SUMMARIES}/{stem_of(output)}.md"] = _rollout(output)
    return files


def render_summary(facts: Sequence[Fact], *, label: str, tokens: int) -> str:
    """The facts that fit, without stale ones: pinned and much used ones first."""
    room = tokens * _BYTES_PER_TOKEN
    chosen: list[Fact] = []
    for fact in facts:
        cost = len(fact_line(fact).encode()) + 1
        if not fact.stale and cost <= room:
            chosen.append(fact)
            room -= cost
    left = sum(not fact.stale for fact in facts) - len(chosen)
    more = f"\n{left} more are found by recall_memories.\n" if left else ""
    body = _sections(chosen)
    return f"# What is remembered of {label}\n\n{body or EMPTY}\n{more}"


def fact_line(fact: Fact) -> str:
    marks = f" (see {fact.place})" if fact.place else ""
    marks += " (pinned)" if fact.pinned and not fact.by_person else ""
    marks += f" (stale: {_without_brackets(fact.stale)})" if fact.stale else ""
    return f"- {fact.text}{marks} [{fact.fact_id}]"


def find_edits(before: str, now: str) -> FileEdits:
    """Compare a file with what was written to it. Lines that are no facts count as new ones."""
    known = {
        found["id"]: found["text"] for found in map(_LINE.fullmatch, before.split("\n")) if found
    }
    old_lines = {line.strip() for line in before.split("\n")}
    seen: set[str] = set()
    reworded: list[tuple[str, str]] = []
    added: list[str] = []
    for line in now.split("\n"):
        found = _LINE.fullmatch(line.strip())
        if found is not None:  # ids are ours: a line with another one was written by us before
            seen.add(found["id"])
            if found["text"] != known.get(found["id"], found["text"]):
                reworded.append((found["id"], found["text"]))
        elif line.strip() and line.strip() not in old_lines and not line.lstrip().startswith("#"):
            added.append(one_line(line.strip().lstrip("-* ")))
    return FileEdits(
        removed=tuple(name for name in known if name not in seen),
        reworded=tuple(reworded),
        added=tuple(filter(None, added)),
    )


def stem_of(output: Output) -> str:
    """`2026-01-31T10-00-00-1a2b-slug`, as Codex names its summaries."""
    when = _time(output.updated_at).strftime("%Y-%m-%dT%H-%M-%S")
    slug = re.sub(r"[^a-z0-9]+", "_", output.slug.lower())[:_SLUG_CHARS].strip("_")
    return f"{when}-{output.run_id[-4:]}" + (f"-{slug}" if slug else "")


def _handbook(facts: Sequence[Fact], label: str) -> str:
    head = (
        f"# Memory of {label}\n\n"
        "Each line is one fact, with its id at the end. Change a line and it is yours, remove it\n"
        "and it is forgotten, add lines of your own: they stay as you wrote them.\n"
    )
    return f"{head}\n{_sections(facts) or EMPTY}\n"


def _sections(facts: Iterable[Fact]) -> str:
    listed = list(facts)
    parts: list[str] = []
    for kind, title in _TITLES:
        if lines := [fact_line(fact) for fact in listed if fact.kind == kind]:
            parts.append("\n".join((f"## {title}", *lines)))
    return "\n\n".join(parts)


def _raw_memories(outputs: Sequence[Output]) -> str:
    if not outputs:
        return "# Raw Memories\n\nNo raw memories yet.\n"
    parts = ["# Raw Memories\n\nThe latest run comes first."]
    for one in sorted(outputs, key=lambda one: (one.updated_at, one.run_id), reverse=True):
        head = (
            f"## Run `{one.run_id}`\nupdated_at: {_time(one.updated_at).isoformat()}\n"
            f"cwd: {one_line(one.cwd)}\nsummary_file: {SUMMARIES}/{stem_of(one)}.md"
        )
        parts.append(f"{head}\n\n{one.raw_memory.strip()}")
    return "\n\n".join(parts) + "\n"


def _rollout(output: Output) -> str:
    head = (
        f"run_id: {output.run_id}\nupdated_at: {_time(output.updated_at).isoformat()}\n"
        f"cwd: {one_line(output.cwd)}\nmethod: {output.method}"
    )
    return f"{head}\n\n{output.summary.strip()}\n"


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


def _without_brackets(text: str) -> str:
    return one_line(text.replace("(", " ").replace(")", " "))
