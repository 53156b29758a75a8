"""Mapping of agent states to the statuses that models read (Codex's). No I/O."""

from swarm.mailbox.protocol.requests import TeamMember

_HEAD_CHARS = 2_000  # of a result in a list
CUT = "… [cut: ask this agent for the part you need]"
_LIVE = {"queued": "queued", "starting": "pending_init", "running": "running"}
_PLAIN = {"interrupted": "interrupted", "killed": "shutdown"}
_DONE = frozenset({"completed", "truncated"})


def agent_status(member: TeamMember) -> str | dict[str, str | None]:
    """Return `running`, `{"completed": "text"}`, `{"errored": "why"}` and so on.

    An unknown state is returned unchanged: a newer supervisor may have more states.
    """
    state, result = member.status, member.result
    if state in _DONE:
        return {"completed": None if result is None else _head(result)}
    if state in {"budget", "deadline", "refused", "failed", "crashed"}:
        return {"errored": f"{state}: {_head(result)}" if result else state}
    return _LIVE.get(state) or _PLAIN.get(state) or state


def finished_agents(
    members: tuple[TeamMember, ...], *, limit_bytes: int
) -> list[dict[str, str | None]]:
    """Return finished agents with their end states and results; long results are cut to the limit.

    The limit is shared fairly: bytes that short results do not use go to the longer ones.
    """
    room, left = limit_bytes, len(members)
    allowed: dict[str, int] = {}
    for member in sorted(members, key=_size):
        allowed[member.path] = min(_size(member), room // left)
        room, left = room - allowed[member.path], left - 1
    return [
        {
            "agent_name": member.path,
            "end_state": member.status,
            "result": _cut(member.result, allowed[member.path]),
        }
        for member in members
    ]


def _size(member: TeamMember) -> int:
    return len((member.result or "").encode(errors="replace"))


def _cut(result: str | None, limit_bytes: int) -> str | None:
    if result is None:
        return None
    data = result.encode(errors="replace")
    if len(data) <= limit_bytes:
        return result
    return data[:limit_bytes].decode(errors="ignore") + CUT


def _head(text: str) -> str:
    return text if len(text) <= _HEAD_CHARS else text[:_HEAD_CHARS] + CUT
