"""Thinking on the Messages wire: how a block is kept as an item, and how much of it is asked for.

A server signs its blocks and wants them back unchanged, so a `Reasoning` item holds the text as it
came and a seal: kind, model and signature. A seal of another wire or another model opens to None:
such a block would only be refused. Pure.
"""

from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.items import Reasoning
from swarm.mailbox.protocol.sampling import ModelInfo

SEAL = "messages."
LEAST_BUDGET = 1_024  # tokens; a smaller one is refused
_ANSWER_TOKENS = 4_096  # left for what is said after thinking
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {
    "minimal": LEAST_BUDGET, "low": 4_096, "medium": 12_288, "high": 24_576, "xhigh": 49_152,
    "max": 98_304,
}  # fmt: skip


class Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """A block as the wire has it."""

    thinking: str
    signature: str


class RedactedThinking(msgspec.Struct, tag_field="type", tag="redacted_thinking"):
    """A block that only its server can read."""

    data: str


def seal_block(block: Thinking | RedactedThinking, *, slug: str, item_id: str) -> Reasoning:
    """The block as an item of the history."""
    match block:
        case Thinking(thinking=text, signature=signature):
            sealed = f"{SEAL}thinking;{slug};{signature}"
            return Reasoning(content=(text,) if text else (), encrypted_content=sealed, id=item_id)
        case RedactedThinking(data=data):
            return Reasoning(encrypted_content=f"{SEAL}redacted;{slug};{data}", id=item_id)


def unseal_block(item: Reasoning, *, slug: str) -> Thinking | RedactedThinking | None:
    """The very block that was kept; None where it is not this model's."""
    sealed = item.encrypted_content or ""
    kind, _, rest = sealed.removeprefix(SEAL).partition(";")
    owner, _, data = rest.partition(";")
    if not sealed.startswith(SEAL) or owner != slug or not data:
        return None
    if kind == "redacted":
        return RedactedThinking(data=data)
    return Thinking(thinking="".join(item.content), signature=data)


class ThinkingParameters(NamedTuple):
    """What a request says about thinking; None: the field is left out."""

    thinking: dict[str, str | int] | None = None
    effort: str | None = None


def thinking_parameters(
    model: ModelInfo, effort: str | None, *, max_tokens: int, shown: bool = True
) -> ThinkingParameters:
    """An effort in the words of the model's own kind of thinking (`ModelInfo.thinking`).

    `shown` False: its text need not be sent, only what the server wants back.
    """
    if not model.reasoning:
        return ThinkingParameters()
    wanted = effort or model.default_effort
    match model.thinking:
        case "adaptive" if wanted == "none":
            return ThinkingParameters(thinking={"type": "disabled"})
        case "adaptive" | "always":
            display = "summarized" if shown else "omitted"
            asked: dict[str, str | int] = {"type": "adaptive", "display": display}
            return ThinkingParameters(thinking=asked, effort=nearest_effort(wanted, model.efforts))
        case "budget" if wanted != "none":
            room = max_tokens - _ANSWER_TOKENS
            budget = min(_BUDGETS.get(wanted or "", _BUDGETS["medium"]), room)
            if budget >= LEAST_BUDGET:
                return ThinkingParameters(thinking={"type": "enabled", "budget_tokens": budget})
            return ThinkingParameters()
        case _:
            return ThinkingParameters()


def nearest_effort(wanted: str | None, known: tuple[str, ...]) -> str | None:
    """The wanted effort, else the next lower one that the model knows, else its lowest."""
    if wanted is None or wanted not in _EFFORTS or not known:
        return None
    ranked = sorted((one for one in known if one in _EFFORTS), key=_EFFORTS.index)
    lower = [one for one in ranked if _EFFORTS.index(one) <= _EFFORTS.index(wanted)]
    chosen = lower[-1:] or ranked[:1]
    return chosen[0] if chosen else None
