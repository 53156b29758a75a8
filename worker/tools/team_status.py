"""How an agent's state is told to models: the one table from our end states to Codex's. Pure."""

from swarm.mailbox.protocol.requests import TeamMember

_HEAD_CHARS = 2_000  # of a result in a list
CUT = "… [cut: ask this agent for the part you need]"
_LIVE = {"queued": "queued", "starting": "pending_init", "running": "running"}
_PLAIN = {"interrupted": "interrupted", "killed": "shutdown"}
_DONE = frozenset({"completed", "truncated"})


def agent_status(member: TeamMember) -> str | dict[str, str | None]:
    """`running`, `{"completed": "text"}`, `{"errored": "why"}` and so on.

    What is in no table is told as it is: a newer supervisor may know more states.
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
    """Finished agents with their typed end states and results; over the limit long ones are cut.

    What short results leave over goes to the long ones, so nobody is cut for another's chatter.
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
