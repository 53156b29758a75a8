"""Agents that ended long ago are counted, and listed no more; the rest of the picture stays."""

from swarm.mailbox.protocol.control import Recorded
from swarm.mailbox.protocol.events import TokenCount
from swarm.mailbox.protocol.gateway import ResponseBilled
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import AgentEnded, AgentSpawned, ProcessEnded, Record
from swarm.supervisor.views.run_state import RunState


class FoldedRun:
    """Numbers records as the journal does and applies them."""

    def __init__(self):
        self.state = RunState(clock=lambda: 0.0, keep_ended=2, list_ended=5)
        self.seq = 0
        self.record("/root", AgentSpawned(agent_id="root", path="/root", epoch=1, pid=1))

    def record(self, agent, *bodies):
        for body in bodies:
            self.seq += 1
            record = Record(seq=self.seq, ts=100.0 + self.seq, agent=agent, body=body)
            self.state.apply(Recorded(record=record))

    def begin(self, path, *, epoch=1):
        self.record(path, AgentSpawned(agent_id=f"id {path}", path=path, epoch=epoch, pid=7))

    def end(self, path, *, leaves=True, epoch=1):
        total = TokenUsage(total_tokens=10)
        self.record(path, TokenCount(last=total, total=total, turn_id="t"))
        self.record(path, AgentEnded(agent_id=f"id {path}", state="completed", message="done"))
        if leaves:
            self.leave(path, epoch=epoch)

    def leave(self, path, *, epoch=1):
        self.record(path, ProcessEnded(agent_id=f"id {path}", epoch=epoch, pid=7, orderly=True))

    def come_and_go(self, *paths):
        for path in paths:
            self.begin(path)
            self.end(path)

    @property
    def listed(self):
        return [view.path for view in self.state.view().agents]


def paths(count, parent="/root"):
    return [f"{parent}/a{number:03}" for number in range(count)]


def test_only_the_newest_that_ended_are_listed_and_all_are_counted():
    run = FoldedRun()
    run.come_and_go(*paths(100))
    assert run.listed == ["/root", *paths(100)[-5:]]
    view = run.state.view()
    assert view.unlisted == 95
    assert run.state.agents_seen == 101
    assert view.usage.total_tokens == 1000


def test_who_still_has_a_process_is_listed_until_it_has_none():
    run = FoldedRun()
    run.begin("/root/lingers")
    run.end("/root/lingers", leaves=False)
    run.come_and_go(*paths(50))
    assert "/root/lingers" in run.listed
    assert run.state.view().slots_used == 2
    run.leave("/root/lingers")
    run.come_and_go(*paths(50, "/root/a049"))
    assert "/root/lingers" not in run.listed
    assert run.state.view().slots_used == 1


def test_who_has_somebody_below_stays_above_him():
    run = FoldedRun()
    run.come_and_go("/root/above")
    run.begin("/root/above/works")
    run.come_and_go(*paths(50))
    assert {"/root/above", "/root/above/works"} <= set(run.listed)
    run.end("/root/above/works")
    run.come_and_go(*paths(50, "/root/a049"))
    assert not {"/root/above", "/root/above/works"} & set(run.listed)


def test_one_that_is_asked_again_is_listed_again_and_counted_once():
    run = FoldedRun()
    run.come_and_go(*paths(20))
    run.begin("/root/a000", epoch=2)
    view = run.state.view()
    assert (view.unlisted, run.state.agents_seen) == (14, 21)
    assert run.state.agent("/root/a000").state == "starting"


def test_a_watcher_that_begins_with_a_snapshot_counts_on():
    run = FoldedRun()
    run.come_and_go(*paths(100))
    state = RunState(run.state.view())
    assert state.agents_seen == run.state.agents_seen
    assert state.view().unlisted == 95


def test_one_that_comes_back_long_after_has_used_and_paid_what_it_had():
    run = FoldedRun()
    run.come_and_go("/root/first", *paths(20))
    assert "/root/first" not in run.listed
    spent = TokenUsage(input_tokens=8, output_tokens=2, total_tokens=10)
    again = AgentSpawned(
        agent_id="id /root/first", path="/root/first", epoch=2, pid=7, usage=spent, usd=0.25
    )
    run.record("/root/first", again)
    bill = ResponseBilled(agent_id="id /root/first", provider="p", model="m", usage=spent, usd=0.5)
    run.record("/root/first", bill)
    view = run.state.agent("/root/first")
    assert (view.usage, view.usd) == (spent, 0.75)
