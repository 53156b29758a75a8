"""Markers of the messages that the harness adds to a conversation in the user role. No I/O.

This one list serves the code that writes such messages, the code that compacts a history, and the
code that looks for a person's own messages.
"""

import re

from ..protocol.items import AnyItem, InputText, Message
from ..protocol.ops import SkillInput

ENVIRONMENT_START, ENVIRONMENT_END = "<environment_context>", "</environment_context>"
ABORTED_START, ABORTED_END = "<turn_aborted>", "</turn_aborted>"
GUIDANCE_START = "# AGENTS.md instructions for "
SUMMARY_START, SUMMARY_END = "<compacted_history>", "</compacted_history>"
SPAWNED_START, SPAWNED_END = "<spawned_agent_context>", "</spawned_agent_context>"
STATE_START, STATE_END = "<kept_state>", "</kept_state>"
SKILL_START, SKILL_END = "<skill>", "</skill>"
# Parts of a developer message; never of a user's.
PERMISSIONS_START, PERMISSIONS_END = "<permissions instructions>", "</permissions instructions>"
MOVED_START, MOVED_END = "<folder_moved>", "</folder_moved>"
TEAM_START, TEAM_END = "<team>", "</team>"
MEMORIES_START, MEMORIES_END = "<memories>", "</memories>"
FINDINGS_START, FINDINGS_END = "<findings>", "</findings>"
SKILLS_START, SKILLS_END = "<skills_instructions>", "</skills_instructions>"
# The answers of a fan-out, and what stands between them and the task.
ANSWERS_START, ANSWERS_END = "Answers, one for each item:\n\n", "\n\n---\n\n"
OVERVIEW_START = "Files of the project in "  # what a small model is shown beside a task
CONTEXT_STARTS = (
    ENVIRONMENT_START,
    ABORTED_START,
    GUIDANCE_START,
    SUMMARY_START,
    STATE_START,
    SPAWNED_START,
    "<user_instructions>",
    SKILL_START,
    FINDINGS_START,
    PERMISSIONS_START,
    MOVED_START,
)

_BESIDE_A_TASK = (*CONTEXT_STARTS, OVERVIEW_START, "Output ")
_SHOWN_FILE = re.compile(r"\S+ holds:\n")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")

_UNLISTED = re.compile(r"- \((\d{1,9}) more are not listed, for lack of room\)")


def task_in(text: str) -> str:
    """The words of a person or of another agent in a user message; "" if it holds none of theirs.

    The answers of a fan-out before a task, files and outputs beside it are no words of theirs.
    """
    if text.startswith(_BESIDE_A_TASK) or _SHOWN_FILE.match(text) is not None:
        return ""
    return text.rpartition(ANSWERS_END)[2] if text.startswith(ANSWERS_START) else text


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without blanks around them; a line end ends one, too."""
    return [one for part in _SENTENCE_END.split(text) if (one := part.strip())]


def is_harness_message(item: AnyItem) -> bool:
    """True for a user message of which any part was written by the harness."""
    return (
        isinstance(item, Message)
        and item.role == "user"
        and any(
            isinstance(part, InputText) and part.text.startswith(CONTEXT_STARTS)
            for part in item.content
        )
    )


def is_person_message(item: AnyItem) -> bool:
    """True for a user message of which no part was written by the harness."""
    return isinstance(item, Message) and item.role == "user" and not is_harness_message(item)


def skill_block(skill: SkillInput) -> str:
    """What a model reads of a skill that was named."""
    head = f"<name>{skill.name}</name>\n<path>{skill.path}</path>"
    return f"{SKILL_START}\n{head}\n{skill.text}\n{SKILL_END}"


def unlisted_line(count: int) -> str:
    """The last line of a list of skills from which so many were left out."""
    return f"- ({count} more are not listed, for lack of room)"


def unlisted_count(line: str) -> int:
    """How many skills such a line speaks of; 0 for any other line."""
    found = _UNLISTED.fullmatch(line)
    return int(found[1]) if found else 0
