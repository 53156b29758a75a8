"""What no compaction may lose: the plan, the files that were changed, and the agents that live.

Rule guarded: it is read from the items themselves, so that it is the same after a restart; and it
survives as one JSON text, exactly, over any number of compactions. What commands changed no item
tells: that comes from the supervisor. Pure.
"""

import os.path
import re
from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.context_markers import STATE_END, STATE_START
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
from swarm.mailbox.protocol.requests import ChangesReply

from ...tools.update_plan import UpdatePlanArguments

MAX_FILES = 1_000  # beyond, the oldest are only counted
_PLAN_TOOL = "update_plan"
_CHANGED = re.compile(
    r"^(?:Success\. Updated the following files:|Applied before this failure, and still in place:)"
    r"\n((?:[AMD] .+(?:\n|\Z))+)",
    re.MULTILINE,
)
_decode_plan = msgspec.json.Decoder(UpdatePlanArguments).decode


class PinnedState(Value):
    """`changed_files` are `A path`, `M path` or `D path`: as patches told them, and what else the
    supervisor saw; `perhaps_changed` may be the work of agents that worked at the same time.
    """

    plan: tuple[PlanStep, ...] = ()
    changed_files: tuple[str, ...] = ()
    more_changed_files: int = 0  # the oldest, no longer listed
    perhaps_changed: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


_decode_state = msgspec.json.Decoder(PinnedState).decode


def collect_state(
    items: Iterable[AnyItem],
    *,
    agents: Sequence[str] = (),
    seen: ChangesReply | None = None,
    cwd: str = "/",
) -> PinnedState:
    """What the items tell, an earlier compaction's `PinnedState` among them.

    Args:
        items: The history.
        agents: The agents below this one, as its model is told of them.
        seen: What the supervisor saw change; None: it was not asked, or could not tell.
        cwd: What relative paths are relative to.
    """
    state, letters = PinnedState(), dict[str, str]()
    for item in items:
        if (earlier := state_in_item(item)) is not None:
            state = earlier
            letters = {line[2:]: line[0] for line in earlier.changed_files}
        elif isinstance(item, FunctionCall) and item.name == _PLAN_TOOL:
            state = msgspec.structs.replace(state, plan=_plan_of(item) or state.plan)
        elif isinstance(item, AnyOutput):
            for found in _CHANGED.finditer(text_of(item.output)):
                for line in found[1].splitlines():
                    _note_change(letters, line[0], line[2:])
    perhaps, unlisted = state.perhaps_changed, 0
    if seen is not None:
        known = {_absolute(path, cwd) for path in letters}
        news = [line for line in seen.files if _absolute(line[2:], cwd) not in known]
        letters.update((line[2:], line[0]) for line in news)
        known |= {_absolute(line[2:], cwd) for line in news}
        perhaps = tuple(one for one in seen.perhaps if _absolute(one[2:], cwd) not in known)
        unlisted = seen.more
    listed = [f"{letter} {path}" for path, letter in letters.items()]
    over = max(0, len(listed) - MAX_FILES)
    return PinnedState(
        plan=state.plan,
        changed_files=tuple(listed[over:]),
        more_changed_files=max(state.more_changed_files, unlisted) + over,
        perhaps_changed=perhaps,
        agents=tuple(agents),
    )


def state_in_item(item: AnyItem) -> PinnedState | None:
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


def state_text(state: PinnedState) -> str:
    """The state as the model reads it; "" where there is nothing to tell."""
    return "" if state == PinnedState() else state_block(state)


def state_block(state: PinnedState) -> str:
    """The same, also where there is nothing to tell."""
    told = msgspec.json.format(msgspec.json.encode(state), indent=1).decode()
    return f"{STATE_START}\n{told}\n{STATE_END}"


def _plan_of(call: FunctionCall) -> tuple[PlanStep, ...]:
    try:
        arguments = _decode_plan(call.arguments)
    except (msgspec.DecodeError, UnicodeError):
        return ()  # the tool refused it too
    return tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118  a text, no file


def _note_change(letters: dict[str, str], letter: str, path: str) -> None:
    """What is new stays new when it is changed; the latest change stands last."""
    before = letters.pop(path, "")
    letters[path] = "A" if (before, letter) == ("A", "M") else letter
