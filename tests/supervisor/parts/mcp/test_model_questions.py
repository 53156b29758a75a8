"""Questions of servers to models: who is asked, who may answer, and when there is no answer."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.hub import ModelAsked
from swarm.mailbox.protocol.mcp import McpServer
from swarm.mailbox.protocol.ops import AskModel, WithdrawModelQuestion
from swarm.mailbox.protocol.requests import Decided, ReportModelAnswer, RequestRefused, Sent
from swarm.mailbox.protocol.server_sampling import SamplingAction, SamplingAnswer, SamplingTurn
from swarm.supervisor.parts.mcp.model_questions import ANSWER_LIMIT_S, ModelQuestions

ASKED = ModelAsked(
    question=1,
    requests=(7,),
    action=SamplingAction(
        server="s", turns=(SamplingTurn(role="user", text="hello"),), tool="think"
    ),
)
ANSWER = SamplingAnswer(text="yes", model="m")


class Agent:
    """An agent whose process takes orders."""

    def __init__(self, path="/root/a", epoch=1):
        self.path, self.epoch = path, epoch
        self.questions = 0

    def begin_question(self):
        self.questions += 1

    def end_question(self):
        self.questions -= 1


class World:
    """The run, its hub and its decider, as far as a question touches them."""

    def __init__(self, sampling="approve", decided=None, gone=False):
        self.sent, self.asked, self.logged = [], [], []
        self._decided, self._gone = decided, gone
        self.servers = {"s": McpServer(name="s", sampling=sampling, source="/c, line 1")}
        self.questions = ModelQuestions(self, self, self)

    async def send(self, agent, order):
        await trio.lowlevel.checkpoint()
        if self._gone:
            raise PeerGone(b"agent")
        self.sent.append(order)

    async def decide(self, agent, request):
        self.asked.append((agent, request))
        await trio.lowlevel.checkpoint()
        return self._decided

    def log(self, server, text):
        self.logged.append(text)


def calls(*agents):
    return tuple(SimpleNamespace(agent=one, server="s", call_id="c") for one in agents)


async def answered_by(world, agent, *reports):
    """The answer, while these reports arrive: (whose, question, answer)."""
    answers, replies = [], []

    async def ask():
        answers.append(await world.questions.answer(ASKED, calls(agent)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        for whose, question, answer in reports:
            report = ReportModelAnswer(question=question, answer=answer)
            replies.append(world.questions.take_report(whose, report))
    return answers[0], replies


async def test_the_calling_agents_model_answers_and_nobody_else_does(autojump_clock):
    world, agent = World(), Agent()
    stranger, reborn = Agent("/root/b"), Agent(epoch=2)
    false = SamplingAnswer(text="no")
    answer, replies = await answered_by(
        world, agent, (stranger, 1, false), (reborn, 1, false), (agent, 2, false),
        (agent, 1, ANSWER),
    )  # fmt: skip
    assert answer == ANSWER
    assert [type(one) for one in replies] == [*[RequestRefused] * 3, Sent]
    assert world.sent == [
        AskModel(question=1, server="s", turns=ASKED.action.turns, max_tokens=1_000)
    ]
    assert world.logged == ["[sampling] 5 characters asked during think: 3 characters of m\n"]
    assert world.asked == []


@pytest.mark.parametrize(
    ("decided", "fault"),
    [
        (Decided(outcome="denied", text="rejected by user"), "rejected by user"),
        (Decided(outcome="timed_out"), "timed_out"),
    ],
)
async def test_what_is_not_approved_reaches_no_model(decided, fault):
    world, agent = World("prompt", decided), Agent()
    assert (await world.questions.answer(ASKED, calls(agent))).fault == fault
    ((path, request),) = world.asked
    assert (path, request.cause, request.call_id) == ("/root/a", "sampling", "c")
    assert request.action.source == "/c, line 1"
    assert request.keys == ('{"server":"s","tool":"sampling"}',)
    assert world.sent == []
    assert agent.questions == 0


async def test_a_server_whose_table_is_silent_reaches_no_model():
    world = World("off")
    assert "may not" in (await world.questions.answer(ASKED, calls(Agent()))).fault
    assert world.sent == world.asked == []


async def test_no_agent_pays_for_what_may_be_anothers_call():
    world, agent = World(), Agent()
    answer = await world.questions.answer(ASKED, calls(agent, agent, Agent("/root/b")))
    assert "per_agent = true" in answer.fault
    assert world.sent == []


async def test_an_agent_that_has_ended_or_says_nothing_gives_no_answer(autojump_clock):
    ended = World(gone=True)
    assert (await ended.questions.answer(ASKED, calls(Agent()))).fault == "the agent has ended"
    silent = World()
    answer = await silent.questions.answer(ASKED, calls(Agent()))
    assert "no answer within 600 s" in answer.fault
    assert trio.current_time() == pytest.approx(ANSWER_LIMIT_S)
    assert silent.sent[1:] == [WithdrawModelQuestion(question=1)]


async def test_a_question_that_ends_early_is_withdrawn_from_the_agent(autojump_clock):
    world = World()
    with trio.move_on_after(5):
        await world.questions.answer(ASKED, calls(Agent()))
    assert world.sent[1:] == [WithdrawModelQuestion(question=1)]
