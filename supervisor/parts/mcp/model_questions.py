"""Questions of MCP servers to the model of the agent that calls them (sampling).

A question is approved first, unless the server's table says that it need not be. Then the agent's
own process asks: through the gateway, at the expense of its budget, outside of its conversation.
"""

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.approvals import ApprovalRequest
from swarm.mailbox.protocol.hub import ModelAsked
from swarm.mailbox.protocol.ops import AskModel, WithdrawModelQuestion
from swarm.mailbox.protocol.requests import ReportModelAnswer, RequestRefused, Sent
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer

from ...agents.agent_record import Agent
from ...agents.process_questions import ProcessQuestions
from ...approvals.approval_types import Decider
from ...context.run_context import RunContext
from .hub_manager import HubManager, OpenCall

ANSWER_LIMIT_S = 600.0  # for the agent's process, with all waits for the provider
_WITHDRAW_LIMIT_S = 1.0
_WHOSE = (
    "calls of several agents run, and the server does not say for which it asks; with "
    "`per_agent = true` it is certain"
)


class ModelQuestions:
    """Has questions approved and answered, several at once."""

    def __init__(self, running: RunContext, hub: HubManager, decider: Decider) -> None:
        self._run, self._hub, self._decider = running, hub, decider
        self._questions = ProcessQuestions[SamplingAnswer]()

    async def answer(self, event: ModelAsked, calls: tuple[OpenCall, ...]) -> SamplingAnswer:
        """The model's answer, or why there is none.

        Args:
            calls: The calls of the server that run, at least one; the first is the oldest.
        """
        first = calls[0]
        server = self._hub.servers[first.server]
        if server.sampling == "off":
            return SamplingAnswer(fault="this server may not ask a model")
        if any(one.agent is not first.agent for one in calls):
            return SamplingAnswer(fault=_WHOSE)
        action = msgspec.structs.replace(event.action, source=server.source)
        if server.sampling == "prompt" and (why := await self._refusal(action, first)):
            return SamplingAnswer(fault=why)
        answer = await self._ask(first.agent, action)
        self._hub.log(action.server, describe_question(action, answer))
        return answer

    async def _refusal(self, action: SamplingAction, call: OpenCall) -> str:
        """Why nobody has approved it; "" if somebody has."""
        request = ApprovalRequest(
            action=action,
            cause="sampling",
            call_id=call.call_id,
            keys=(question_key(action.server),),
        )
        call.agent.begin_question()
        try:
            decided = await self._decider.decide(call.agent.path, request)
        finally:
            call.agent.end_question()
        return "" if decided.outcome == "approved" else decided.text or decided.outcome

    async def _ask(self, agent: Agent, action: SamplingAction) -> SamplingAnswer:
        question = self._questions.begin(agent)
        number = question.number
        order = AskModel(
            question=number,
            server=action.server,
            turns=action.turns,
            system=action.system,
            max_tokens=action.max_tokens,
        )
        try:
            with trio.fail_after(ANSWER_LIMIT_S):
                await self._run.send(agent, order)
                await question.answered.wait()
            return question.answer or SamplingAnswer()
        except PeerGone:
            return SamplingAnswer(fault="the agent has ended")
        except trio.TooSlowError:
            with trio.move_on_after(_WITHDRAW_LIMIT_S):
                await self._withdraw(agent, number)
            return SamplingAnswer(fault=f"the model gave no answer within {ANSWER_LIMIT_S:g} s")
        except trio.Cancelled:
            with trio.move_on_after(_WITHDRAW_LIMIT_S, shield=True):
                await self._withdraw(agent, number)
            raise
        finally:
            self._questions.end(question)

    async def _withdraw(self, agent: Agent, number: int) -> None:
        try:
            await self._run.send(agent, WithdrawModelQuestion(question=number))
        except PeerGone:
            return  # it asks nothing any more

    def take_report(self, agent: Agent, report: ReportModelAnswer) -> Sent | RequestRefused:
        """What an agent's model wrote. Never waits."""
        return self._questions.settle(agent, report.question, report.answer)


def question_key(server: str) -> str:
    """What an approval for longer than once covers: all questions of this server to the model."""
    return msgspec.json.encode({"server": server, "tool": "sampling"}, order="sorted").decode()


def describe_question(action: SamplingAction, answer: SamplingAnswer) -> str:
    """A line for the server's log."""
    asked = sum(len(one.text) for one in action.turns)
    outcome = answer.fault or f"{len(answer.text):,} characters of {answer.model}"
    return f"[sampling] {asked:,} characters asked during {action.tool}: {outcome:.200}\n"
