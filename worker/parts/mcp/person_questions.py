"""The hub's way to a person and to a model: the supervisor gets each question, and answers it."""

from itertools import count

import trio

from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.hub import (
    ModelAnswered,
    ModelAsked,
    PersonAnswered,
    PersonAsked,
    QuestionWithdrawn,
    encode_hub_event,
)
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer

from .call_questions import PersonReply

MAX_OPEN = 64  # of all servers; a further one is declined
_WITHDRAW_LIMIT_S = 1.0
_TOO_MANY = f"{MAX_OPEN} questions of servers wait already"


class _OpenQuestion:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.reply: PersonAnswered | ModelAnswered | None = None


def _event(
    number: int, requests: tuple[int, ...], action: ElicitationAction | SamplingAction
) -> PersonAsked | ModelAsked:
    if isinstance(action, SamplingAction):
        return ModelAsked(question=number, requests=requests, action=action)
    return PersonAsked(question=number, requests=requests, action=action)


class PersonQuestions:
    """An `AnswersServers` over the mailbox to the supervisor, which the caller closes."""

    def __init__(self, supervisor: Mailbox) -> None:
        self._supervisor = supervisor
        self._open: dict[int, _OpenQuestion] = {}
        self._numbers = count(1)

    async def ask(self, requests: tuple[int, ...], action: ElicitationAction) -> PersonReply:
        """Returns when the supervisor has answered."""
        reply = await self._answer_to(requests, action)
        if isinstance(reply, PersonAnswered):
            return PersonReply(reply.answer, reply.content)
        return PersonReply("decline")

    async def sample(self, requests: tuple[int, ...], action: SamplingAction) -> SamplingAnswer:
        """Returns when the supervisor has answered."""
        reply = await self._answer_to(requests, action)
        if isinstance(reply, ModelAnswered):
            return reply.answer
        return SamplingAnswer(fault=_TOO_MANY)

    async def _answer_to(
        self, requests: tuple[int, ...], action: ElicitationAction | SamplingAction
    ) -> PersonAnswered | ModelAnswered | None:
        """The supervisor's answer; None if too many questions wait."""
        if len(self._open) >= MAX_OPEN:
            return None
        number, question = next(self._numbers), _OpenQuestion()
        self._open[number] = question
        try:
            await self._supervisor.post(encode_hub_event(_event(number, requests, action)))
            await question.answered.wait()
        except trio.Cancelled:
            with trio.move_on_after(_WITHDRAW_LIMIT_S, shield=True):
                gone = QuestionWithdrawn(question=number)
                await self._supervisor.post(encode_hub_event(gone))
            raise
        finally:
            del self._open[number]
        return question.reply

    def take_answer(self, answered: PersonAnswered | ModelAnswered) -> None:
        """The supervisor's answer; one that nobody waits for any more is left out."""
        if (question := self._open.get(answered.question)) is not None:
            question.reply = answered
            question.answered.set()
