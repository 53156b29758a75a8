"""Thinking on the Messages wire: thinking blocks as items, and the thinking parameters. No I/O.

A server signs its blocks and requires them back unchanged. So a `Reasoning` item holds the text and
a seal: kind, model and signature. A seal of another wire or another model yields None, because the
server would refuse such a block.
"""

from typing import NamedTuple

import msgspec

from swarm.mailbox.protocol.items import Reasoning
from swarm.mailbox.protocol.sampling import ModelInfo

SEAL = "messages."
LEAST_BUDGET = 1_024  # tokens; servers refuse a smaller budget
_ANSWER_TOKENS = 4_096  # reserved for the answer after thinking
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_BUDGETS = {
    "minimal": LEAST_BUDGET, "low": 4_096, "medium": 12_288, "high": 24_576, "xhigh": 49_152,
    "max": 98_304,
}  # fmt: skip


class Thinking(msgspec.Struct, tag_field="type", tag="thinking"):
    """A thinking block of the wire."""

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
    """The original block; None if it is not this model's."""
    sealed = item.encrypted_content or ""
    kind, _, rest = sealed.removeprefix(SEAL).partition(";")
    owner, _, data = rest.partition(";")
    if not sealed.startswith(SEAL) or owner != slug or not data:
        return None
    if kind == "redacted":
        return RedactedThinking(data=data)
    return Thinking(thinking="".join(item.content), signature=data)


class ThinkingParameters(NamedTuple):
    """The thinking fields of a request; None: the field is left out."""

    thinking: dict[str, str | int] | None = None
    effort: str | None = None


def thinking_parameters(
    model: ModelInfo, effort: str | None, *, max_tokens: int, shown: bool = True
) -> ThinkingParameters:
    """Translate an effort for the model's kind of thinking (`ModelInfo.thinking`).

    `shown` False: the server need not send the text of the thinking, only what it requires back.
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
    """The wanted effort, else the next lower one that the model supports, else its lowest."""
    if wanted is None or wanted not in _EFFORTS or not known:
        return None
    ranked = sorted((one for one in known if one in _EFFORTS), key=_EFFORTS.index)
    lower = [one for one in ranked if _EFFORTS.index(one) <= _EFFORTS.index(wanted)]
    chosen = lower[-1:] or ranked[:1]
    return chosen[0] if chosen else None
