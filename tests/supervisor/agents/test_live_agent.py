"""A wish to go on never keeps an agent at work: any turn fulfils it, and a running one swallows it.

The same rule holds for a life and for what its journal remembers.
"""

from types import SimpleNamespace

from swarm.mailbox.protocol.events import TurnCompleted, TurnStarted
from swarm.mailbox.protocol.limits import Limits
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import InputPosted, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.supervisor.agents.live_agent import AgentPlan, LiveAgent
from swarm.supervisor.agents.turn_end import on_turn_end
from swarm.supervisor.journal.replay import AgentMemory, fold_agent
from swarm.supervisor.run_end import RunEnd

MODEL = ModelInfo(slug="m", provider="p", wire="scripted", context_window=1_000)
PLAN = AgentPlan(path="/root", agent_id="a", role=RoleBrief(), limits=Limits(), cwd="/")
WISH = InputPosted(input_id="wish", parts=(), source="task")
WORDS = InputPosted(input_id="words", parts=(TextInput(text="hear me"),), source="person")
BY_LETTER = TurnStarted(turn_id="letter", model=MODEL)
OVER = TurnCompleted(turn_id="letter", last_message="done")


async def test_a_turn_that_a_letter_began_fulfils_the_wish_but_leaves_words_to_be_read():
    agent = LiveAgent(PLAN, epoch=2)
    agent.expect_turn("wish", is_wish=True)
    agent.expect_turn("words", is_wish=False)
    agent.begin_turn("letter")
    assert agent.pending_inputs == {"words"}


async def test_a_wish_that_comes_while_a_turn_runs_is_not_waited_for():
    agent = LiveAgent(PLAN, epoch=2)
    agent.begin_turn("letter")
    agent.expect_turn("wish", is_wish=True)
    assert not agent.pending_inputs


def remembered(*bodies) -> AgentMemory:
    return fold_agent(Record(seq=n, ts=0.0, body=one) for n, one in enumerate(bodies, start=1))


def test_a_journal_remembers_no_wish_that_a_turn_has_fulfilled():
    assert list(remembered(WISH, WORDS, BY_LETTER).inputs) == ["words"]
    assert not remembered(BY_LETTER, WISH, OVER).inputs


def test_a_wish_that_no_turn_has_taken_up_is_remembered():
    assert list(remembered(BY_LETTER, WISH).inputs) == ["wish"]


def concluded(agent, *, is_ending: bool) -> list[str]:
    """The end states that the end of its turn makes of its work."""
    states: list[str] = []
    control = SimpleNamespace(
        run_end=RunEnd(), end_work=lambda agent, state, *_: states.append(state)
    )
    control.run_end.has_begun = is_ending
    agent.turn_ends_pending = 1
    on_turn_end(control, agent, OVER)
    return states


async def test_words_that_no_turn_has_read_keep_an_agent_at_work_but_no_run_that_is_ending():
    agent = LiveAgent(PLAN, epoch=1)
    agent.begin_turn("letter")
    agent.turn = None
    assert concluded(agent, is_ending=False) == ["completed"]
    agent.expect_turn("words", is_wish=False)
    assert concluded(agent, is_ending=False) == []
    assert concluded(agent, is_ending=True) == ["interrupted"]
