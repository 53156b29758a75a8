"""Questions that agents' processes work on: only the process that was asked may answer.

An answer is a request of that process; it is matched by the question's number, path and epoch.
"""

from itertools import count
from typing import Generic, TypeVar

import trio

from swarm.mailbox.protocol.requests import RequestRefused, Sent

from .agent_record import Agent

AnswerT = TypeVar("AnswerT")


class AskedQuestion(Generic[AnswerT]):
    """`answered` is set when there is an answer, or by whoever gives up."""

    def __init__(self, number: int, process: tuple[str, int]) -> None:
        self.number, self.process = number, process
        self.answered = trio.Event()
        self.answer: AnswerT | None = None


class ProcessQuestions(Generic[AnswerT]):
    """The open questions of one kind, numbered from 1."""

    def __init__(self) -> None:
        self._open: dict[int, AskedQuestion[AnswerT]] = {}
        self._numbers = count(1)

    def begin(self, agent: Agent) -> AskedQuestion[AnswerT]:
        """A new question to the agent's present process."""
        question = AskedQuestion[AnswerT](next(self._numbers), (agent.path, agent.epoch))
        self._open[question.number] = question
        return question

    def end(self, question: AskedQuestion[AnswerT]) -> None:
        """An answer that comes from now on is refused."""
        self._open.pop(question.number, None)

    def all_open(self) -> tuple[AskedQuestion[AnswerT], ...]:
        """Those that are neither answered nor ended."""
        return tuple(self._open.values())

    def settle(self, agent: Agent, number: int, answer: AnswerT) -> Sent | RequestRefused:
        """Take an answer of this agent's process. Never waits."""
        question = self._open.get(number)
        if question is None or question.process != (agent.path, agent.epoch):
            return RequestRefused(message="nobody waits for this answer")
        self.end(question)
        question.answer = answer
        question.answered.set()
        return Sent()
