"""Questions about hosts that are not allowed, and their answers, for all agents of a run.

There is one question per host, protocol and port, however many requests wait for it. A one-time yes
applies only to the requests that wait. When the last waiting request ends, the question is
withdrawn. Beyond a limit of open questions, further ones are refused unasked, so that a command
cannot flood a person with invented names.
"""

from collections.abc import Callable

import trio

from swarm.mailbox.protocol.proxy import (
    NetworkAnswered,
    NetworkAsked,
    NetworkTarget,
    NetworkWithdrawn,
)

MOST_OPEN_OF_AGENT = 8
_MOST_REMEMBERED = 10_000

NotifySupervisor = Callable[[NetworkAsked | NetworkWithdrawn], None]


class _Question:
    def __init__(self, number: int, agent: str) -> None:
        self.number, self.agent = number, agent
        self.waiting = 0
        self.answered = trio.Event()
        self.answer = False


class NetworkQuestions:
    """Open questions, and answers that hold for the rest of the run."""

    def __init__(self, notify: NotifySupervisor) -> None:
        """`notify` queues an event for the supervisor and never waits."""
        self._notify_supervisor = notify
        self._last = 0
        self._open: dict[NetworkTarget, _Question] = {}
        self._remembered: dict[tuple[NetworkTarget, str], bool] = {}  # target, topmost path

    async def ask(self, agent: str, target: NetworkTarget, trigger: str) -> bool:
        """Ask whether this agent may connect to the target. Waits as long as people take."""
        if (known := self._recall(agent, target)) is not None:
            return known
        question = self._open.get(target)
        if question is None:
            if sum(one.agent == agent for one in self._open.values()) >= MOST_OPEN_OF_AGENT:
                return False
            question = self._begin(agent, target, trigger)
        question.waiting += 1
        try:
            await question.answered.wait()
        finally:
            question.waiting -= 1
            if not question.waiting and not question.answered.is_set():
                del self._open[target]
                self._notify_supervisor(NetworkWithdrawn(question=question.number))
        return question.answer

    def _begin(self, agent: str, target: NetworkTarget, trigger: str) -> _Question:
        self._last += 1
        question = self._open[target] = _Question(self._last, agent)
        self._notify_supervisor(
            NetworkAsked(question=self._last, agent=agent, target=target, trigger=trigger)
        )
        return question

    def answer(self, answered: NetworkAnswered) -> None:
        """Answer an open question: all who wait for it continue. Unknown numbers are ignored."""
        found = [one for one in self._open.items() if one[1].number == answered.question]
        if not found:
            return
        ((target, question),) = found
        del self._open[target]
        if answered.remember and len(self._remembered) < _MOST_REMEMBERED:
            self._remembered[target, answered.below] = answered.allow
        question.answer = answered.allow
        question.answered.set()

    def _recall(self, agent: str, target: NetworkTarget) -> bool | None:
        """The remembered answer; the one for the nearest ancestor applies."""
        path = agent
        while True:
            if (known := self._remembered.get((target, path))) is not None:
                return known
            if not path:
                return None
            path = path.rpartition("/")[0]
