"""The hub's way to a person: each question goes to the supervisor, and waits for its answer."""

from itertools import count

import trio

from swarm.mailbox.interfaces import Mailbox
from swarm.mailbox.protocol.elicitation import ElicitationAction
from swarm.mailbox.protocol.hub import (
    PersonAnswered,
    PersonAsked,
    QuestionWithdrawn,
    encode_hub_event,
)

from .call_questions import PersonReply

MAX_OPEN = 64  # of all servers; a further one is declined
_WITHDRAW_LIMIT_S = 1.0


class _OpenQuestion:
    def __init__(self) -> None:
        self.answered = trio.Event()
        self.reply = PersonReply("cancel")


class PersonQuestions:
    """An `AsksPerson` over the mailbox to the supervisor, which the caller closes."""

    def __init__(self, supervisor: Mailbox) -> None:
        self._supervisor = supervisor
        self._open: dict[int, _OpenQuestion] = {}
        self._numbers = count(1)

    async def ask(self, requests: tuple[int, ...], action: ElicitationAction) -> PersonReply:
        """Returns when the supervisor has answered."""
        if len(self._open) >= MAX_OPEN:
            return PersonReply("decline")
        number, question = next(self._numbers), _OpenQuestion()
        self._open[number] = question
        try:
            asked = PersonAsked(question=number, requests=requests, action=action)
            await self._supervisor.post(encode_hub_event(asked))
            await question.answered.wait()
        except trio.Cancelled:
            with trio.move_on_after(_WITHDRAW_LIMIT_S, shield=True):
                gone = QuestionWithdrawn(question=number)
                await self._supervisor.post(encode_hub_event(gone))
            raise
        finally:
            del self._open[number]
        return question.reply

    def take_answer(self, answered: PersonAnswered) -> None:
        """The supervisor's answer; one that nobody waits for any more is left out."""
        if (question := self._open.get(answered.question)) is not None:
            question.reply = PersonReply(answered.answer, answered.content)
            question.answered.set()
