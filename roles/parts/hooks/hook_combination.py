"""Which hooks run for an event, and how their answers are combined. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache

from swarm.mailbox.protocol.hooks import Hook, HookEvent
from swarm.mailbox.protocol.values.base import Value

from .hook_output import CALL_GATES, GATES, HookOpinion

_MAX_NAME = 200  # characters of a name that a matcher looks at
UNASKED = "a hook that guards this could not be asked: {}"
_STOPS = frozenset({"Stop", "SubagentStop"})
FAILED_CLOSED = 'a hook failed, and its table says on_failure = "deny": {}'


class HookVerdict(Value):
    """What the hooks of one event want together; texts are in the order of the configuration."""

    denied: str | None = None  # the reason
    asks: str | None = None  # the reason; "" if it gave none
    allowed_by: str = ""  # id of the first hook that allowed it; "" = none did
    updated_input: dict[str, object] | None = None
    updated_by: str = ""  # id of the hook whose input counts
    stopped: str | None = None  # the turn ends; the reason, "" if none was given
    feedback: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    continuations: tuple[tuple[str, str], ...] = ()  # (hook id, prompt)
    unasked: tuple[tuple[str, str], ...] = ()  # (hook id, why): of turns that would end


def matching_hooks(
    hooks: Sequence[Hook], event: HookEvent, names: Sequence[str] = ()
) -> tuple[Hook, ...]:
    """The hooks of this event whose matcher is found in one of the names; each once."""
    return tuple(
        hook
        for hook in hooks
        if hook.event == event
        and (not hook.matcher or any(_search(hook.matcher, name[:_MAX_NAME]) for name in names))
    )


@lru_cache(maxsize=512)
def _search(pattern: str, name: str) -> bool:
    return re.search(pattern, name) is not None


def combine(opinions: Sequence[tuple[Hook, HookOpinion]]) -> HookVerdict:
    """Any denial wins, then any question, then any permission; a stop wins over everything else."""
    denied: str | None = None
    asks: str | None = None
    stopped: str | None = None
    allowed_by = updated_by = ""
    updated: dict[str, object] | None = None
    for hook, opinion in opinions:
        if opinion.status == "failed":
            denied = denied if denied is not None else _closed(hook, opinion)
            if opinion.unasked and hook.event in CALL_GATES and asks is None:
                asks = UNASKED.format(opinion.message)
            continue
        if opinion.decision == "deny" and denied is None:
            denied = opinion.reason
        if opinion.decision == "ask" and asks is None:
            asks = opinion.reason
        if opinion.decision == "allow" and not allowed_by:
            allowed_by = hook.hook_id
        if opinion.stops and stopped is None:
            stopped = opinion.reason
        if opinion.updated_input is not None:
            updated, updated_by = opinion.updated_input, hook.hook_id
    fine = [(hook, opinion) for hook, opinion in opinions if opinion.status != "failed"]
    return HookVerdict(
        denied=denied,
        asks=None if denied is not None else asks,
        allowed_by="" if denied is not None or asks is not None else allowed_by,
        updated_input=None if denied is not None else updated,
        updated_by=updated_by,
        stopped=stopped,
        feedback=tuple(one.reason for _, one in fine if one.decision == "feedback"),
        contexts=tuple(one.context for _, one in fine if one.context),
        continuations=tuple(
            (hook.hook_id, one.reason) for hook, one in fine if one.decision == "continue"
        ),
        unasked=_unasked_stops(opinions),
    )


def _unasked_stops(opinions: Sequence[tuple[Hook, HookOpinion]]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (hook.hook_id, UNASKED.format(one.message))
        for hook, one in opinions
        if one.unasked and hook.event in _STOPS
    )


def _closed(hook: Hook, opinion: HookOpinion) -> str | None:
    """Why a hook that failed denies what it guards; None: it does not."""
    if hook.fails_closed:
        return FAILED_CLOSED.format(opinion.message)
    if opinion.unasked and hook.event in GATES - CALL_GATES:  # nobody could be asked instead
        return UNASKED.format(opinion.message)
    return None
