"""Answers questions of MCP servers with the agent's own model, outside of its conversation.

The server's texts are all that the model gets: no history, no tools, nothing of the project. One
question is answered after the other.
"""

from collections import deque

import msgspec
import trio

from swarm.mailbox.protocol.events import Waiting
from swarm.mailbox.protocol.items import encode_item, text_message
from swarm.mailbox.protocol.ops import AskModel, WithdrawModelQuestion
from swarm.mailbox.protocol.requests import ReportModelAnswer
from swarm.mailbox.protocol.sampling import TextDelta
from swarm.mailbox.protocol.server_sampling import SamplingAnswer

from .agent_state import AgentState
from .sampler import SampleParameters, SampleStreamEvent, SamplingError
from .side_responses import sample_beside

INSTRUCTIONS = (
    "You answer one question of the program `{server}`, which an agent uses as a tool. Your answer "
    "goes to that program. You have no tools, and you know nothing but what is asked here."
)
CHARS_PER_TOKEN = 4  # of a longest answer


class QueuedQuestions:
    """Questions that wait. Each can be withdrawn, also while it is answered."""

    def __init__(self) -> None:
        self._waiting = deque[AskModel]()
        self._scopes: dict[int, trio.CancelScope] = {}  # by question
        self._arrived = trio.Event()

    def take(self, op: AskModel | WithdrawModelQuestion) -> None:
        """Never waits. The supervisor bounds how many questions there are."""
        if isinstance(op, AskModel):
            self._scopes[op.question] = trio.CancelScope()
            self._waiting.append(op)
            self._arrived.set()
        elif (scope := self._scopes.get(op.question)) is not None:
            scope.cancel()

    async def receive(self) -> tuple[AskModel, trio.CancelScope]:
        """The next question, and the scope in which it is answered."""
        while not self._waiting:
            self._arrived = trio.Event()
            await self._arrived.wait()
        question = self._waiting.popleft()
        return question, self._scopes[question.question]

    def forget(self, number: int) -> None:
        """The question is answered or withdrawn."""
        self._scopes.pop(number, None)


async def answer_server_questions(state: AgentState, questions: QueuedQuestions) -> None:
    """Answer one question after another, for ever."""
    while True:
        question, scope = await questions.receive()
        with scope:
            answer = await _answer(state, question)
            await state.reporter.request(
                ReportModelAnswer(question=question.question, answer=answer)
            )
        questions.forget(question.question)


async def _answer(state: AgentState, question: AskModel) -> SamplingAnswer:
    """One request; it is not repeated. It ends early when the answer is as long as it may be."""
    pieces: list[str] = []
    most = question.max_tokens * CHARS_PER_TOKEN

    def on_event(event: SampleStreamEvent) -> bool:
        if isinstance(event, TextDelta):
            pieces.append(event.delta)
        return sum(map(len, pieces)) > most

    state.reporter.emit_transient(
        Waiting(reason=f"MCP server {question.server} asks the agent's model")
    )
    try:
        model = await state.wait_model()
        completed = await sample_beside(state, _parameters(state, question), on_event)
    except SamplingError as trouble:
        return SamplingAnswer(fault=f"the model gave no answer: {trouble.failed.message}")
    is_cut = completed is None or completed.truncated
    return SamplingAnswer(text="".join(pieces)[:most], model=model.slug, is_cut=is_cut)


def _parameters(state: AgentState, question: AskModel) -> SampleParameters:
    instructions = INSTRUCTIONS.format(server=question.server)
    return SampleParameters(
        turn_id="" if state.turn is None else state.turn.turn_id,
        instructions=f"{instructions}\n\n{question.system}".rstrip(),
        instead=tuple(
            msgspec.Raw(encode_item(text_message(one.role, one.text))) for one in question.turns
        ),
        sampling=state.spec.role.sampling,
    )
