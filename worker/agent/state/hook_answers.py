"""Answers the questions of hooks with the agent's own model, outside of its conversation."""

import msgspec

from swarm.mailbox.protocol.items import Message, encode_item, text_message, text_of
from swarm.mailbox.protocol.sampling import SampleItemDone

from ...parts.hooks.hook_questions import ANSWER_SCHEMA, INSTRUCTIONS, HookQuestions, ModelAnswer
from .agent_state import AgentState
from .sampler import SampleParameters, SampleStreamEvent, SamplingError
from .side_responses import sample_beside


async def answer_hook_questions(state: AgentState, questions: HookQuestions) -> None:
    """Answer one question after another, for ever."""
    while True:
        question = await questions.receive()
        question.settle(await _answer(state, question.text))


async def _answer(state: AgentState, text: str) -> ModelAnswer:
    """One request, without tools and without the history; it is not repeated."""
    answers: list[str] = []

    def on_event(event: SampleStreamEvent) -> bool:
        if isinstance(event, SampleItemDone) and isinstance(event.item, Message):
            answers.append(text_of(event.item.content))
        return False

    try:
        await state.wait_model()
        parameters = SampleParameters(
            turn_id="" if state.turn is None else state.turn.turn_id,
            instructions=INSTRUCTIONS,
            output_schema=ANSWER_SCHEMA,
            instead=(msgspec.Raw(encode_item(text_message("user", text))),),
            sampling=state.spec.role.sampling,
        )
        await sample_beside(state, parameters, on_event)
    except SamplingError as trouble:
        return ModelAnswer(fault=trouble.failed.message)
    return ModelAnswer(text=answers[-1] if answers else "")
