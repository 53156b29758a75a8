"""The play: a tree of agents, and what the model says next to each. Pure; the seed decides all.

The rule it guards: an answer follows from the conversation alone. So the model server may die, be
asked twice or be asked by another life of the agent: it goes on where the history stands, it never
asks for a command again, and it asks again for what must be done and was not.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

Kind = Literal["run", "escalate", "spawn", "send", "ask_again", "wait", "count", "count_again"]
MOST_TRIES = 60  # of a planned call that must succeed; then the agent gives up and says so
MANY_COMMANDS = 70  # more than one agent may run at once
_MANY_IN = 0.15  # of all plays
_COUNTING_IN = 0.6  # of all plays
_ITEMS = "ijklm"
_GAVE_UP = "gave up: "
_ATTEMPT = re.compile(r"(_try\d+)?(_\d+)?$")
_SPAWNED_OR_NEVER = ("task_name", "already exists", "can ever come free")


class PlannedCall(NamedTuple):
    """One call of the play. `about` is a command's pause, or the path that it is about."""

    name: str  # unique in the run; the call id, with the number of the try
    kind: Kind
    subject: str = ""
    awaited_text: str = ""  # for a wait: what must have been answered
    allowed: bool = True  # for an escalation: what the person says


class AgentScript(NamedTuple):
    """What one agent does: scenes of acts of planned_calls. Each scene ends with an answer."""

    path: str
    children: tuple[str, ...]
    turns: tuple[tuple[tuple[PlannedCall, ...], ...], ...]
    is_item: bool = False  # of a fan-out: the harness starts it, and again when it was cut off


class ToolCall(NamedTuple):
    call_id: str
    tool: str
    arguments: dict[str, object]


class ModelReply(NamedTuple):
    """What the model says: calls, or the last words of a turn."""

    calls: tuple[ToolCall, ...] = ()
    text: str = ""


class Conversation(NamedTuple):
    """A conversation as a request shows it."""

    path: str
    outputs: Mapping[str, str | None]  # call id → output; None: not there yet
    model_text: str  # all that the model said in it
    input_text: str  # all that came to it besides
    attempt_id: str = ""  # tells an attempt at an item from another


Scenario = Mapping[str, AgentScript]


def make_scenario(seed: str) -> Scenario:
    """A root with two to four children, some of which have children of their own."""
    lots = random.Random(seed)
    shape: dict[str, list[str]] = {"/root": []}
    for path in _add_children("/root", lots.randint(2, 4), shape):
        if lots.random() < 0.6:
            for _ in _add_children(path, lots.randint(1, 3), shape):
                pass
    parts = {path: _make_script(path, children, lots) for path, children in shape.items()}
    _add_many_commands(parts, random.Random(f"{seed} many"))
    _add_mcp_calls(parts, random.Random(f"{seed} mcp"))
    for name in _ITEMS[: lots.choice((0, 0, 0, 2, 5))]:
        path = f"/root/{name}"
        pauses = [f"{lots.choice((0, 0.3, 1))}" for _ in range(lots.randint(1, 2))]
        acts = tuple((PlannedCall(f"root-{name}-{n}-run", "run", p),) for n, p in enumerate(pauses))
        parts[path] = AgentScript(path, (), (acts,), is_item=True)
    return parts


def _add_many_commands(parts: dict[str, AgentScript], lots: random.Random) -> None:
    """In some plays one agent begins with more commands than it may run at once."""
    if lots.random() >= _MANY_IN:
        return
    path = lots.choice(sorted(parts))
    slug = path.strip("/").replace("/", "-")
    many = tuple(PlannedCall(f"{slug}-m{n}-run", "run", "0.1") for n in range(MANY_COMMANDS))
    first, *further = parts[path].turns
    parts[path] = parts[path]._replace(turns=((many, *first), *further))


def _add_mcp_calls(parts: dict[str, AgentScript], lots: random.Random) -> None:
    """In most plays the agents call a tool of one MCP server, between their other acts."""
    if lots.random() >= _COUNTING_IN:
        return
    for path in sorted(parts):
        slug = path.strip("/").replace("/", "-")
        first, *further = parts[path].turns
        acts = list(first)
        for number in range(lots.randint(1, 4)):
            kind: Kind = lots.choice(("count", "count", "count_again"))
            calls = tuple(
                PlannedCall(
                    f"{slug}-c{number}{at}-{kind}", kind, f"{lots.choice((0, 0.1, 0.5, 1.5))}"
                )
                for at in range(lots.randint(1, 3))
            )
            acts.insert(lots.randint(0, len(acts)), calls)
        parts[path] = parts[path]._replace(turns=(tuple(acts), *further))


def _add_children(parent: str, count: int, shape: dict[str, list[str]]) -> Iterator[str]:
    for number in range(count):
        path = f"{parent}/{'abcdefg'[number]}"
        shape[parent].append(path)
        shape[path] = []
        yield path


def _make_script(path: str, children: list[str], lots: random.Random) -> AgentScript:
    slug = path.strip("/").replace("/", "-")
    numbers = iter(range(1_000))

    def planned(
        kind: Kind, about: str = "", said: str = "", *, allowed: bool = True
    ) -> PlannedCall:
        return PlannedCall(f"{slug}-{next(numbers)}-{kind}", kind, about, said, allowed)

    def work() -> list[tuple[PlannedCall, ...]]:
        acts: list[tuple[PlannedCall, ...]] = []
        for _ in range(lots.randint(1, 3)):
            pauses = [f"{lots.choice((0, 0, 0.1, 0.5, 1.5))}" for _ in range(lots.randint(1, 3))]
            acts.append(tuple(planned("run", pause) for pause in pauses))
        if lots.random() < 0.5:
            acts.append((planned("escalate", allowed=lots.random() < 0.7),))
        return acts

    acts = work()
    if children:
        acts.append(tuple(planned("spawn", child) for child in children))
        acts += work() if lots.random() < 0.5 else []
        acts += [(planned("wait", child, answer_text(child, 0)),) for child in children]
        asked = [child for child in children if lots.random() < 0.4]
        for child in asked:
            acts.append((planned("ask_again", child),))
            acts.append((planned("wait", child, answer_text(child, 1)),))
    elif lots.random() < 0.7:
        acts.append((planned("send", path.rpartition("/")[0]),))
    scenes = [tuple(acts)]
    if path != "/root":
        scenes.append(tuple(work()))
    return AgentScript(path, tuple(children), tuple(scenes))


def script_path(agent: str) -> str:
    """Whose part an agent plays: the item's, of any attempt at it (`/root/i_2`, `/root/i_try2`)."""
    return _ATTEMPT.sub("", agent)


def answer_text(path: str, scene: int) -> str:
    """The words that end a scene: nobody else says them."""
    return f"[[answer {path} {scene}]]"


def task_text(path: str) -> str:
    """The words that begin a part."""
    return f"[[part {path}]] Play your part."


def followup_text(path: str) -> str:
    """The words that ask for the second scene."""
    return f"[[again {path}]] Once more."


def next_reply(play: Scenario, heard: Conversation) -> ModelReply:
    """What the model says now."""
    part, last = play[heard.path], ""
    for number, scene in enumerate(part.turns):
        if answer_text(part.path, number) in heard.model_text:
            last = answer_text(part.path, number)
            continue
        if number and followup_text(part.path) not in heard.input_text:
            break
        for act in scene:
            own = [
                w._replace(name=f"{w.name}-{heard.attempt_id}") if part.is_item else w for w in act
            ]
            tries = [_next_try(planned, heard.outputs) for planned in own]
            due = [(planned, n) for planned, n in zip(own, tries, strict=True) if n is not None]
            if hopeless := [planned.name for planned, n in due if n >= MOST_TRIES]:
                return ModelReply(text=f"{_GAVE_UP}{', '.join(hopeless)}")
            if due:
                return ModelReply(calls=tuple(_call_for(planned, n) for planned, n in due))
        return ModelReply(text=f"{answer_text(part.path, number)} done.")
    return ModelReply(text=f"{last} as I said.")  # its stream may have been cut just behind it


def _next_try(planned: PlannedCall, outputs: Mapping[str, str | None]) -> int | None:
    """The number of the try that is due; None if none is."""
    last = None
    for number in range(MOST_TRIES):
        if call_id_of(planned, number) not in outputs:
            break
        last = number
    if last is None:
        return 0
    if planned.kind in ("run", "escalate", "send", "count", "count_again"):
        return None  # once, whatever came of it
    return None if _came_true(planned, outputs[call_id_of(planned, last)] or "") else last + 1


def _came_true(planned: PlannedCall, output: str) -> bool:
    match planned.kind:
        case "spawn":
            return any(words in output for words in _SPAWNED_OR_NEVER)
        case "wait":
            return _has_ended(planned, output)
        case _:
            return "interrupted" not in output and "abort" not in output


def _has_ended(planned: PlannedCall, output: str) -> bool:
    """The awaited answer is there; or the agent will never say it, which the checks look into."""
    if "not found" in output:
        return True  # it was never started
    try:
        finished = json.loads(output).get("finished", ())
    except (ValueError, AttributeError):
        return False
    return any(
        one["agent_name"] == planned.subject
        and (
            planned.awaited_text in (one["result"] or "")
            or one["end_state"] in ("crashed", "killed")
        )
        for one in finished
    )


def call_id_of(planned: PlannedCall, number: int) -> str:
    """The id of one try."""
    return f"{planned.name}-{number}" if number else planned.name


def _call_for(planned: PlannedCall, number: int) -> ToolCall:
    call_id = call_id_of(planned, number)
    match planned.kind:
        case "run":
            cmd = f"echo {call_id} >>effects; sleep {planned.subject}; echo did {call_id}"
            return ToolCall(call_id, "exec_command", {"cmd": cmd})
        case "escalate":
            arguments: dict[str, object] = {
                "cmd": f"echo {call_id} >>../outside; echo did {call_id}",
                "sandbox_permissions": "require_escalated",
                "justification": f"{'allow' if planned.allowed else 'deny'} {call_id}",
            }
            return ToolCall(call_id, "exec_command", arguments)
        case "count" | "count_again":
            counted: dict[str, object] = {"call": call_id, "pause": float(planned.subject)}
            return ToolCall(call_id, f"mcp__counter__{planned.kind}", counted)
        case "spawn":
            name = planned.subject.rpartition("/")[2]
            task = {"task_name": name, "message": task_text(planned.subject), "fork_turns": "none"}
            return ToolCall(call_id, "spawn_agent", {**task})
        case "send":
            words = {"target": planned.subject, "message": f"[[letter {call_id}]]"}
            return ToolCall(call_id, "send_message", {**words})
        case "ask_again":
            words = {"target": planned.subject, "message": followup_text(planned.subject)}
            return ToolCall(call_id, "followup_task", {**words})
        case "wait":
            waited = {"targets": [planned.subject], "for": "all", "timeout_ms": 60_000}
            return ToolCall(call_id, "wait_agent", {**waited})


def gave_up(text: str) -> bool:
    """True for the last words of an agent whose planned did not come true."""
    return text.startswith(_GAVE_UP)


def planned_calls(part: AgentScript) -> Iterator[PlannedCall]:
    """All that the part may ask for."""
    return (planned for scene in part.turns for act in scene for planned in act)
