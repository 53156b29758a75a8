"""Which sampling fields a request carries: what its wire has, and no server has refused.

What is left out is said once for each model, with the reason.
"""

import re

import msgspec

from swarm.mailbox.protocol.sampling import ModelInfo, Wire
from swarm.mailbox.protocol.settings import SamplingSettings

from .backend import Failure

_CHAT = frozenset(SamplingSettings.__struct_fields__)
_FIELDS: dict[Wire, frozenset[str]] = {
    "responses": frozenset({"temperature", "top_p"}),
    "messages": frozenset({"temperature", "top_p", "top_k"}),
    "chat": _CHAT,
    "local": _CHAT,
    "scripted": frozenset(),
}
_REFUSALS = frozenset({400, 422})


def _given(sampling: SamplingSettings) -> tuple[str, ...]:
    """The names of the fields that are set."""
    return tuple(key for key in sampling.__struct_fields__ if getattr(sampling, key) is not None)


class SamplingFields:
    """The fields that servers refused; one object for all conversations of a gateway."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], frozenset[str]] = {}
        self._told: set[tuple[str, str, str]] = set()

    def accepted(self, model: ModelInfo, wanted: SamplingSettings) -> SamplingSettings:
        """The wanted values without those that this model's wire or server does not take."""
        if wanted == SamplingSettings():
            return wanted
        refused = self._refused.get((model.provider, model.slug), frozenset())
        left_out = {name for name in _given(wanted) if name not in _FIELDS[model.wire] - refused}
        return msgspec.structs.replace(wanted, **dict.fromkeys(left_out))

    def refuse(self, model: ModelInfo, failure: Failure, sent: SamplingSettings) -> bool:
        """Note the fields that the failure names; False if it names none that was sent."""
        if failure.http_status not in _REFUSALS:
            return False
        named = {name for name in _given(sent) if re.search(rf"\b{name}\b", failure.message)}
        key = (model.provider, model.slug)
        self._refused[key] = self._refused.get(key, frozenset()) | named
        return bool(named)

    def take_notices(self, model: ModelInfo, wanted: SamplingSettings) -> tuple[str, ...]:
        """What to say of the wanted fields that are left out; each is said once."""
        kept = _given(self.accepted(model, wanted))
        if model.wire == "scripted":
            return ()
        left_out = [name for name in _given(wanted) if name not in kept]
        new = [one for one in left_out if (model.provider, model.slug, one) not in self._told]
        self._told |= {(model.provider, model.slug, one) for one in new}
        if not new:
            return ()
        names = ", ".join(f"`{name}`" for name in new)
        return (f"{model.provider} {model.slug} does not take {names}: left out of its requests",)
