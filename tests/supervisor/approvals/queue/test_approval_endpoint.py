"""Every approval request of a living turn gets exactly one answer, a refused one too."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from support.agent_records import plan_of
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.requests import Decided, RequestApproval
from swarm.supervisor.agents.agent_record import Agent
from swarm.supervisor.agents.process_record import AgentProcess
from swarm.supervisor.approvals.queue import approval_endpoint
from swarm.supervisor.approvals.queue.approval_endpoint import ApprovalEndpoint
from swarm.supervisor.approvals.queue.permission_hooks import PermissionHooks
from swarm.supervisor.request.run_request import RunRequest


def request_for(word: str) -> RequestApproval:
    action = CommandAction(argv=("touch", word), cwd="/w")
    return RequestApproval(approval=ApprovalRequest(action=action, cause="escalation"))


class EndpointUnderTest:
    """One agent, a decider that waits for `approve`, and the answers that were sent."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, str, str]] = []
        self.approve = trio.Event()
        self.agent = Agent(plan_of("/root"))
        self.agent.process = AgentProcess(1)
        self.agent.process.child = SimpleNamespace(wait_ended=self._ended)
        self.end = trio.Event()
        without_hooks = SimpleNamespace(request=RunRequest(cwd="/"))
        self.endpoint = ApprovalEndpoint(
            SimpleNamespace(send=self._send), self, PermissionHooks(without_hooks, self), nursery
        )

    async def _ended(self) -> None:
        await self.end.wait()

    async def decide(self, agent: str, request: ApprovalRequest) -> Decided:
        self.asked.append(request.action.argv[1])
        await self.approve.wait()
        return Decided(outcome="approved", by="person")

    async def _send(self, agent, answer) -> None:
        self.answers.append((answer.request_id, answer.reply.outcome, answer.reply.text))

    async def serve(self, request_id: int, word: str) -> None:
        self.endpoint.serve(self.agent, request_id, request_for(word))
        await wait_all_tasks_blocked()


@pytest.fixture
async def under_test():
    async with trio.open_nursery() as nursery:
        yield EndpointUnderTest(nursery)
        nursery.cancel_scope.cancel()


async def test_a_repeated_request_is_asked_once_and_gets_the_answer_of_the_first(under_test):
    await under_test.serve(1, "a")
    await under_test.serve(1, "a")
    under_test.approve.set()
    await wait_all_tasks_blocked()
    assert under_test.asked == ["a"]
    assert under_test.answers == [(1, "approved", "")]
    assert under_test.agent.open_questions == 0


async def test_another_request_with_an_open_number_is_refused_and_says_why(under_test):
    await under_test.serve(1, "a")
    await under_test.serve(1, "b")
    ((request_id, outcome, text),) = under_test.answers
    assert (request_id, outcome) == (1, "unavailable")
    assert "its number belongs to an open question" in text
    assert under_test.asked == ["a"]


async def test_a_request_beyond_the_limit_is_refused_and_says_why(under_test, monkeypatch):
    monkeypatch.setattr(approval_endpoint, "MAX_SERVED", 2)
    for number, word in enumerate("abc"):
        await under_test.serve(number, word)
    ((request_id, outcome, text),) = under_test.answers
    assert (request_id, outcome) == (2, "unavailable")
    assert "2 questions of this agent wait already" in text
    under_test.approve.set()
    await wait_all_tasks_blocked()
    assert sorted(one[:2] for one in under_test.answers[1:]) == [(0, "approved"), (1, "approved")]


async def test_the_next_process_may_use_the_numbers_of_the_last_one(under_test):
    await under_test.serve(1, "a")
    under_test.agent.process = AgentProcess(2)
    await under_test.serve(1, "b")
    under_test.approve.set()
    await wait_all_tasks_blocked()
    assert under_test.asked == ["a", "b"]
    assert under_test.answers == [(1, "approved", "")]  # the one of the process that is alive


@pytest.mark.parametrize("how", ["turn", "process"])
async def test_a_request_of_an_ended_turn_or_process_is_withdrawn_without_an_answer(
    under_test, how
):
    await under_test.serve(1, "a")
    if how == "turn":
        under_test.endpoint.withdraw(under_test.agent)
    else:
        under_test.end.set()
    await wait_all_tasks_blocked()
    under_test.approve.set()
    await wait_all_tasks_blocked()
    assert (under_test.answers, under_test.agent.open_questions) == ([], 0)
