"""Every approval request of a living turn gets exactly one answer, a refused one too."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from support.agent_records import plan_of
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.requests import Decided, RequestApproval
from swarm.supervisor.agents.agent_record import Agent, AgentProcess
from swarm.supervisor.approvals import approval_endpoint
from swarm.supervisor.approvals.approval_endpoint import ApprovalEndpoint


def request_for(word: str) -> RequestApproval:
    action = CommandAction(argv=("touch", word), cwd="/w")
    return RequestApproval(approval=ApprovalRequest(action=action, cause="escalation"))


class Stage:
    """One agent, a decider that waits for `approve`, and the answers that were sent."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.asked: list[str] = []
        self.answers: list[tuple[int, str, str]] = []
        self.approve = trio.Event()
        self.agent = Agent(plan_of("/root"))
        self.agent.process = AgentProcess(1)
        self.agent.process.child = SimpleNamespace(wait_ended=self._ended)
        self.end = trio.Event()
        self.endpoint = ApprovalEndpoint(SimpleNamespace(send=self._send), self, nursery)

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
async def stage():
    async with trio.open_nursery() as nursery:
        yield Stage(nursery)
        nursery.cancel_scope.cancel()


async def test_a_repeated_request_is_asked_once_and_gets_the_answer_of_the_first(stage):
    await stage.serve(1, "a")
    await stage.serve(1, "a")
    stage.approve.set()
    await wait_all_tasks_blocked()
    assert stage.asked == ["a"]
    assert stage.answers == [(1, "approved", "")]
    assert stage.agent.open_questions == 0


async def test_another_request_with_an_open_number_is_refused_and_says_why(stage):
    await stage.serve(1, "a")
    await stage.serve(1, "b")
    ((request_id, outcome, text),) = stage.answers
    assert (request_id, outcome) == (1, "unavailable")
    assert "its number belongs to an open question" in text
    assert stage.asked == ["a"]


async def test_a_request_beyond_the_limit_is_refused_and_says_why(stage, monkeypatch):
    monkeypatch.setattr(approval_endpoint, "MAX_SERVED", 2)
    for number, word in enumerate("abc"):
        await stage.serve(number, word)
    ((request_id, outcome, text),) = stage.answers
    assert (request_id, outcome) == (2, "unavailable")
    assert "2 questions of this agent wait already" in text
    stage.approve.set()
    await wait_all_tasks_blocked()
    assert sorted(one[:2] for one in stage.answers[1:]) == [(0, "approved"), (1, "approved")]


async def test_the_next_process_may_use_the_numbers_of_the_last_one(stage):
    await stage.serve(1, "a")
    stage.agent.process = AgentProcess(2)
    await stage.serve(1, "b")
    stage.approve.set()
    await wait_all_tasks_blocked()
    assert stage.asked == ["a", "b"]
    assert stage.answers == [(1, "approved", "")]  # the one of the process that is alive


@pytest.mark.parametrize("how", ["turn", "process"])
async def test_a_request_of_an_ended_turn_or_process_is_withdrawn_without_an_answer(stage, how):
    await stage.serve(1, "a")
    if how == "turn":
        stage.endpoint.withdraw(stage.agent)
    else:
        stage.end.set()
    await wait_all_tasks_blocked()
    stage.approve.set()
    await wait_all_tasks_blocked()
    assert (stage.answers, stage.agent.open_questions) == ([], 0)
