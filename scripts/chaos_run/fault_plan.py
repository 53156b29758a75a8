"""Which fault is thrown when: a pure function of the seed.

A plan names kinds of victims, not processes: which of the living agents is meant is a number whose
remainder chooses. The rule it guards: a plan never forbids the run its end. No agent is killed so
often that giving it up would be right, and every lasting fault ends.
"""

import random
from collections import Counter
from typing import Literal, NamedTuple

Kind = Literal[
    "kill", "segv", "stop",  # a signal to a process
    "wire", "provider", "clock", "disk_slow", "disk_full",  # the world around it
    "suspend", "lose",  # the whole machine sleeps; the supervisor is killed
    "end",  # the run is ended from outside: SIGINT, SIGTERM or SIGHUP
]  # fmt: skip
FaultTarget = Literal[
    "",
    "root",
    "agent",
    "launcher",
    "fork-server",
    "gateway",
    "guardian",
    "command",
    "supervisor",
    "hub",
    "hub-launcher",
    "mcp-server",
]
FAULTY_PROVIDERS = ("429", "500", "half", "cut", "nothing", "garbage", "damaged",
                    "oversized", "packed")  # fmt: skip
_WEIGHTS: dict[Kind, int] = {
    "kill": 10, "segv": 3, "stop": 8, "wire": 8, "provider": 8, "clock": 3, "disk_slow": 3,
    "disk_full": 1, "suspend": 1, "lose": 2, "end": 2,
}  # fmt: skip
_TARGET_WEIGHTS: dict[FaultTarget, int] = {
    "root": 1, "agent": 6, "launcher": 2, "fork-server": 2, "gateway": 2, "guardian": 1,
    "command": 4, "hub": 2, "hub-launcher": 2, "mcp-server": 3,
}  # fmt: skip
_MOST: dict[tuple[Kind, FaultTarget], int] = {
    ("kill", "root"): 1, ("segv", "root"): 1, ("kill", "gateway"): 1, ("segv", "gateway"): 1,
    ("kill", "fork-server"): 2, ("kill", "hub"): 1, ("segv", "hub"): 1,
    ("kill", "hub-launcher"): 1, ("segv", "hub-launcher"): 0,  # the hub ends with it
    ("lose", ""): 2, ("end", ""): 2,
    ("disk_full", ""): 1, ("suspend", ""): 1,
}  # fmt: skip


class PlannedFault(NamedTuple):
    """One fault. `lot` chooses among several victims; `lasts_s` 0 = a moment."""

    at_s: float
    kind: Kind
    target: FaultTarget = ""
    target_number: int = 0
    lasts_s: float = 0.0
    level: float = 0.0  # share of frames, seconds of the clock or of a write
    provider: str = "sound"


def plan_faults(seed: str, seconds: float, *, disk: bool = True) -> tuple[PlannedFault, ...]:
    """Strikes in order of time, 0.15 to 0.7 s apart. `disk`: the disk can be filled."""
    lots = random.Random(seed)
    had: Counter[tuple[Kind, FaultTarget]] = Counter()
    strikes: list[PlannedFault] = []
    at_s = round(lots.uniform(0.2, 1.0), 3)
    while at_s < seconds:
        strike = _draw(lots, at_s)
        what = strike.kind, strike.target
        had[what] += 1
        if had[what] <= _MOST.get(what, 1_000) and (disk or strike.kind != "disk_full"):
            strikes.append(strike)
        at_s = round(at_s + lots.uniform(0.15, 0.7), 3)
    return tuple(strikes)


def _draw(lots: random.Random, at_s: float) -> PlannedFault:
    kind = lots.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
    lot = lots.randrange(1 << 16)
    match kind:
        case "kill" | "segv":
            return PlannedFault(at_s, kind, _draw_target(lots), lot)
        case "stop":
            victim = "supervisor" if lots.random() < 0.2 else _draw_target(lots)
            lasts_s = lots.choice((0.1, 0.1, 0.5, 0.5, 1.5, 1.5, 4.0, 13.0))
            return PlannedFault(at_s, kind, victim, lot, lasts_s=lasts_s)
        case "wire":
            return PlannedFault(
                at_s, kind, lasts_s=lots.uniform(0.3, 2.0), level=lots.choice((0.02, 0.1, 0.3))
            )
        case "provider":
            mode = lots.choice(FAULTY_PROVIDERS)
            return PlannedFault(at_s, kind, lasts_s=lots.uniform(0.2, 1.2), provider=mode)
        case "clock":
            return PlannedFault(at_s, kind, level=lots.choice((-600.0, -5.0, 5.0, 600.0)))
        case "disk_slow":
            return PlannedFault(
                at_s, kind, lasts_s=lots.uniform(0.3, 2.0), level=lots.choice((0.02, 0.2))
            )
        case "disk_full":
            return PlannedFault(at_s, kind, lasts_s=lots.uniform(0.3, 1.5))
        case "suspend":
            return PlannedFault(at_s, kind, lasts_s=lots.choice((1.0, 4.0)))
        case "lose" | "end":
            return PlannedFault(at_s, kind, target_number=lot)


def _draw_target(lots: random.Random) -> FaultTarget:
    return lots.choices(list(_TARGET_WEIGHTS), list(_TARGET_WEIGHTS.values()))[0]
