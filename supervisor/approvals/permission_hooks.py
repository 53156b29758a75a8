"""Approvals of what an agent's command does outside of its process, as to reach a host.

Hooks run in the agent's process, so the supervisor asks it. A denial of a hook is the answer; what
a hook allows is judged by the broker, as that of any request.
"""

from itertools import count

import msgspec
import trio

from swarm.mailbox.errors import PeerGone
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.ops import AskPermissionHooks
from swarm.mailbox.protocol.requests import Decided, ReportPermission, RequestRefused, Sent

from ..agents.agent_record import Agent
from ..run_context import RunContext
from .approval_types import Decider

MAX_ASKED = 16  # questions that the hooks of one agent's process have not answered
ASKED_EVENTS = frozenset({"PermissionRequest", "ApprovalRequested", "Notification"})
NO_ANSWER = "the agent ended before its hooks answered"
_TOO_MANY = f"{MAX_ASKED} questions to the hooks of this agent wait already"


class _OpenQuestion:
    """A question that an agent's process works on; only that process may answer it."""

    def __init__(self, process: tuple[str, int]) -> None:
        self.process = process
        self.answered = trio.Event()
        self.report: ReportPermission | None = None


class PermissionHooks:
    """A `Decider` that asks the agent's hooks before the broker."""

    def __init__(self, running: RunContext, decider: Decider) -> None:
        self._run, self._decider = running, decider
        self._has_hooks = any(hook.event in ASKED_EVENTS for hook in running.request.hooks)
        self._open: dict[int, _OpenQuestion] = {}
        self._numbers = count(1)

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
        process = (agent.path, agent.epoch)
        self._forget_ended_processes(process)
        number = next(self._numbers)
        if sum(one.process == process for one in self._open.values()) >= MAX_ASKED:
            return ReportPermission(question=number, denied=_TOO_MANY)
        question = self._open[number] = _OpenQuestion(process)
        order = AskPermissionHooks(question=number, command=action.trigger, target=_address(action))
        try:
            await self._run.send(agent, order)
        except PeerGone:
            del self._open[number]
            return ReportPermission(question=number, denied=NO_ANSWER)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_answer_when_ended, agent, question)
            await question.answered.wait()
            nursery.cancel_scope.cancel()
        return question.report or ReportPermission(question=number, denied=NO_ANSWER)

    def _forget_ended_processes(self, process: tuple[str, int]) -> None:
        """Hooks of a process that has ended, or was replaced by this one, answer no more."""
        path, epoch = process
        live = self._run.agents.live
        gone = [
            number
            for number, one in self._open.items()
            if one.process[0] not in live or (one.process[0] == path and one.process[1] != epoch)
        ]
        for number in gone:
            del self._open[number]

    def take_report(self, agent: Agent, report: ReportPermission) -> Sent | RequestRefused:
        """What an agent's hooks say. Never waits."""
        question = self._open.get(report.question)
        if question is None or question.process != (agent.path, agent.epoch):
            return RequestRefused(message="nobody waits for this answer")
        del self._open[report.question]
        question.report = report
        question.answered.set()
        return Sent()


def _address(action: NetworkAction) -> str:
    host = f"[{action.host}]" if ":" in action.host else action.host
    return f"{action.protocol}://{host}:{action.port}"


async def _answer_when_ended(agent: Agent, question: _OpenQuestion) -> None:
    if agent.process.child is not None:
        await agent.process.child.wait_ended()
    question.answered.set()
