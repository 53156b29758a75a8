"""The fold of records into the view of a run."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.control import (
    AgentHeld,
    AgentView,
    AnyFeed,
    MemoryUsed,
    QueueLeft,
    Recorded,
    RunView,
    TransientEvent,
    decode_feed,
)
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
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished
from swarm.supervisor.context.event_broadcast import EventBroadcast
from swarm.supervisor.views.run_state import RunState

MODEL = ModelInfo(slug="m1", provider="p", wire="chat", context_window=1000)
SCOUT = "/root/scout"


class FoldedRun:
    """Numbers records as the journal does and applies them."""

    def __init__(self, state=None):
        self.state = state or RunState(clock=lambda: 500.0)
        self.seq = self.state.seq

    def record(self, agent, *bodies):
        for body in bodies:
            self.seq += 1
            record = Record(seq=self.seq, ts=100.0 + self.seq, agent=agent, body=body)
            self.state.apply(Recorded(record=record))

    def spawn(self, path, agent_id, *, epoch=1, pid=7):
        self.record(path, AgentSpawned(agent_id=agent_id, path=path, epoch=epoch, pid=pid))

    def agent(self, path=SCOUT):
        return self.state.agent(path)


@pytest.fixture
def run():
    run = FoldedRun()
    run.record("", RunStarted(run_id="r-12345678", task="t.md", title="T", cwd="/w", version="1"))
    run.spawn("/root", "id0")
    run.spawn(SCOUT, "id1", pid=8)
    return run


def test_a_turn_walks_through_its_states(run):
    assert run.agent().state == "starting"
    run.record(SCOUT, TurnStarted(turn_id="t", model=MODEL))
    assert (run.agent().state, run.agent().model) == ("running", "m1")
    run.record(SCOUT, TurnCompleted(turn_id="t", last_message="done\nwell"))
    assert (run.agent().state, run.agent().result) == ("idle", "done\nwell")
    run.record(SCOUT, AgentEnded(agent_id="id1", state="completed", message="done"))
    assert (run.agent().state, run.agent().end_state) == ("ended", "completed")


def test_of_parallel_calls_the_latest_that_still_runs_is_shown(run):
    def begin(call_id, script):
        detail = CommandCall(script=script, argv=(), cwd="/")
        run.record(SCOUT, CallBegan(turn_id="t", call_id=call_id, tool="exec", detail=detail))

    def end(call_id):
        ended = CallEnded(turn_id="t", call_id=call_id, tool="exec", status="completed")
        run.record(SCOUT, ended)

    begin("a", "one")
    begin("b", "two")
    begin("c", "three")
    shown = []
    for call_id in ("b", "c", "a"):
        end(call_id)
        shown.append((run.agent().tool, run.agent().argument))
    assert shown == [("exec", "three"), ("exec", "one"), ("", "")]


def test_a_record_told_twice_changes_nothing(run):
    view = run.state.view()
    old = Record(seq=run.seq, ts=999.0, agent=SCOUT, body=Warned(message="again"))
    run.state.apply(Recorded(record=old))
    assert run.state.view() is view


def test_a_snapshot_continues_where_it_was_taken(run):
    detail = OtherCall(argument="x")
    run.record(SCOUT, CallBegan(turn_id="t", call_id="c", tool="read", detail=detail))
    other = FoldedRun(RunState(run.state.view()))
    for each in (run, other):
        each.record(SCOUT, CallEnded(turn_id="t", call_id="c", tool="read", status="completed"))
        each.record(SCOUT, AgentEnded(agent_id="id1", state="failed", message="no"))
        each.record(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, orderly=True))
    assert other.state.view() == run.state.view()
    assert other.state.agents_seen == 2


def test_slots_are_live_processes_and_nothing_else(run):
    assert run.state.view().slots_used == 2
    run.record(SCOUT, AgentEnded(agent_id="id1", state="completed"))
    assert run.state.view().slots_used == 2
    run.record(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, orderly=True))
    assert run.state.view().slots_used == 1


def test_the_late_end_of_an_earlier_life_does_not_free_the_new_one(run):
    run.spawn(SCOUT, "id1", epoch=2, pid=9)
    run.record(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, reason="killed"))
    assert run.agent().pid == 9
    assert run.state.view().slots_used == 2


def test_a_crash_is_a_restart_and_an_orderly_end_a_suspension(run):
    run.record(SCOUT, ProcessEnded(agent_id="id1", epoch=1, pid=8, reason="killed by signal 9"))
    assert (run.agent().state, run.agent().note) == ("restarting", "killed by signal 9")
    run.record("/root", ProcessEnded(agent_id="id0", epoch=1, pid=7, orderly=True))
    assert run.agent("/root").state == "suspended"


def test_a_wait_is_noted_until_the_next_progress(run):
    run.record(SCOUT, TurnStarted(turn_id="t", model=MODEL))
    waiting = Waiting(reason="rate limited", delay_s=12, attempt=2, max_attempts=5)
    run.state.apply(TransientEvent(agent=SCOUT, event=waiting))
    assert run.agent().state == "waiting"
    assert run.agent().note == "rate limited, again in 12 s (2/5)"
    text = TextArrived(turn_id="t", item_id="i", delta="hello")
    run.state.apply(TransientEvent(agent=SCOUT, event=text))
    shown = run.agent()
    assert (shown.state, shown.note, shown.text) == ("running", "", "hello")
    assert shown.last_progress == 500.0


def test_passing_events_of_an_ended_agent_do_not_wake_it(run):
    run.record(SCOUT, AgentEnded(agent_id="id1", state="failed", message="no key"))
    for event in (
        TextArrived(turn_id="t", item_id="i", delta="late"),
        Waiting(reason="r"),
        OutputArrived(turn_id="t", call_id="c", delta="x"),
    ):
        run.state.apply(TransientEvent(agent=SCOUT, event=event))
    assert (run.agent().state, run.agent().end_state) == ("ended", "failed")


def test_tokens_come_from_counts_and_money_from_payments(run):
    count = TokenCount(
        turn_id="t",
        last=TokenUsage(total_tokens=10),
        total=TokenUsage(total_tokens=30),
        context_tokens=250,
        context_window=1000,
    )
    paid = ResponseBilled(agent_id="id1", provider="p", model="m", usage=TokenUsage(), usd=0.5)
    run.record(SCOUT, count)
    run.record("", paid, paid)
    scout, view = run.agent(), run.state.view()
    assert (scout.usage.total_tokens, scout.context_tokens, scout.usd) == (30, 250, 1.0)
    assert (view.usage.total_tokens, view.usd) == (10, 1.0)


def test_the_task_is_the_first_line_also_when_it_was_posted_before_the_start(run):
    deep = "/root/scout/deep"
    posted_mail = Mail(
        mail_id="m", author=SCOUT, recipient=deep, content="\n# Look here\nmore", kind="new_task"
    )
    run.record(SCOUT, MailPosted(mail=posted_mail))
    run.spawn(deep, "id2")
    run.record(SCOUT, InputPosted(input_id="i", parts=(TextInput(text="  first\nsecond"),)))
    assert run.agent(deep).task == "# Look here"
    assert run.agent().task == "first"


def test_old_ended_agents_keep_their_figures_and_lose_their_texts():
    run = FoldedRun(RunState(clock=lambda: 0.0, keep_ended=2))
    for number in range(5):
        path = f"/root/a{number}"
        run.spawn(path, f"id{number}")
        ended = AgentEnded(
            agent_id=f"id{number}",
            state="completed",
            message="x" * 500,
            usage=TokenUsage(total_tokens=number + 1),
        )
        run.record(path, ended)
    views = run.state.view().agents
    assert [len(view.result) for view in views] == [60, 60, 60, 500, 500]
    assert [view.usage.total_tokens for view in views] == [1, 2, 3, 4, 5]
    assert run.state.agents_seen == 5


def test_a_fan_out_is_counted_by_its_items_newest_attempts():
    run = FoldedRun()
    run.record("", FanOutPlanned(items=("a", "b", "c"), names=("a", "b", "c")))

    def end(index, state, attempt=1):
        body = FanOutItemEnded(index=index, item="i", agent="/root/i", state=state, attempt=attempt)
        run.record("", body)

    end(0, "completed")
    end(1, "failed")
    end(1, "completed", attempt=2)
    end(2, "crashed")
    view = run.state.view()
    assert (view.fan_total, view.fan_done, view.fan_failed) == (3, 2, 1)
    end(2, "interrupted", attempt=2)
    view = run.state.view()
    assert (view.fan_total, view.fan_done, view.fan_failed) == (3, 2, 0)


def test_a_resumed_run_has_no_process_of_its_earlier_life(run):
    again = RunStarted(run_id="r-12345678", task="t", title="T", cwd="/", version="1", resumed=True)
    run.record("", again)
    view = run.state.view()
    assert view.slots_used == 0
    assert {(agent.state, agent.pid) for agent in view.agents} == {("suspended", 0)}


def test_the_end_of_the_run_ends_its_root(run):
    run.record("", RunCompleted(status="provider", message="no provider"))
    root = run.agent("/root")
    assert (root.state, root.end_state) == ("ended", "failed")
    assert run.state.view().status == "provider"


def test_a_throttle_is_shown_until_it_holds_no_longer(run):
    state = run.state
    state.apply(TransientEvent(agent="", event=Throttled(reason="429", delay_s=3.0, waiting=4)))
    assert state.view().throttle == "429, next request in 3.0 s, 4 waiting"
    state.apply(TransientEvent(agent="", event=Throttled(reason="")))
    assert state.view().throttle == ""


def test_a_queued_agent_that_never_started_can_be_forgotten(run):
    queued = AgentHeld(state="queued", note="place 3 in line")
    run.state.apply(TransientEvent(agent="/root/next", event=queued))
    assert "/root/next" in [agent.path for agent in run.state.view().agents]
    run.state.apply(TransientEvent(agent="/root/next", event=QueueLeft()))
    run.state.apply(TransientEvent(agent=SCOUT, event=QueueLeft()))
    assert [agent.path for agent in run.state.view().agents] == ["/root", SCOUT]


def test_the_memory_of_a_process_is_noted(run):
    run.state.apply(TransientEvent(agent=SCOUT, event=MemoryUsed(rss_bytes=5_000_000)))
    run.state.apply(TransientEvent(agent="/root/nobody", event=MemoryUsed(rss_bytes=1)))
    assert run.agent().rss_bytes == 5_000_000
    assert "/root/nobody" not in [agent.path for agent in run.state.view().agents]


@pytest.mark.parametrize("state", ["queued", "suspended", "restarting"])
def test_a_state_that_no_record_reports_holds_until_a_record_follows(run, state):
    run.state.apply(TransientEvent(agent=SCOUT, event=AgentHeld(state=state, note="a\x1b[2Jb")))
    assert (run.agent().state, run.agent().note) == (state, "a⟨ESC⟩[2Jb")
    run.record(SCOUT, TurnStarted(turn_id="t2", model=MODEL))
    assert run.agent().state == "running"


def test_a_watcher_of_the_feed_sees_what_the_supervisor_sees():
    feed: list[AnyFeed] = []
    watchers = SimpleNamespace(watchers=1, publish=lambda body: feed.append(decode_feed(body)))
    shown, watched = RunState(clock=lambda: 1.0), RunState(clock=lambda: 1.0)
    display = SimpleNamespace(on_feed=lambda event: None)
    broadcast = EventBroadcast(shown, display, watchers, redactor=Redactor(("sk-secret-key-1234",)))
    broadcast.show("/root/a", AgentHeld(state="queued", note="number 2 in line"))
    broadcast.show("/root/b", AgentHeld(state="restarting", note="said sk-secret-key-1234"))
    broadcast.show("/root/b", MemoryUsed(rss_bytes=7))
    broadcast.show("/root/a", QueueLeft())
    for event in feed:
        watched.apply(event)
    assert watched.view() == shown.view()
    (agent,) = shown.view().agents
    assert (agent.path, agent.state, agent.rss_bytes) == ("/root/b", "restarting", 7)
    assert "secret" not in agent.note


def test_what_a_provider_says_cannot_move_the_cursor(run):
    run.record("", ProviderChosen(provider="p\x1b[2J", model="m\n", why="\x9b1mwhy\u202e"))
    view = run.state.view()
    assert (view.provider, view.model, view.why) == ("p⟨ESC⟩[2J", "m", "⟨U+009B⟩1mwhy⟨U+202E⟩")


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
    st.builds(FindingPublished, finding=st.builds(Finding, number=st.integers(1, 9), author=PATHS,
              fact=TEXT)),
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
def test_any_sequence_of_records_folds_to_a_sorted_tree(run):
    state = RunState(clock=lambda: 1.0, keep_ended=1)
    for number, (agent, body) in enumerate(run, start=1):
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
