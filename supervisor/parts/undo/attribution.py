"""Attributes a file change to the agents whose calls were open when it happened. No I/O.

A change is attributed to every agent that may have made it, and to no other: a file that two agents
may have changed is shared by them; a change while no call was open is a person's.
"""

from collections.abc import Iterable, Sequence

import msgspec

from .watched_tree import PathChange

_SKEW_NS = 2_000_000_000  # tolerated clock difference; a file time further off is not trusted


class CallWindow(msgspec.Struct):
    """One call that may change files. `ended_ns` None: the call, or what it started, still runs."""

    agent: str
    turn_id: str
    call_id: str
    began_ns: int
    ended_ns: int | None = None
    detached: bool = False  # its command runs on as a session


class AttributedChanges(msgspec.Struct):
    """What one agent's turn changed, together with the same other agents."""

    agent: str
    turn_id: str
    call_ids: tuple[str, ...]
    shared_with: tuple[str, ...]
    changes: tuple[PathChange, ...]


def possible_owners(
    windows: Iterable[CallWindow], change: PathChange, *, since_ns: int, now_ns: int
) -> tuple[CallWindow, ...]:
    """The calls during which the change may have happened.

    Args:
        windows: All calls that were open at any time since the last scan.
        change: Its `ctime_ns` is used if it is known and plausible.
        since_ns: When the last scan began.
        now_ns: When this scan ended.
    """
    at = change.ctime_ns
    if at is None or at < since_ns - _SKEW_NS or at > now_ns + _SKEW_NS:
        first, last = since_ns, now_ns
    else:
        first = last = at
    return tuple(
        one for one in windows
        if one.began_ns <= last and (one.ended_ns is None or one.ended_ns >= first)
    )  # fmt: skip


def attribute_changes(
    windows: Sequence[CallWindow], changes: Iterable[PathChange], *, since_ns: int, now_ns: int
) -> tuple[AttributedChanges, ...]:
    """The changes of each agent's turns; a change without an owner is left out."""
    groups: dict[tuple[int, ...], list[PathChange]] = {}
    for change in changes:
        own = possible_owners(windows, change, since_ns=since_ns, now_ns=now_ns)
        if own:
            key = tuple(index for index, one in enumerate(windows) if one in own)
            groups.setdefault(key, []).append(change)
    found: list[AttributedChanges] = []
    for key, group in groups.items():
        own = tuple(windows[index] for index in key)
        agents = sorted({one.agent for one in own})
        turns = dict.fromkeys((one.agent, one.turn_id) for one in own)
        for agent, turn_id in turns:
            calls = tuple(
                one.call_id for one in own if (one.agent, one.turn_id) == (agent, turn_id)
            )
            others = tuple(other for other in agents if other != agent)
            found.append(AttributedChanges(agent, turn_id, calls, others, tuple(group)))
    return tuple(found)
