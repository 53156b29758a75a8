"""The fold of records into the view of a run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.mailbox.protocol.control import AgentView, Recorded, RunView, TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    OtherCall,
    OutputArrived,
    TextArrived,
    TokenCount,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import ResponseBilled, Throttled
from swarm.mailbox.protocol.items import TokenUsage, text_message
from swarm.mailbox.protocol.ops import Mail, TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    FanOutPlanned,
    InputPosted,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.console.run_state import RunState

MODEL = ModelInfo(slug="m1", provider="p", wire="chat", context_window=1000)
SCOUT = "/root/scout"


class Teller:
    """Numbers records as the journal does and applies them."""

    def __init__(self, state=None):
        self.state = state or RunState(clock=lambda: 500.0)
        self.seq = self.state.seq

    def tell(self, agent, *bodies):
        for body in bodies:
            self.seq += 1
            record = Record(seq=self.seq, ts=100.0 + self.seq, agent=agent, body=body)
            self.state.apply(Recorded(record=record))

    def spawn(self, path, agent_id, *, epoch=1, pid=7):
        self.tell(path, AgentSpawned(agent_id=agent_id, path=path, epoch=epoch, pid=pid))

    def agent(self, path=SCOUT):
        return self.state.agent(path)


@pytest.fixture
def teller():
    told = Teller()
    told.tell("", RunStarted(run_id="r-12345678", task="t.md", title="T", cwd="/w", version="1"))
    told.spawn("/root", "id0")
    told.spawn(SCOUT, "id1", pid=8)
    return told


def test_a_turn_walks_through_its_states(teller):
    assert teller.agent().state == "starting"
    teller.tell(SCOUT, TurnStarted(turn_id="t", model=MODEL))
    assert (teller.agent().state, teller.agent().model) == ("running", "m1")
    teller.tell(SCOUT, TurnCompleted(turn_id="t", last_message="done\nwell"))
    assert (teller.agent().state, teller.agent().result) == ("idle", "done\nwell")
    teller.tell(SCOUT, AgentEnded(agent_id="id1", state="completed", message="done"))
    assert (teller.agent().state, teller.agent().end_state) == ("ended", "completed")


def test_of_parallel_calls_the_latest_that_still_runs_is_shown(teller):
    def begin(call_id, script):
        detail = CommandCall(script=script, argv=(), cwd="/")
        teller.tell(SCOUT, CallBegan(turn_id="t", call_id=call_id, tool="exec", detail=detail))

    def end(call_id):
        ended = CallEnded(turn_id="t", call_id=call_id, tool="exec", status="completed")
        teller.tell(SCOUT, ended)

    begin("a", "one")
    begin("b", "two")
    begin("c", "three")
    shown = []
    for call_id in ("b", "c", "a"):
        end(call_id)
        shown.append((teller.agent().tool, teller.agent().argument))
    assert shown == [("exec", "three"), ("exec", "one"), ("", "")]


def test_a_record_told_twice_changes_nothing(teller):
    view = teller.state.view()
    old = Record(seq=teller.seq, ts=999.0, agent=SCOUT, body=Warned(message="again"))
    teller.state.apply(Recorded(record=old))
    assert teller.state.view() is view


def test_a_snapshot_continues_where_it_was_taken(teller):
    detail = OtherCall(argument="x")
    teller.tell(SCOUT, CallBegan(turn_id="t", call_id="c", tool="read", detail=detail))
    other = Teller(RunState(teller.state.view()))
    for each in (teller, other):
        each.tell(SCOUT, CallEnded(turn_id="t", call_id="c", tool="read", status="completed"))
        each.tell(SCOUT, AgentEnded(agent_id="id1", state="failed", message="no"))
        each.tell(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, orderly=True))
    assert other.state.view() == teller.state.view()
    assert other.state.agents_seen == 2


def test_slots_are_live_processes_and_nothing_else(teller):
    assert teller.state.view().slots_used == 2
    teller.tell(SCOUT, AgentEnded(agent_id="id1", state="completed"))
    assert teller.state.view().slots_used == 2
    teller.tell(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, orderly=True))
    assert teller.state.view().slots_used == 1


def test_the_late_end_of_an_earlier_life_does_not_free_the_new_one(teller):
    teller.spawn(SCOUT, "id1", epoch=2, pid=9)
    teller.tell(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, reason="killed"))
    assert teller.agent().pid == 9
    assert teller.state.view().slots_used == 2


def test_a_crash_is_a_restart_and_an_orderly_end_a_suspension(teller):
    teller.tell(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, reason="killed by signal 9"))
    assert (teller.agent().state, teller.agent().note) == ("restarting", "killed by signal 9")
    teller.tell("/root", ProcessEnded(agent_id="id0", epoch=1, pid=7, orderly=True))
    assert teller.agent("/root").state == "suspended"


def test_a_wait_is_noted_until_the_next_progress(teller):
    teller.tell(SCOUT, TurnStarted(turn_id="t", model=MODEL))
    waiting = Waiting(reason="rate limited", delay_s=12, attempt=2, max_attempts=5)
    teller.state.apply(TransientEvent(agent=SCOUT, event=waiting))
    assert teller.agent().state == "waiting"
    assert teller.agent().note == "rate limited, again in 12 s (2/5)"
    text = TextArrived(turn_id="t", item_id="i", delta="hello")
    teller.state.apply(TransientEvent(agent=SCOUT, event=text))
    shown = teller.agent()
    assert (shown.state, shown.note, shown.text) == ("running", "", "hello")
    assert shown.last_progress == 500.0


def test_passing_events_of_an_ended_agent_do_not_wake_it(teller):
    teller.tell(SCOUT, AgentEnded(agent_id="id1", state="failed", message="no key"))
    for event in (
        TextArrived(turn_id="t", item_id="i", delta="late"),
        Waiting(reason="r"),
        OutputArrived(turn_id="t", call_id="c", delta="x"),
    ):
        teller.state.apply(TransientEvent(agent=SCOUT, event=event))
    assert (teller.agent().state, teller.agent().end_state) == ("ended", "failed")


def test_tokens_come_from_counts_and_money_from_payments(teller):
    count = TokenCount(
        turn_id="t",
        last=TokenUsage(total_tokens=10),
        total=TokenUsage(total_tokens=30),
        context_tokens=250,
        context_window=1000,
    )
    paid = ResponseBilled(agent_id="id1", provider="p", model="m", usage=TokenUsage(), usd=0.5)
    teller.tell(SCOUT, count)
    teller.tell("", paid, paid)
    scout, run = teller.agent(), teller.state.view()
    assert (scout.usage.total_tokens, scout.context_tokens, scout.usd) == (30, 250, 1.0)
    assert (run.usage.total_tokens, run.usd) == (10, 1.0)


def test_the_task_is_the_first_line_also_when_it_was_posted_before_the_start(teller):
    deep = "/root/scout/deep"
    letter = Mail(
        mail_id="m", author=SCOUT, recipient=deep, content="\n# Look here\nmore", kind="new_task"
    )
    teller.tell(SCOUT, MailPosted(mail=letter))
    teller.spawn(deep, "id2")
    teller.tell(SCOUT, InputPosted(input_id="i", parts=(TextInput(text="  first\nsecond"),)))
    assert teller.agent(deep).task == "# Look here"
    assert teller.agent().task == "first"


def test_old_ended_agents_keep_their_figures_and_lose_their_texts():
    told = Teller(RunState(clock=lambda: 0.0, keep_ended=2))
    for number in range(5):
        path = f"/root/a{number}"
        told.spawn(path, f"id{number}")
        ended = AgentEnded(
            agent_id=f"id{number}",
            state="completed",
            message="x" * 500,
            usage=TokenUsage(total_tokens=number + 1),
        )
        told.tell(path, ended)
    views = told.state.view().agents
    assert [len(view.result) for view in views] == [60, 60, 60, 500, 500]
    assert [view.usage.total_tokens for view in views] == [1, 2, 3, 4, 5]
    assert told.state.agents_seen == 5


def test_a_fan_out_is_counted_by_its_items_newest_attempts():
    told = Teller()
    told.tell("", FanOutPlanned(items=("a", "b", "c"), names=("a", "b", "c")))

    def end(index, state, attempt=1):
        body = FanOutItemEnded(index=index, item="i", agent="/root/i", state=state, attempt=attempt)
        told.tell("", body)

    end(0, "completed")
    end(1, "failed")
    end(1, "completed", attempt=2)
    end(2, "crashed")
    run = told.state.view()
    assert (run.fan_total, run.fan_done, run.fan_failed) == (3, 2, 1)


def test_a_resumed_run_has_no_process_of_its_earlier_life(teller):
    again = RunStarted(run_id="r-12345678", task="t", title="T", cwd="/", version="1", resumed=True)
    teller.tell("", again)
    run = teller.state.view()
    assert run.slots_used == 0
    assert {(agent.state, agent.pid) for agent in run.agents} == {("suspended", 0)}


def test_the_end_of_the_run_ends_its_root(teller):
    teller.tell("", RunCompleted(status="provider", message="no provider"))
    root = teller.agent("/root")
    assert (root.state, root.end_state) == ("ended", "failed")
    assert teller.state.view().status == "provider"


def test_a_throttle_is_shown_until_it_holds_no_longer(teller):
    state = teller.state
    state.apply(TransientEvent(agent="", event=Throttled(reason="429", delay_s=3.0, waiting=4)))
    assert state.view().throttle == "429, next request in 3.0 s, 4 waiting"
    state.apply(TransientEvent(agent="", event=Throttled(reason="")))
    assert state.view().throttle == ""


def test_a_queued_agent_that_never_started_can_be_forgotten(teller):
    teller.state.set_agent_state("/root/next", "queued", note="place 3 in line")
    assert "/root/next" in [agent.path for agent in teller.state.view().agents]
    teller.state.remove_queued("/root/next")
    teller.state.remove_queued(SCOUT)
    assert [agent.path for agent in teller.state.view().agents] == ["/root", SCOUT]


def test_memory_and_progress_of_a_process_are_noted(teller):
    teller.state.set_process_usage(SCOUT, 5_000_000, 450.0)
    teller.state.set_process_usage("/root/nobody", 1)
    assert (teller.agent().rss_bytes, teller.agent().last_progress) == (5_000_000, 450.0)


def test_what_a_provider_says_cannot_move_the_cursor(teller):
    teller.tell("", ProviderChosen(provider="p\x1b[2J", model="m\n", why="\x9b1mwhy\u202e"))
    run = teller.state.view()
    assert (run.provider, run.model, run.why) == ("p", "m", "why")


TEXT = st.text(max_size=40)
PATHS = st.sampled_from(["", "/root", "/root/a", "/root/a/b", "/root/c", "odd"])
IDS = st.sampled_from(["id0", "id1", "id2"])
ENDS = st.sampled_from(["completed", "failed", "killed"])
BODIES = st.one_of(
    st.builds(AgentSpawned, agent_id=IDS, path=PATHS.filter(bool), epoch=st.integers(1, 3),
              pid=st.integers(1, 9), role=TEXT, nickname=TEXT),
    st.builds(ProcessEnded, agent_id=IDS, epoch=st.integers(1, 3), pid=st.integers(1, 9),
              orderly=st.booleans(), reason=TEXT),
    st.builds(AgentEnded, agent_id=IDS, state=ENDS, message=TEXT),
    st.builds(TurnStarted, turn_id=TEXT, model=st.just(MODEL)),
    st.builds(TurnCompleted, turn_id=TEXT, last_message=st.none() | TEXT),
    st.builds(TurnFailed, turn_id=TEXT, kind=st.just("other"), message=TEXT),
    st.builds(TurnAborted, turn_id=TEXT),
    st.builds(CallBegan, turn_id=TEXT, call_id=IDS, tool=TEXT,
              detail=st.builds(OtherCall, argument=TEXT)),
    st.builds(CallEnded, turn_id=TEXT, call_id=IDS, tool=TEXT, status=st.just("failed")),
    st.builds(Warned, message=TEXT),
    st.builds(ItemRecorded, turn_id=TEXT, item_id=TEXT,
              item=st.builds(lambda text: text_message("assistant", text), TEXT)),
    st.builds(FanOutPlanned, items=st.tuples(TEXT), names=st.tuples(TEXT)),
    st.builds(FanOutItemEnded, index=st.integers(-2, 5), item=TEXT, agent=PATHS, state=ENDS),
    st.builds(RunCompleted, status=st.sampled_from(["completed", "failed"]), message=TEXT),
    st.builds(RunStarted, run_id=TEXT, task=TEXT, title=TEXT, cwd=TEXT, version=TEXT,
              resumed=st.booleans()),
)  # fmt: skip
PASSING = st.one_of(
    st.builds(TextArrived, turn_id=TEXT, item_id=TEXT, delta=TEXT),
    st.builds(Waiting, reason=TEXT, delay_s=st.floats(0, 1e6)),
    st.builds(Throttled, reason=TEXT, delay_s=st.none() | st.floats(0, 1e6)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(PATHS, BODIES | PASSING), max_size=40))
def test_any_sequence_of_records_folds_to_a_sorted_tree(told):
    state = RunState(clock=lambda: 1.0, keep_ended=1)
    for number, (agent, body) in enumerate(told, start=1):
        if isinstance(body, TextArrived | Waiting | Throttled):
            state.apply(TransientEvent(agent=agent, event=body))
        else:
            state.apply(Recorded(record=Record(seq=number, ts=1.0, agent=agent, body=body)))
        run = state.view()
        paths = [view.path for view in run.agents]
        assert paths == sorted(set(paths))
        assert run.slots_used == sum(view.pid > 0 for view in run.agents)
    assert RunState(state.view()).view() == state.view()


def test_an_empty_run_is_a_view_too():
    assert RunState().view() == RunView()
    assert RunState(RunView(agents=(AgentView(path="/root"),))).view().agents


def test_before_a_resume_bills_stand_for_what_agents_counted_and_an_orderly_end_for_both():
    state = RunState()

    def past(seq, body, agent=SCOUT):
        state.apply_past(Record(seq=seq, ts=0.0, body=body, agent=agent))

    def drew(tokens):
        usage = TokenUsage(total_tokens=tokens)
        return ResponseBilled(agent_id="a", provider="p", model="m", usage=usage)

    past(1, drew(100))
    past(2, drew(7), agent="/guardian")
    assert state.view().usage.total_tokens == 100
    past(3, RunCompleted(status="completed", usage=TokenUsage(total_tokens=90)), agent="")
    past(4, drew(20))
    assert state.view().usage.total_tokens == 110
