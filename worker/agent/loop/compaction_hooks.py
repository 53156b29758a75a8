"""Hooks around a compaction: before it, when they may hold it back, and after it."""

from typing import Literal

from swarm.mailbox.protocol.events import Warned

from ...parts.hooks.session_hooks import CompactionTrigger
from ..state.agent_state import AgentState

_TRIGGERS: dict[str, CompactionTrigger] = {"person": "manual"}


async def is_held_back(
    state: AgentState, turn_id: str, trigger: Literal["limit", "overflow", "person"]
) -> bool:
    """Ask PreCompact hooks. True: the history stays as it is for now, and people are told why.

    A history that the provider refused as too long is compacted whatever they say.
    """
    reason = await state.hooks.before_compaction(_TRIGGERS.get(trigger, "auto"), turn_id)
    if reason is None:
        return False
    if trigger == "overflow":
        said = "a hook holds back a compaction that the provider forces; it is done: "
    else:
        said = "a hook held back the compaction: "
    state.reporter.emit(Warned(message=f"{said}{reason}"))
    return trigger != "overflow"


async def tell_hooks(
    state: AgentState, turn_id: str, trigger: Literal["limit", "overflow", "person"], summary: str
) -> None:
    """Tell PostCompact hooks, with the model's summary; "" if there is none that can be read."""
    await state.hooks.after_compaction(_TRIGGERS.get(trigger, "auto"), summary, turn_id)
