"""request_user_input: the model asks a person questions with options.

Only the root agent may ask, and only where a person may be present. Without an answer the call
fails with a text, and the model continues.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from swarm.mailbox.protocol.approvals import PersonQuestion, QuestionOption, QuestionsAction
from swarm.mailbox.protocol.events import AnyCallDetail, OtherCall
from swarm.mailbox.protocol.items import AnyCall
from swarm.mailbox.protocol.sampling import ModelInfo

from ..policy.approval_offers import may_question_person
from ..policy.command_decision import Ask, PolicyDecision, Run
from .interface.function_tool import REQUIRED, FunctionTool, decode_arguments, described
from .interface.tool_context import ToolContext
from .interface.tool_interface import (
    Invocation,
    OnOutput,
    Proposal,
    ToolFailed,
    ToolResult,
)

MAX_QUESTIONS = 3
NO_OPTIONS = (
    "options must not be empty in any question, as in "
    '"options": [{"label": "Yes", "description": "do it"}]'
)
ROOT_ONLY = "request_user_input can only be used by the root thread"
CANCELLED = "request_user_input was cancelled before receiving a response"
_DETAIL_CHARS = 200


class OptionArgument(Struct, frozen=True, kw_only=True):
    label: str
    description: Annotated[str, described("Meaning.")]


class QuestionArgument(Struct, frozen=True, kw_only=True):
    id: Annotated[str, described("snake_case.")]
    header: Annotated[str, described("At most 12 characters.")]
    question: str
    options: Annotated[tuple[OptionArgument, ...], Meta(extra=REQUIRED)] = ()


class RequestUserInputArguments(Struct, frozen=True, kw_only=True):
    """Arguments as the model writes them."""

    questions: tuple[QuestionArgument, ...]


class RequestUserInputTool(FunctionTool):
    """The request_user_input tool."""

    name = "request_user_input"
    arguments = RequestUserInputArguments

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def is_offered(self, model: ModelInfo) -> bool:
        return may_question_person(self._context.limits, is_root=self._context.is_root)

    async def prepare(self, call: AnyCall) -> Invocation:
        if not self._context.is_root:
            raise ToolFailed(ROOT_ONLY)
        asked = decode_arguments(call, RequestUserInputArguments).questions
        if not 1 <= len(asked) <= MAX_QUESTIONS:
            raise ToolFailed(f"questions must hold one to {MAX_QUESTIONS} questions")
        if not all(one.options for one in asked):
            raise ToolFailed(NO_OPTIONS)
        if len({one.id for one in asked}) < len(asked):
            raise ToolFailed("id must differ from question to question")
        return _QuestionsInvocation(asked)


class _QuestionsInvocation:
    def __init__(self, asked: tuple[QuestionArgument, ...]) -> None:
        self._asked = asked

    @property
    def detail(self) -> AnyCallDetail:
        words = " / ".join(one.question for one in self._asked)
        return OtherCall(argument=" ".join(words.split())[:_DETAIL_CHARS])

    def judge(self) -> PolicyDecision:
        count = len(self._asked)
        return Ask(subject="a question" if count == 1 else f"{count} questions", cause="question")

    def propose(self, ask: Ask) -> Proposal:
        questions = tuple(
            PersonQuestion(
                id=one.id,
                header=one.header,
                question=one.question,
                options=tuple(
                    QuestionOption(label=o.label, description=o.description) for o in one.options
                ),
            )
            for one in self._asked
        )
        return Proposal(action=QuestionsAction(questions=questions))

    async def run(self, verdict: Run, listen: OnOutput) -> ToolResult:
        given = {} if verdict.answer is None else verdict.answer.answers
        known = {one.id: given[one.id] for one in self._asked if one.id in given}
        if not known:
            raise ToolFailed(CANCELLED)
        body = {"answers": {name: {"answers": list(words)} for name, words in known.items()}}
        return ToolResult(content=msgspec.json.encode(body).decode())
