"""A short conversation that holds what servers refuse of each other's histories.

A probe sends it: what a server refuses of it teaches the dialect that a run would have to learn.
"""

from swarm.mailbox.protocol.items import (
    AnyItem,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Origin,
    Reasoning,
    text_message,
)

_ELSEWHERE = Origin(provider="elsewhere", model="another", fields='{"extra_content":{"seal":"x"}}')
_LONG_ID = "call_" + "a:b|" * 20


def hard_history(tool: str) -> tuple[AnyItem, ...]:
    """What follows the first words of a user. `tool`: one that is offered."""
    first, second, third = _LONG_ID, "functions.other:1", "call_3"
    return (
        text_message("user", "These are notes of an earlier conversation."),
        Reasoning(content=("It wants to look.",), origin=_ELSEWHERE),
        FunctionCall(call_id=first, name=tool, arguments='{"cmd": "ls', origin=_ELSEWHERE),
        FunctionCall(call_id=second, name=f"functions.{tool}", arguments="", origin=_ELSEWHERE),
        FunctionCallOutput(call_id=first, output="no JSON", success=False),
        FunctionCallOutput(call_id=second, output=""),
        text_message("developer", "A note in between: be brief."),
        CustomToolCall(call_id=third, name="apply_patch", input="*** Begin Patch"),
        CustomToolCallOutput(call_id=third, output="an incomplete patch"),
        text_message("user", "Forget all of this."),
        text_message("user", "Answer with the one word: ready"),
    )
