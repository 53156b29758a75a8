"""State that survives every compaction: the plan, the changed files and the agents.

It is read from the history's items, so it is the same after a restart, and one JSON text carries it
unchanged over any number of compactions. Items do not show the files that commands changed; the
supervisor supplies those. Pure.
"""

import os.path
import re
from collections.abc import Iterable, Sequence

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.base.call_arguments import decode_call_arguments
from swarm.mailbox.contents.context_markers import STATE_END, STATE_START
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
from swarm.mailbox.protocol.values.base import Value

from ...tools.update_plan import UpdatePlanArguments

MAX_FILES = 1_000  # beyond this the oldest are only counted
_PLAN_TOOL = "update_plan"
_CHANGED = re.compile(
    r"^(?:Success\. Updated the following files:|Applied before this failure, and still in place:)"
    r"\n((?:[AMD] .+(?:\n|\Z))+)",
    re.MULTILINE,
)


class PinnedState(Value):
    """Plan, changed files and agents.

    `changed_files` are `A path`, `M path` or `D path`, from patches and from the supervisor;
    `perhaps_changed` may be changes by agents that worked at the same time.
    """

    plan: tuple[PlanStep, ...] = ()
    changed_files: tuple[str, ...] = ()
    more_changed_files: int = 0  # the oldest, no longer listed
    perhaps_changed: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()


_decode_state = depth_checked(msgspec.json.Decoder(PinnedState).decode)


def collect_state(
    items: Iterable[AnyItem],
    *,
    agents: Sequence[str] = (),
    seen: ChangesReply | None = None,
    cwd: str = "/",
) -> PinnedState:
    """Collect the state from the items, including the `PinnedState` of an earlier compaction.

    Args:
        items: The history.
        agents: The agent's children, as its model is told of them.
        seen: The changes that the supervisor saw; None: not requested, or unknown.
        cwd: The base of relative paths.
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
    """Return the state in an item of an earlier compaction."""
    if not isinstance(item, Message) or item.role != "user":
        return None
    for part in item.content:
        if isinstance(part, InputText) and part.text.startswith(STATE_START):
            try:
                return _decode_state(part.text[len(STATE_START) : -len(STATE_END)])
            except msgspec.DecodeError:
                return None  # a person's input that happens to begin like it
    return None


def state_text(state: PinnedState) -> str:
    """Return the state as the model reads it; "" if it is empty."""
    return "" if state == PinnedState() else state_block(state)


def state_block(state: PinnedState) -> str:
    """Return the state as the model reads it, even if it is empty."""
    text = msgspec.json.format(msgspec.json.encode(state), indent=1).decode()
    return f"{STATE_START}\n{text}\n{STATE_END}"


def _plan_of(call: FunctionCall) -> tuple[PlanStep, ...]:
    try:
        arguments = decode_call_arguments(call.arguments, UpdatePlanArguments)
    except (msgspec.DecodeError, UnicodeError):
        return ()  # the tool refused it too
    return tuple(PlanStep(step=one.step, status=one.status) for one in arguments.plan)


def _absolute(path: str, cwd: str) -> str:
    return os.path.normpath(os.path.join(cwd, path))  # noqa: PTH118  a text, no file


def _note_change(letters: dict[str, str], letter: str, path: str) -> None:
    """A new file stays new when it is modified; the latest change stands last."""
    before = letters.pop(path, "")
    letters[path] = "A" if (before, letter) == ("A", "M") else letter
