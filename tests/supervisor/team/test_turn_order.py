"""Order over a whole tree: random scripts of models, random words and blows from outside.

What must hold: a turn has one beginning and one end, and everything of it lies between; one turn
at a time; a request holds every call with its output, in order, and only grows; what is shown is
written; words are never lost.
"""

import tempfile
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from support.team_in_memory import open_team, says
from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from swarm.mailbox.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    Message,
    OutputText,
    Reasoning,
)
from swarm.mailbox.protocol.ops import (
    ApplySettings,
    Continue,
    Interrupt,
    Pause,
    TextInput,
    UserInput,
)
from swarm.mailbox.protocol.records import AgentSpawned, InputPosted, ItemRecorded, ProcessEnded
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.journal.journal_reader import read_records
from swarm.worker.testing.agent_harness import END, done, failed

ENDS = (TurnCompleted, TurnFailed, TurnAborted)
OF_A_TURN = (ItemRecorded, CallBegan, CallEnded, TokenCount)


def message(phase):
    return Message(role="assistant", content=(OutputText(text="x"),), phase=phase)


def call(name, arguments="{}", call_id="c"):
    return FunctionCall(call_id=call_id, name=name, arguments=arguments)


SPAWN = '{"task_name":"%s","message":"go","fork_turns":"none"}'
ITEMS = st.sampled_from(
    [
        call("work"),  # ten seconds
        call("nothing"),
        call("spawn_agent", SPAWN % "a"),
        call("spawn_agent", SPAWN % "b"),
        call("wait_agent", '{"timeout_ms":10000}'),
        call("spawn_agent", "no json"),
        Reasoning(),
        message("commentary"),
        message(None),
    ]
)
STEPS = st.one_of(ITEMS.map(done), st.floats(0.0, 3.0))
REPLIES = st.lists(
    st.tuples(
        st.lists(STEPS, max_size=4),
        st.sampled_from([END, END, END, failed("stream_disconnected", retryable=True)]),
    ).map(lambda pair: (*pair[0], pair[1])),
    max_size=5,
)
SCRIPTS = st.fixed_dictionaries({"/root": REPLIES, "/root/a": REPLIES, "/root/b": REPLIES})
KINDS = ("words", "interrupt", "pause", "continue", "settings", "kill")
DOINGS = st.lists(
    st.tuples(st.floats(0.01, 9.0), st.sampled_from(KINDS), st.sampled_from(["/root", "/root/a"])),
    max_size=6,
)


class Witness:
    """What is shown, and whether it had been written by then; every input of every life."""

    def __init__(self, team, scripts):
        self._tree, self._scripts = team, {path: list(one) for path, one in scripts.items()}
        self.unwritten = []
        self.inputs = {}  # (path, life) → inputs, in order
        team.decide = self.decide
        team.running.broadcast._view = SimpleNamespace(on_feed=self.on_feed)

    def decide(self, path, items):
        life = (path, len(self._tree.children[path]))
        self.inputs.setdefault(life, []).append(tuple(items))
        left = self._scripts.get(path)
        return left.pop(0) if left else says("done")

    def on_feed(self, feed):
        if isinstance(feed, Recorded) and isinstance(feed.record.body, ENDS):
            written = [one.seq for one in read_records(self._tree.running.paths)]
            if feed.record.seq not in written:
                self.unwritten.append(feed.record)


async def do(team, kind, path):
    life = team.control.agents.get(path)
    if life is None:
        return
    orders = {
        "interrupt": Interrupt(),
        "pause": Pause(),
        "continue": Continue(),
        "settings": ApplySettings(
            settings=AgentSettings(effort="high", limits=Limits(max_depth=9), cwd="/")
        ),
    }
    if kind == "words":
        words = UserInput(input_id=new_uuid7(), parts=(TextInput(text="hi"),))
        await team.control.send_input(life, words)
    elif kind == "kill":
        team.children[path][-1].kill_group()
    elif life.process.hello.is_set():
        with suppress(PeerGone):  # between two processes; a person's request does the same
            await team.running.send(life, orders[kind])


async def live_through(scripts, doings):
    with tempfile.TemporaryDirectory() as folder:
        async with open_team(Path(folder), {}) as team:
            witness = Witness(team, scripts)
            await team.begin()
            for seconds, kind, path in doings:
                await trio.sleep(seconds)
                await do(team, kind, path)
            for path in ("/root", "/root/a", "/root/b"):
                await do(team, "continue", path)
            await trio.sleep(3000)
            return list(read_records(team.running.paths)), witness


def check_turns(records):
    """One beginning, one end, everything of it between; a death cuts it off."""
    turns, ended = {}, set()
    started = set()
    for record in records:
        path, body = record.agent, record.body
        match body:
            case AgentSpawned():
                started.add(body.path)
                turns[body.path] = None
            case ProcessEnded():
                turns[path] = None
            case TurnStarted(turn_id=turn_id):
                assert path in started
                assert turns[path] is None
                assert (path, turn_id) not in ended
                turns[path] = turn_id
            case _ if isinstance(body, ENDS):  # None: its process is gone, its word not
                assert turns[path] in {
                    body.turn_id,
                    None,
                }
                turns[path] = None
                ended.add((path, body.turn_id))
            case _ if isinstance(body, OF_A_TURN) and body.turn_id:
                assert (path, body.turn_id) not in ended


def check_input(items):
    """Outputs follow all items of their response, in call order, one for each call."""
    waiting = []
    for item in items:
        if isinstance(item, FunctionCall):
            waiting.append(item)
        elif isinstance(item, FunctionCallOutput):
            assert item.call_id == waiting.pop(0).call_id
        elif isinstance(item, Message) and item.role == "user":
            assert not waiting
    assert not waiting


@settings(max_examples=30, deadline=None)
@given(SCRIPTS, DOINGS)
def test_turns_and_requests_keep_their_order_whatever_happens(scripts, doings):
    clock = MockClock(autojump_threshold=0)
    records, witness = trio.run(live_through, scripts, doings, clock=clock)
    assert witness.unwritten == []
    check_turns(records)
    assert [one.seq for one in records] == sorted({one.seq for one in records})
    for inputs in witness.inputs.values():
        for one in inputs:
            check_input(one)
        for before, after in pairwise(inputs):
            assert after[: len(before)] == before
    said = {one.body.input_id for one in records if isinstance(one.body, InputPosted)}
    read = {one.body.item_id for one in records if isinstance(one.body, ItemRecorded)}
    responses = {
        one.body.input_id
        for one in records
        if isinstance(one.body, InputPosted) and not one.body.parts
    }
    assert said - responses <= read
