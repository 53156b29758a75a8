"""A "continue" never keeps an agent at work: any turn fulfils it, and a running one ignores it.

The same rule holds for a process and for what its journal remembers.
"""

from types import SimpleNamespace

from swarm.mailbox.protocol.events import TurnCompleted, TurnStarted
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import InputPosted, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.agents.agent_record import Agent, AgentPlan, GatewayAddress
from swarm.supervisor.agents.life.agent_manager import AgentManager
from swarm.supervisor.context.run_phases import RunEvent
from swarm.supervisor.journal.replay import AgentMemory, fold_agent

MODEL = ModelInfo(slug="m", provider="p", wire="scripted", context_window=1_000)
PLAN = AgentPlan(path="/root", agent_id="a", role=RoleBrief(), limits=Limits(), cwd="/")
REQUEST = InputPosted(input_id="request", parts=(), source="task")
WORDS = InputPosted(input_id="words", parts=(TextInput(text="hear me"),), source="person")
BY_MAIL = TurnStarted(turn_id="posted_mail", model=MODEL)
OVER = TurnCompleted(turn_id="posted_mail", last_message="done")


async def test_a_turn_that_a_mail_began_fulfils_the_request_but_leaves_words_to_be_read():
    agent = Agent(PLAN)
    agent.expect_turn("request", is_continue=True)
    agent.expect_turn("words", is_continue=False)
    agent.begin_turn("posted_mail")
    assert agent.pending_inputs == {"words"}


async def test_a_request_that_comes_while_a_turn_runs_is_not_waited_for():
    agent = Agent(PLAN)
    agent.begin_turn("posted_mail")
    agent.expect_turn("request", is_continue=True)
    assert not agent.pending_inputs


def remembered(*bodies) -> AgentMemory:
    return fold_agent(Record(seq=n, ts=0.0, body=one) for n, one in enumerate(bodies, start=1))


def test_a_journal_remembers_no_request_that_a_turn_has_fulfilled():
    assert list(remembered(REQUEST, WORDS, BY_MAIL).inputs) == ["words"]
    assert not remembered(BY_MAIL, REQUEST, OVER).inputs


def test_a_request_that_no_turn_has_taken_up_is_remembered():
    assert list(remembered(BY_MAIL, REQUEST).inputs) == ["request"]


def manager_of(*, is_ending: bool) -> AgentManager:
    directory = SimpleNamespace(live={}, apply=lambda agent, event: frozenset())
    manager = AgentManager(
        SimpleNamespace(agents=directory, note=lambda *_, **__: None, deadline_unix_s=None),
        None,
        GatewayAddress(),
    )
    if is_ending:
        manager.run_life.apply(RunEvent.END_BEGAN)
    return manager


def end_turn(agent, *, is_ending: bool) -> str | None:
    """The end state that the end of its turn makes of its work; None: it goes on."""
    agent.begin_work()
    agent.turn_ends_pending = 1
    manager_of(is_ending=is_ending).on_turn_end(agent, OVER)
    return agent.present_outcome and agent.present_outcome.state


async def test_input_that_no_turn_has_read_keeps_an_agent_at_work_but_no_run_that_is_ending():
    agent = Agent(PLAN)
    assert end_turn(agent, is_ending=False) == "completed"
    agent.begin_work()
    agent.expect_turn("words", is_continue=False)
    assert end_turn(agent, is_ending=False) is None
    assert end_turn(agent, is_ending=True) == "interrupted"


async def test_the_end_of_a_turn_that_is_written_late_opens_no_work_of_an_agent_that_is_gone():
    agent = Agent(PLAN)
    agent.begin_turn("next")
    agent.gone.set()
    assert end_turn(agent, is_ending=False) == "completed"
