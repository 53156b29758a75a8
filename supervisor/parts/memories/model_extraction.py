"""Asks a model what a run taught, and takes of its answer only what the run's journal bears out.

The caller brings the call of the model.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.protocol.values.base import Value

from .bare_command import bare_command
from .fact_gate import FactGate, clean_place
from .memory_facts import MAX_FACT_CHARS, Fact, make_fact, one_line
from .run_evidence import RunEvidence

_PROMPT = (Path(__file__).parent / "extract_prompt.md").read_text("utf-8").strip()
_REWORD = (Path(__file__).parent / "consolidate_prompt.md").read_text("utf-8").strip()
_MOST_FACTS = 24
_MOST_SAID_CHARS, _MOST_COMMAND_CHARS, _MOST_RESULT_CHARS = 24_000, 16_000, 8_000
_MOST_SLUG_CHARS = 80


class Asked(Value):
    """A model's answer, and what it cost."""

    text: str = ""
    tokens: int = 0
    usd: float = 0.0
    failure: str = ""  # why there is no answer


Ask = Callable[[str, dict[str, object]], Asked]


class ExtractedFact(msgspec.Struct):
    kind: Literal["preference", "finding", "failure"]
    text: str
    place: str = ""
    quote: str = ""  # a person's words, for a preference


class Extracted(msgspec.Struct):
    title: str = ""
    summary: str = ""
    facts: list[ExtractedFact] = []


class Reworded(msgspec.Struct):
    """One fact that stands for others."""

    ids: list[str]
    text: str


class Consolidated(msgspec.Struct):
    facts: list[Reworded] = []


def extraction_prompt(evidence: RunEvidence) -> str:
    """What the model reads of a run: what was said, what ran, how it ended. No output of a call."""
    conversation = {
        "person": _fitting(evidence.said, _MOST_SAID_CHARS),
        "commands": _fitting(
            [
                f"{line} -> exit {one.exit_code}"
                for one in evidence.commands
                if (line := bare_command(one.script))
            ],
            _MOST_COMMAND_CHARS,
        ),
        "changed_files": list(evidence.changed[:200]),
        "findings": [f"{one.place}: {one.fact}" for one in evidence.findings[:64]],
        "answer": evidence.result[:_MOST_RESULT_CHARS],
        "ended": evidence.status,
    }
    return f"{_PROMPT}\n\n{json.dumps(conversation, ensure_ascii=False, indent=1)}"


def read_extraction(
    text: str, evidence: RunEvidence, project: str, gate: FactGate
) -> tuple[Extracted, tuple[Fact, ...]]:
    """The facts that hold, and the rest of the answer. Raises ValueError: it is no such answer."""
    answer = decode_json_as(text.encode(), Extracted)
    facts: dict[str, Fact] = {}
    for one in answer.facts[:_MOST_FACTS]:
        words = one_line(one.text)[:MAX_FACT_CHARS]
        if one.kind == "preference":
            if not gate.is_said(one.quote) or len(one.quote) < 8:
                continue
            words = one_line(one.quote)[:MAX_FACT_CHARS]
        elif not words or gate.why_not(words):
            continue
        place = clean_place(one.place)
        fact = make_fact(
            project, one.kind, words, place=place, run_id=evidence.run_id, now=evidence.updated_at
        )
        facts[fact.fact_id] = fact
    is_safe = not gate.why_not(answer.summary) and not gate.why_not(answer.title)
    kept = answer if is_safe else Extracted()
    return kept, tuple(facts.values())


def slug_of(title: str) -> str:
    return one_line(title)[:_MOST_SLUG_CHARS]


def consolidation_prompt(facts: tuple[Fact, ...]) -> str:
    """The facts of a project, for a model that merges what says the same."""
    lines = [{"id": one.fact_id, "kind": one.kind, "text": one.text} for one in facts]
    return f"{_REWORD}\n\n{json.dumps(lines, ensure_ascii=False, indent=0)}"


def read_consolidation(text: str, facts: tuple[Fact, ...]) -> tuple[Reworded, ...]:
    """Merges of known facts of one kind, whose new words hold nothing new.

    Raises ValueError: it is no such answer.
    """
    known = {one.fact_id: one for one in facts if not one.pinned}
    used: set[str] = set()
    kept: list[Reworded] = []
    for one in decode_json_as(text.encode(), Consolidated).facts:
        ids = [name for name in dict.fromkeys(one.ids) if name in known and name not in used]
        words = one_line(one.text)
        if len(ids) < 2 or len({known[name].kind for name in ids}) > 1:
            continue
        if not _only_known_words(words, [known[name].text for name in ids]):
            words = known[ids[0]].text
        used.update(ids)
        kept.append(Reworded(ids=ids, text=words))
    return tuple(kept)


def _only_known_words(words: str, sources: list[str]) -> bool:
    """True if a merged text adds almost nothing, so that no order and no command comes in."""
    known = set(" ".join(sources).casefold().split())
    new = [word for word in words.casefold().split() if word not in known]
    return 0 < len(words) <= MAX_FACT_CHARS and len(new) <= 2 and not any("`" in w for w in new)


def answer_schema(kind: type[Extracted] | type[Consolidated]) -> dict[str, object]:
    """The JSON schema of an answer, closed and with all keys required."""
    text: dict[str, object] = {"type": "string"}
    if kind is Extracted:
        fact = _closed(
            {
                "kind": {"type": "string", "enum": ["preference", "finding", "failure"]},
                "text": text,
                "place": text,
                "quote": text,
            }
        )
        return _closed({"title": text, "summary": text, "facts": {"type": "array", "items": fact}})
    merged = _closed({"ids": {"type": "array", "items": text}, "text": text})
    return _closed({"facts": {"type": "array", "items": merged}})


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _fitting(texts: list[str] | tuple[str, ...], most_chars: int) -> list[str]:
    """The first texts that fit; the last one may be cut."""
    kept: list[str] = []
    for text in texts:
        if most_chars <= 0:
            break
        kept.append(text[:most_chars])
        most_chars -= len(text)
    return kept
