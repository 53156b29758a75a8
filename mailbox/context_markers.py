"""How the harness marks what it puts into a conversation in the role of the user.

Rule guarded: one list says what such a piece begins with, for those who write it, for those who
shorten a history, and for those who look for a person's own words. Pure.
"""

from .protocol.items import AnyItem, InputText, Message

ENVIRONMENT_START, ENVIRONMENT_END = "<environment_context>", "</environment_context>"
ABORTED_START, ABORTED_END = "<turn_aborted>", "</turn_aborted>"
GUIDANCE_START = "# AGENTS.md instructions for "
SUMMARY_START, SUMMARY_END = "<compacted_history>", "</compacted_history>"
STATE_START, STATE_END = "<kept_state>", "</kept_state>"
CONTEXT_STARTS = (
    ENVIRONMENT_START,
    ABORTED_START,
    GUIDANCE_START,
    SUMMARY_START,
    STATE_START,
    "<user_instructions>",
    "<skill>",
    "<permissions instructions>",
)


def is_harness_message(item: AnyItem) -> bool:
    """True for a message in the role of the user of which any part is the harness's."""
    return (
        isinstance(item, Message)
        and item.role == "user"
        and any(
            isinstance(part, InputText) and part.text.startswith(CONTEXT_STARTS)
            for part in item.content
        )
    )


def is_person_message(item: AnyItem) -> bool:
    """True for a message in the role of the user that is nothing of the harness's."""
    return isinstance(item, Message) and item.role == "user" and not is_harness_message(item)
