"""What no compaction may lose: the plan, the files that were changed, and the agents that live.

Rule guarded: it is read from the items themselves, so that it is the same after a restart; and it
survives as one JSON text, exactly, over any number of compactions. Pure.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.marks import STATE_END, STATE_START
from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.events import PlanStep
from swarm.mailbox.protocol.items import (
    AnyItem,
    AnyOutput,
    FunctionCall,
    InputText,
    Message,
    text_of,
)

from ..tools.update_plan import UpdatePlanArguments

MOST_FILES = 1_000  # beyond, the oldest are only counted
_PLAN_TOOL = "update_plan"
_CHANGED = re.compile(
    r"^(?:Success\. Updated the following files:|Applied before this failure, and still in place:)"
    r"\n((?:[AMD] .+(?:\n|\Z))+)",
    re.MULTILINE,
)
_decode_plan = msgspec.json.Decoder(UpdatePlanArguments).decode


class State(Value):
    """`changed_files` are `A path`, `M path` or `D path`, as patches told them."""

    plan: tuple[PlanStep, ...] = ()
    changed_files: tuple[str, ...] = ()
    more_changed_files: int = 0  # the oldest, no longer listed
    agents: tuple[str, ...] = ()


_decode_state = msgspec.json.Decoder(State).decode


def state_of(items: Iterable[AnyItem], *, agents: Sequence[str] = ()) -> State:
    """What the items tell, an earlier compaction's `State` among them.

    Args:
        items: The history.
        agents: The agents below this one, as its model is told of them.
    """
    state, letters = State(), dict[str, str]()
    for item in items:
        if (earlier := told_state(item)) is not None:
            state = earlier
            letters = {line[2:]: line[0] for line in earlier.changed_files}
        elif isinstance(item, FunctionCall) and item.name == _PLAN_TOOL:
            state = msgspec.structs.replace(state, plan=_plan_of(item) or state.plan)
        elif isinstance(item, AnyOutput):
            for found in _CHANGED.finditer(text_of(item.output)):
                for line in found[1].splitlines():
                    _note_change(letters, line[0], line[2:])
    listed = [f"{letter} {path}" for path, letter in letters.items()]
    over = max(0, len(listed) - MOST_FILES)
    return State(
        plan=state.plan,
        changed_files=tuple(listed[over:]),
        more_changed_files=state.more_changed_files + over,
        agents=tuple(agents),
    )


def told_state(item: AnyItem) -> State | None:
    """The state that an item of an earlier compaction holds."""
    if not isinstance(item, Message) or item.role != "user":
        return None
    for part in item.content:
        if isinstance(part, InputText) and part.text.startswith(STATE_START):
            try:
                return _decode_state(part.text[len(STATE_START) : -len(STATE_END)])
            except msgspec.DecodeError:
                return None  # a person's own words that happen to begin like it
    return None


def state_text(state: State) -> str:
    """The state as the model reads it; "" where there is nothing to tell."""
    return "" if state == State() else state_block(state)


def state_block(state: State) -> str:
    """The same, also where there is nothing to tell."""
    told = msgspec.json.format(msgspec.json.encode(state), indent=1).decode()
    return f"{STATE_START}\n{told}\n{STATE_END}"


def _plan_of(call: FunctionCall) -> tuple[PlanStep, ...]:
    try:
        arguments = _decode_plan(call.arguments)
    except (msgspec.DecodeError, UnicodeError):
        return ()  # the tool refused it too
    return tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)


def _note_change(letters: dict[str, str], letter: str, path: str) -> None:
    """What is new stays new when it is changed; the latest change stands last."""
    before = letters.pop(path, "")
    letters[path] = "A" if (before, letter) == ("A", "M") else letter
