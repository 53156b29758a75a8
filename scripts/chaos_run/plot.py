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

Kind = Literal["run", "escalate", "spawn", "send", "ask_again", "wait"]
MOST_TRIES = 60  # of one wish that must come true; then the agent gives up and says so
MANY_COMMANDS = 70  # more than one agent may run at once
_MANY_IN = 0.15  # of all plays
_ITEMS = "ijklm"
_GAVE_UP = "gave up: "
_ATTEMPT = re.compile(r"(_try\d+)?(_\d+)?$")
_SPAWNED_OR_NEVER = ("task_name", "already exists", "can ever come free")


class Wish(NamedTuple):
    """One call of the play. `about` is a command's pause, or the path that it is about."""

    name: str  # unique in the run; the call id, with the number of the try
    kind: Kind
    about: str = ""
    said: str = ""  # for a wait: what must have been answered
    allowed: bool = True  # for an escalation: what the person says


class Part(NamedTuple):
    """What one agent does: scenes of acts of wishes. Each scene ends with an answer."""

    path: str
    children: tuple[str, ...]
    scenes: tuple[tuple[tuple[Wish, ...], ...], ...]
    is_item: bool = False  # of a fan-out: the harness starts it, and again when it was cut off


class Call(NamedTuple):
    call_id: str
    tool: str
    arguments: dict[str, object]


class Line(NamedTuple):
    """What the model says: calls, or the last words of a turn."""

    calls: tuple[Call, ...] = ()
    text: str = ""


class Heard(NamedTuple):
    """A conversation as a request shows it."""

    path: str
    outputs: Mapping[str, str | None]  # call id → output; None: not there yet
    said: str  # all that the model said in it
    asked: str  # all that came to it besides
    who: str = ""  # tells an attempt at an item from another


Play = Mapping[str, Part]


def make_play(seed: str) -> Play:
    """A root with two to four children, some of which have children of their own."""
    lots = random.Random(seed)
    shape: dict[str, list[str]] = {"/root": []}
    for path in _grow("/root", lots.randint(2, 4), shape):
        if lots.random() < 0.6:
            for _ in _grow(path, lots.randint(1, 3), shape):
                pass
    parts = {path: _write_part(path, children, lots) for path, children in shape.items()}
    _crowd_one(parts, random.Random(f"{seed} many"))
    for name in _ITEMS[: lots.choice((0, 0, 0, 2, 5))]:
        path = f"/root/{name}"
        pauses = [f"{lots.choice((0, 0.3, 1))}" for _ in range(lots.randint(1, 2))]
        acts = tuple((Wish(f"root-{name}-{n}-run", "run", p),) for n, p in enumerate(pauses))
        parts[path] = Part(path, (), (acts,), is_item=True)
    return parts


def _crowd_one(parts: dict[str, Part], lots: random.Random) -> None:
    """In some plays one agent begins with more commands than it may run at once."""
    if lots.random() >= _MANY_IN:
        return
    path = lots.choice(sorted(parts))
    slug = path.strip("/").replace("/", "-")
    many = tuple(Wish(f"{slug}-m{n}-run", "run", "0.1") for n in range(MANY_COMMANDS))
    first, *further = parts[path].scenes
    parts[path] = parts[path]._replace(scenes=((many, *first), *further))


def _grow(parent: str, count: int, shape: dict[str, list[str]]) -> Iterator[str]:
    for number in range(count):
        path = f"{parent}/{'abcdefg'[number]}"
        shape[parent].append(path)
        shape[path] = []
        yield path


def _write_part(path: str, children: list[str], lots: random.Random) -> Part:
    slug = path.strip("/").replace("/", "-")
    numbers = iter(range(1_000))

    def wish(kind: Kind, about: str = "", said: str = "", *, allowed: bool = True) -> Wish:
        return Wish(f"{slug}-{next(numbers)}-{kind}", kind, about, said, allowed)

    def work() -> list[tuple[Wish, ...]]:
        acts: list[tuple[Wish, ...]] = []
        for _ in range(lots.randint(1, 3)):
            pauses = [f"{lots.choice((0, 0, 0.1, 0.5, 1.5))}" for _ in range(lots.randint(1, 3))]
            acts.append(tuple(wish("run", pause) for pause in pauses))
        if lots.random() < 0.5:
            acts.append((wish("escalate", allowed=lots.random() < 0.7),))
        return acts

    acts = work()
    if children:
        acts.append(tuple(wish("spawn", child) for child in children))
        acts += work() if lots.random() < 0.5 else []
        acts += [(wish("wait", child, answer_of(child, 0)),) for child in children]
        asked = [child for child in children if lots.random() < 0.4]
        for child in asked:
            acts.append((wish("ask_again", child),))
            acts.append((wish("wait", child, answer_of(child, 1)),))
    elif lots.random() < 0.7:
        acts.append((wish("send", path.rpartition("/")[0]),))
    scenes = [tuple(acts)]
    if path != "/root":
        scenes.append(tuple(work()))
    return Part(path, tuple(children), tuple(scenes))


def part_of(agent: str) -> str:
    """Whose part an agent plays: the item's, of any attempt at it (`/root/i_2`, `/root/i_try2`)."""
    return _ATTEMPT.sub("", agent)


def answer_of(path: str, scene: int) -> str:
    """The words that end a scene: nobody else says them."""
    return f"[[answer {path} {scene}]]"


def task_of(path: str) -> str:
    """The words that begin a part."""
    return f"[[part {path}]] Play your part."


def again_of(path: str) -> str:
    """The words that ask for the second scene."""
    return f"[[again {path}]] Once more."


def next_line(play: Play, heard: Heard) -> Line:
    """What the model says now."""
    part, last = play[heard.path], ""
    for number, scene in enumerate(part.scenes):
        if answer_of(part.path, number) in heard.said:
            last = answer_of(part.path, number)
            continue
        if number and again_of(part.path) not in heard.asked:
            break
        for act in scene:
            own = [w._replace(name=f"{w.name}-{heard.who}") if part.is_item else w for w in act]
            tries = [_next_try(wish, heard.outputs) for wish in own]
            due = [(wish, n) for wish, n in zip(own, tries, strict=True) if n is not None]
            if hopeless := [wish.name for wish, n in due if n >= MOST_TRIES]:
                return Line(text=f"{_GAVE_UP}{', '.join(hopeless)}")
            if due:
                return Line(calls=tuple(_call_for(wish, n) for wish, n in due))
        return Line(text=f"{answer_of(part.path, number)} done.")
    return Line(text=f"{last} as I said.")  # its stream may have been cut just behind it


def _next_try(wish: Wish, outputs: Mapping[str, str | None]) -> int | None:
    """The number of the try that is due; None if none is."""
    last = None
    for number in range(MOST_TRIES):
        if call_id_of(wish, number) not in outputs:
            break
        last = number
    if last is None:
        return 0
    if wish.kind in ("run", "escalate", "send"):
        return None  # once, whatever came of it
    return None if _came_true(wish, outputs[call_id_of(wish, last)] or "") else last + 1


def _came_true(wish: Wish, output: str) -> bool:
    match wish.kind:
        case "spawn":
            return any(words in output for words in _SPAWNED_OR_NEVER)
        case "wait":
            return _has_ended(wish, output)
        case _:
            return "interrupted" not in output and "abort" not in output


def _has_ended(wish: Wish, output: str) -> bool:
    """The awaited answer is there; or the agent will never say it, which the checks look into."""
    if "not found" in output:
        return True  # it was never started
    try:
        finished = json.loads(output).get("finished", ())
    except (ValueError, AttributeError):
        return False
    return any(
        one["agent_name"] == wish.about
        and (wish.said in (one["result"] or "") or one["end_state"] in ("crashed", "killed"))
        for one in finished
    )


def call_id_of(wish: Wish, number: int) -> str:
    """The id of one try."""
    return f"{wish.name}-{number}" if number else wish.name


def _call_for(wish: Wish, number: int) -> Call:
    call_id = call_id_of(wish, number)
    match wish.kind:
        case "run":
            cmd = f"echo {call_id} >>effects; sleep {wish.about}; echo did {call_id}"
            return Call(call_id, "exec_command", {"cmd": cmd})
        case "escalate":
            arguments: dict[str, object] = {
                "cmd": f"echo {call_id} >>../outside; echo did {call_id}",
                "sandbox_permissions": "require_escalated",
                "justification": f"{'allow' if wish.allowed else 'deny'} {call_id}",
            }
            return Call(call_id, "exec_command", arguments)
        case "spawn":
            name = wish.about.rpartition("/")[2]
            task = {"task_name": name, "message": task_of(wish.about), "fork_turns": "none"}
            return Call(call_id, "spawn_agent", {**task})
        case "send":
            words = {"target": wish.about, "message": f"[[letter {call_id}]]"}
            return Call(call_id, "send_message", {**words})
        case "ask_again":
            words = {"target": wish.about, "message": again_of(wish.about)}
            return Call(call_id, "followup_task", {**words})
        case "wait":
            waited = {"targets": [wish.about], "for": "all", "timeout_ms": 60_000}
            return Call(call_id, "wait_agent", {**waited})


def gave_up(text: str) -> bool:
    """True for the last words of an agent whose wish did not come true."""
    return text.startswith(_GAVE_UP)


def wishes_of(part: Part) -> Iterator[Wish]:
    """All that the part may ask for."""
    return (wish for scene in part.scenes for act in scene for wish in act)
