"""A seed → what the agents of a run will do, and what will be done to them. Pure.

A story is a tree of agents, each with steps. A step is what one response of its model asks for;
every agent works through its own, whatever dies meanwhile, and then says that it is done.
"""

import random
from typing import Literal, NamedTuple

Verb = Literal["work", "risky", "spawn", "wait", "mail", "again", "list", "close", "tell", "sleep"]

RUN_ID = "00000000-0000-7000-8000-000000000000"


class PlannedCall(NamedTuple):
    """One call. `about`: a child's name, or the path of who is written to."""

    verb: Verb
    target: str = ""
    seconds: float = 0.0


class AgentScript(NamedTuple):
    """One agent: responses, each of one or more planned_calls."""

    path: str
    responses: tuple[tuple[PlannedCall, ...], ...]


class Fault(NamedTuple):
    """`at` is a frame's number for kill, silence and gateway, else seconds.

    `path` is an agent's, or for vanish a folder's, below that of swarm's state.
    """

    kind: Literal[
        "kill", "kill_at", "silence", "hello", "gateway", "gateway_at", "supervisor",
        "say", "interrupt", "end", "stop", "ctrl_c", "vanish",
    ]  # fmt: skip
    path: str
    at: float


class NetworkFaults(NamedTuple):
    """Chances of each frame."""

    lost: float = 0.0
    doubled: float = 0.0
    late: float = 0.0


class PlanLimit(NamedTuple):
    """From `at` on the provider refuses until `until`, in virtual seconds."""

    at: float
    until: float


class SimulatedScenario(NamedTuple):
    """Everything of one seed."""

    seed: int
    parts: dict[str, AgentScript]
    items: tuple[str, ...]  # of a fan-out; none: no fan-out
    slots: int
    reviewer: Literal["person", "nobody"]
    tokens: int | None  # the budget
    faults: tuple[Fault, ...]
    network_faults: NetworkFaults
    model_faults: float  # share of attempts that fail
    start_faults: float  # share of starts that fail
    plan_limits: tuple[PlanLimit, ...] = ()

    @property
    def is_undisturbed(self) -> bool:
        """Nobody is ended, interrupted or bounded, and nobody dies too often to live again."""
        meddled = any(one.kind in {"interrupt", "end", "hello"} or self._prevents_start(one)
                      for one in self.faults)  # fmt: skip
        deaths = sum(one.kind in {"kill", "kill_at", "silence"} for one in self.faults)
        gateways = sum(one.kind.startswith("gateway") for one in self.faults)
        parents = sum(_has_children(part) for part in self.parts.values())
        gentle = self.model_faults < 0.2 and not self.start_faults and self.slots > parents
        return not meddled and deaths <= 3 and gateways <= 3 and self.tokens is None and gentle

    def _prevents_start(self, fault: Fault) -> bool:
        """It may end an agent before its Hello whose first start nobody repeats."""
        fragile = fault.path == "/root" or fault.path.startswith("/root/item_")
        soon = (
            fault.at <= 2
            if fault.kind in {"kill", "silence"}
            else fault.at < 90 * bool(fault.path != "/root") or fault.at < 1
        )
        return fragile and soon and fault.kind in {"kill", "kill_at", "silence"}


def make_simulated_scenario(seed: int) -> SimulatedScenario:
    """The story of a seed; the same for ever, unless this file changes."""
    dice = random.Random(f"story:{seed}")
    parts: dict[str, AgentScript] = {}
    _grow(dice, "/root", parts, room=[dice.randint(0, 9)], depth=0)
    parts = {path: _with_findings(seed, part) for path, part in parts.items()}
    parts["/root"] = _with_sleep(seed, parts["/root"])
    items = tuple(f"item {n}" for n in range(dice.randint(1, 6))) if dice.random() < 0.2 else ()
    for number in range(len(items)):
        path = f"/root/item_{number}"
        parts[path] = AgentScript(path, ((PlannedCall("work", seconds=dice.uniform(0, 20)),),))
    parents = sum(_has_children(part) for part in parts.values())
    slots = max(2, parents + dice.randint(1, 4)) if dice.random() < 0.8 else dice.randint(2, 4)
    return SimulatedScenario(
        seed=seed,
        parts=parts,
        items=items,
        slots=slots,
        reviewer=dice.choice(("person", "person", "nobody")),
        tokens=dice.randint(2_000, 60_000) if dice.random() < 0.15 else None,
        faults=(*_faults(dice, list(parts)), *_stops(seed), *_vanishings(seed), *_nights(seed)),
        network_faults=_wire(dice),
        model_faults=dice.choice((0.0, 0.0, 0.05, 0.2)),
        start_faults=dice.choice((0.0, 0.0, 0.0, 0.1)),
        plan_limits=_plan_limits(seed),
    )


def _has_children(part: AgentScript) -> bool:
    return any(planned.verb == "spawn" for response in part.responses for planned in response)


def _grow(
    dice: random.Random, path: str, parts: dict[str, AgentScript], *, room: list[int], depth: int
) -> None:
    """Add the agent at `path` and those below it; `room` is how many more there may be."""
    parts[path] = AgentScript(path, ())
    names: list[str] = []
    while depth < 3 and room[0] > 0 and len(names) < 4 and dice.random() < (0.9, 0.5, 0.4)[depth]:
        room[0] -= 1
        names.append("abcd"[len(names)])
    for name in names:
        _grow(dice, f"{path}/{name}", parts, room=room, depth=depth + 1)
    parts[path] = AgentScript(path, tuple(_responses(dice, path, names)))


def _responses(dice: random.Random, path: str, names: list[str]) -> list[tuple[PlannedCall, ...]]:
    said: list[tuple[PlannedCall, ...]] = []

    def some_work() -> None:
        for _ in range(dice.choice((0, 0, 1, 1, 2))):
            verbs: tuple[Verb, ...] = ("work", "work", "risky", "list")
            count = dice.choice((1, 1, 2, 3))
            said.append(
                tuple(
                    PlannedCall(dice.choice(verbs), seconds=dice.uniform(0, 15))
                    for _ in range(count)
                )
            )

    some_work()
    if dice.random() < 0.5:
        said += [(PlannedCall("spawn", name),) for name in names]
    elif names:
        said.append(tuple(PlannedCall("spawn", name) for name in names))
    some_work()
    for name in names:
        if dice.random() < 0.3:
            said.append((PlannedCall("mail", f"{path}/{name}"),))
    if path != "/root" and dice.random() < 0.3:
        said.append((PlannedCall("mail", path.rpartition("/")[0]),))
    if names and dice.random() < 0.9:
        said.append((PlannedCall("wait"),))
    for name in names:
        if dice.random() < 0.15:
            said += [(PlannedCall("again", name),), (PlannedCall("wait"),)]
        elif dice.random() < 0.1:
            said.append((PlannedCall("close", name),))
    some_work()
    return said


def _faults(dice: random.Random, paths: list[str]) -> list[Fault]:
    found: list[Fault] = []
    for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 5))):
        path = dice.choice(paths)
        kind = dice.choice(
            ("kill", "kill", "kill", "kill_at", "kill_at", "silence", "hello", "gateway",
             "gateway_at", "supervisor", "supervisor", "say", "interrupt", "end")
        )  # fmt: skip
        match kind:
            case "kill" | "silence":
                at: float = dice.randint(1, 60)
            case "gateway":
                at = dice.randint(1, 40)
            case _:
                at = dice.uniform(0.01, 90)
        found.append(Fault(kind, path, at))
    return found


def _with_findings(seed: int, part: AgentScript) -> AgentScript:
    """Some agents publish what they found. Chance of its own, as for `_stops`."""
    dice = random.Random(f"findings:{seed}:{part.path}")
    responses = [*part.responses]
    for number in range(dice.choice((0, 0, 1, 2)) if part.path != "/root" else 0):
        place = dice.randint(0, len(responses))
        responses.insert(place, (PlannedCall("tell", f"fact {number} of {part.path}"),))
    return part._replace(responses=tuple(responses))


def _stops(seed: int) -> list[Fault]:
    """The run is ended from outside, in order, and resumed. Chance of its own: what else a seed
    means stays as it was."""
    dice = random.Random(f"stops:{seed}")
    return [
        Fault(dice.choice(("stop", "ctrl_c")), "/root", dice.uniform(0.01, 60))
        for _ in range(dice.choice((0, 0, 0, 1, 2)))
    ]


def _vanishings(seed: int) -> list[Fault]:
    """Folders of swarm's state that somebody removes in mid-run; agents start after it all the
    same. Chance of its own, as for `_stops`."""
    dice = random.Random(f"vanishings:{seed}")
    names = ("memories", "mcp-logins", "locks", f"runs/{RUN_ID}/tmp", f"runs/{RUN_ID}/kept")
    return [
        Fault("vanish", dice.choice(names), dice.uniform(0.01, 60))
        for _ in range(dice.choice((0, 0, 1, 3)))
    ]


def _with_sleep(seed: int, part: AgentScript) -> AgentScript:
    """The root has itself woken, by the clock. Chance of its own, as for `_stops`."""
    dice = random.Random(f"sleeps:{seed}")
    responses = [*part.responses]
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        planned = PlannedCall("sleep", seconds=dice.randint(60, 2_000))
        responses.insert(dice.randint(0, len(responses)), (planned,))
    return part._replace(responses=tuple(responses))


def _plan_limits(seed: int) -> tuple[PlanLimit, ...]:
    """The plan's limit is reached, and resets later. Chance of its own, as for `_stops`."""
    dice = random.Random(f"limits:{seed}")
    begin, found = 0.0, list[PlanLimit]()
    for _ in range(dice.choice((0, 0, 0, 1, 2))):
        begin += dice.uniform(1, 120)
        found.append(PlanLimit(begin, begin := begin + dice.uniform(70, 3_000)))
    return tuple(found)


def _nights(seed: int) -> list[Fault]:
    """What befalls a run that only waits. Chance of its own, as for `_stops`."""
    dice = random.Random(f"nights:{seed}")
    kinds: tuple[Literal["supervisor", "stop", "gateway_at", "say"], ...]
    kinds = ("supervisor", "supervisor", "stop", "gateway_at", "say")
    return [
        Fault(dice.choice(kinds), "/root", dice.uniform(60, 4_000))
        for _ in range(dice.choice((0, 0, 1, 2)))
    ]


def _wire(dice: random.Random) -> NetworkFaults:
    if dice.random() < 0.6:
        return NetworkFaults()
    return NetworkFaults(*(dice.choice((0.0, 0.01, 0.1)) for _ in range(3)))
