"""Decides when words that a person sends are delivered, and to which agent. Pure."""

from typing import Literal

from swarm.mailbox.protocol.control import AgentView

BusyMode = Literal["steer", "queue"]  # what words do that are sent while the agent works
Delivery = Literal["start", "resume", "send", "queue"]
_BUSY = frozenset({"running", "waiting", "starting", "restarting"})


def is_busy(agent: AgentView | None) -> bool:
    """True while an agent has a turn, or is about to have one."""
    return agent is not None and agent.state in _BUSY


def decide_delivery(
    *, has_run: bool, is_alive: bool, target: AgentView | None, busy_mode: BusyMode
) -> Delivery:
    """How words reach the agent now.

    Without a run they start one; in a run that has ended they continue it; to an agent at work
    they go at once (it reads them before its next request) or wait until its turn has ended.
    """
    if not has_run:
        return "start"
    if not is_alive:
        return "resume"
    return "queue" if busy_mode == "queue" and is_busy(target) else "send"


def next_queued(queue: tuple[str, ...], target: AgentView | None) -> str | None:
    """The queued words that may go out now: the oldest, when the agent has no turn."""
    return queue[0] if queue and not is_busy(target) else None
