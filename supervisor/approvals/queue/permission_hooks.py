"""Approvals of what an agent's command does outside of its process, as to reach a host.

Hooks run in the agent's process, so the supervisor asks it. A denial of a hook is the answer; what
a hook allows is judged by the broker, as that of any request.
"""

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.ops import AskPermissionHooks
from swarm.mailbox.protocol.requests import Decided, ReportPermission, RequestRefused, Sent

from ...agents.agent_record import Agent
from ...agents.process_questions import AskedQuestion, ProcessQuestions
from ...context.run_context import RunContext
from ..approval_types import Decider

MAX_ASKED = 16  # questions that the hooks of one agent's process have not answered
ASKED_EVENTS = frozenset({"PermissionRequest", "ApprovalRequested", "Notification"})
NO_ANSWER = "the agent ended before its hooks answered"
_TOO_MANY = f"{MAX_ASKED} questions to the hooks of this agent wait already"


class PermissionHooks:
    """A `Decider` that asks the agent's hooks before the broker."""

    def __init__(self, running: RunContext, decider: Decider) -> None:
        self._run, self._decider = running, decider
        self._has_hooks = any(
            hook.event in ASKED_EVENTS for hook in running.request.inherited.hooks
        )
        self._questions = ProcessQuestions[ReportPermission]()

    async def decide(self, agent: str, request: ApprovalRequest) -> Decided:
        """Decide one request about the agent at this path; see `approval_types.Decider`."""
        live = self._run.agents.live.get(agent)
        action = request.action
        has_hooks = self._has_hooks and live is not None and not live.plan.slotless
        if live is None or not has_hooks or not isinstance(action, NetworkAction):
            return await self._decider.decide(agent, request)
        said = await self._ask(live, action)
        if said.denied is not None:
            return Decided(outcome="denied", by="hook", text=said.denied)
        allowed = msgspec.structs.replace(request, allowed_by_hook=said.allowed_by)
        return await self._decider.decide(agent, allowed)

    async def _ask(self, agent: Agent, action: NetworkAction) -> ReportPermission:
        """The answer of the agent's process; a denial if there is none."""
        question = self._questions.begin(agent)
        number = question.number
        if self._count_open(question.process) > MAX_ASKED:
            self._questions.end(question)
            return ReportPermission(question=number, denied=_TOO_MANY)
        order = AskPermissionHooks(question=number, command=action.trigger, target=_address(action))
        try:
            await self._run.send(agent, order)
        except PeerGone:
            self._questions.end(question)
            return ReportPermission(question=number, denied=NO_ANSWER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer_when_ended, agent, question)
            await question.answered.wait()
            nursery.cancel_scope.cancel()
        return question.answer or ReportPermission(question=number, denied=NO_ANSWER)

    def _count_open(self, process: tuple[str, int]) -> int:
        """Open questions of this process. Those of ended and replaced ones are forgotten.

        One that was withdrawn stays open: its hooks run on.
        """
        path, epoch = process
        found = 0
        for one in self._questions.all_open():
            its_path, its_epoch = one.process
            if its_path not in self._run.agents.live or (its_path == path and its_epoch != epoch):
                self._questions.end(one)
            else:
                found += one.process == process
        return found

    def take_report(self, agent: Agent, report: ReportPermission) -> Sent | RequestRefused:
        """What an agent's hooks say. Never waits."""
        return self._questions.settle(agent, report.question, report)


def _address(action: NetworkAction) -> str:
    host = f"[{action.host}]" if ":" in action.host else action.host
    return f"{action.protocol}://{host}:{action.port}"


async def _answer_when_ended(agent: Agent, question: AskedQuestion[ReportPermission]) -> None:
    if agent.process.child is not None:
        await agent.process.child.wait_ended()
    question.answered.set()
