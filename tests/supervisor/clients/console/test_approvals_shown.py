"""What people and scripts see of the queue: the tree, plain lines, the log, JSON lines."""

import json

from swarm.mailbox.protocol.approvals import ApprovalGrant, ApprovalRequest, CommandAction
from swarm.mailbox.protocol.control import Recorded, TransientEvent
from swarm.mailbox.protocol.events import CallEnded, TextArrived, Waiting
from swarm.mailbox.protocol.items import TokenUsage
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    ApprovalRequested,
    ApprovalResolved,
    GrantGiven,
    Record,
    Reviewed,
    RunCompleted,
    RunStarted,
)
from swarm.supervisor.clients.console.log_lines import LogFilter, log_line, matches_filter
from swarm.supervisor.clients.console.plain_display import PlainLines
from swarm.supervisor.clients.console.tree_view import render_run
from swarm.supervisor.clients.serve.json_conversion import JsonConversion
from swarm.supervisor.clients.serve.json_lines import encode_line
from swarm.supervisor.views.row_selection import needs_answer
from swarm.supervisor.views.run_state import RunState

RUN = "0191f3aa-0000-7000-8000-00004f21c0aa"
ASKED = ApprovalRequest(
    action=CommandAction(argv=("rm", "-rf", "b"), cwd="/w", script="rm -rf \x1b[31mb"),
    cause="dangerous", reason="it is old", keys=("k",) * 3,
)  # fmt: skip
STARTED = RunStarted(run_id=RUN, task="-", title="t", cwd="/w", version="1")
SPAWNED = AgentSpawned(agent_id="i", path="/root", epoch=1, pid=5)
RESOLVED = ApprovalResolved(approval_id="a1", outcome="denied", by="person", reason="no\nway")
REVIEWED = Reviewed(
    review_id="r", approval_id="a1", outcome="denied", risk="high", authorization="low",
    rationale="it leaks", duration_s=1.5, usage=TokenUsage(total_tokens=900), usd=0.01,
)  # fmt: skip


def asked(reviewer="person", name="a1") -> ApprovalRequested:
    return ApprovalRequested(approval_id=name, request=ASKED, reviewer=reviewer)


class Stream:
    """Records in order, as a run gives them."""

    def __init__(self) -> None:
        self.state, self.seq = RunState(clock=lambda: 9.0), 0
        self.say(STARTED, agent="")
        self.say(SPAWNED)

    def say(self, body, agent="/root") -> None:
        self.seq += 1
        record = Record(seq=self.seq, ts=float(self.seq), body=body, agent=agent)
        self.state.apply(Recorded(record=record))

    @property
    def root(self):
        return self.state.view().agents[0]


def test_an_agent_that_waits_for_a_person_stands_out_until_the_answer():
    run = Stream()
    run.say(asked())
    run.state.apply(TransientEvent(agent="/root", event=Waiting(reason="waiting for approval")))
    run.state.apply(
        TransientEvent(agent="/root", event=TextArrived(turn_id="t", item_id="i", delta="x"))
    )
    run.say(CallEnded(turn_id="t", call_id="c", tool="x", status="completed"))
    assert (run.root.state, run.root.approval) == ("waiting", "a1")
    assert needs_answer(run.root)
    picture = render_run(run.state.view(), width=100, height=12, now=9.0)
    assert "needs approval a1: rm -rf ⟨ESC⟩[31mb" in picture.text
    run.say(RESOLVED)
    assert (run.root.state, run.root.approval, run.root.note) == ("running", "", "")
    assert run.state.view().approvals == ()


def test_of_two_questions_the_older_one_is_shown_first():
    run = Stream()
    run.say(asked())
    run.say(asked(name="a2"))
    assert run.root.approval == "a1"
    run.say(RESOLVED)
    assert run.root.approval == "a2"


def test_a_review_is_no_call_for_a_person_and_its_cost_is_told_apart():
    run = Stream()
    run.say(asked("guardian"))
    assert not needs_answer(run.root)
    assert run.root.note.startswith("reviewed now")
    run.say(REVIEWED)
    view = run.state.view()
    assert (view.review_usage.total_tokens, view.review_usd) == (900, 0.01)
    assert (view.usage.total_tokens, view.usd) == (0, None)
    footer = render_run(view, width=100, height=12, now=9.0).text.splitlines()[-1]
    assert "0 tokens · reviews 900 tokens $0.010" in footer


def test_nothing_waits_after_the_end_a_resume_or_in_an_ended_agent():
    run = Stream()
    run.say(asked())
    run.say(AgentEnded(agent_id="i", state="killed"))
    assert run.root.state == "ended"
    run.say(STARTED, agent="")
    assert run.state.view().approvals == ()
    run.say(asked(name="a2"))
    run.say(RunCompleted(status="failed"), agent="")
    assert run.state.view().approvals == ()


def test_a_watcher_that_joins_late_sees_what_waits():
    run = Stream()
    run.say(asked())
    late = RunState(run.state.view(), clock=lambda: 9.0)
    late.apply(
        TransientEvent(agent="/root", event=TextArrived(turn_id="t", item_id="i", delta="x"))
    )
    assert late.view().agents[0].approval == "a1"


def test_a_view_holds_no_more_of_a_question_than_a_picture_needs():
    run = Stream()
    long = ApprovalRequest(
        action=CommandAction(argv=("x" * 50_000,), cwd="/", script="y" * 50_000),
        cause="rule", keys=("z" * 50_000,),
    )  # fmt: skip
    run.say(ApprovalRequested(approval_id="a1", request=long, reviewer="person"))
    assert len(repr(run.state.view().approvals)) < 10_000


def test_plain_lines_say_what_to_type():
    plain = PlainLines()
    lines: list[str] = []
    for seq, (body, agent) in enumerate(
        [(STARTED, ""), (SPAWNED, "/root"), (asked(), "/root"), (RESOLVED, "/root")], start=1
    ):
        record = Record(seq=seq, ts=float(seq), body=body, agent=agent)
        lines += plain.add(Recorded(record=record))
    text = "\n".join(lines)
    assert "/root needs approval a1: command: rm -rf ⟨ESC⟩[31mb\n" in text
    assert "answer: swarm approve 4f21c0aa a1" in text
    assert "approval a1 denied by person: no" in text
    assert "\x1b" not in text


def test_the_log_narrowed_to_reviews_has_questions_answers_grants_reviews_and_refusals():
    bodies = [
        asked(), RESOLVED, REVIEWED,
        GrantGiven(grant=ApprovalGrant(grant_id="g", path="/root", prefix=("rm",), uses=1)),
        CallEnded(turn_id="t", call_id="c", tool="x", status="declined"),
    ]  # fmt: skip
    records = [Record(seq=1, ts=0.0, body=body, agent="/root") for body in bodies]
    assert all(matches_filter(one, LogFilter(reviews=True)) for one in records)
    assert not matches_filter(
        Record(seq=1, ts=0.0, body=SPAWNED, agent="/root"), LogFilter(reviews=True)
    )
    lines = [log_line(one) for one in records]
    assert "a1 asks the person: command rm -rf ⟨ESC⟩[31mb (dangerous)" in lines[0]
    assert "a1 denied by person: no" in lines[1]
    spent = "1.5 s, 900 tokens, $0.010"
    assert f"a1 denied, risk high, authorization low, {spent}: it leaks" in lines[2]
    assert "holds: commands that begin with rm, for /root, 1 time" in lines[3]


def test_json_lines_name_agent_id_action_and_outcome():
    conversion = JsonConversion()
    bodies = [(STARTED, ""), (SPAWNED, "/root"), (asked(), "/root"), (RESOLVED, "/root")]
    bodies += [(REVIEWED, "/root"), (RunCompleted(status="completed"), "")]
    told = []
    for seq, (body, agent) in enumerate(bodies, start=1):
        record = Record(seq=seq, ts=0.0, body=body, agent=agent)
        told += [json.loads(encode_line(line)) for line in conversion.record_lines(record)]
    by_type = {line["type"]: line for line in told}
    request = by_type["approval.requested"]
    assert request["agent"] == "/root"
    assert request["action"]["argv"] == ["rm", "-rf", "b"]
    names = ("id", "kind", "cause", "reason", "reviewer")
    values = ["a1", "command", "dangerous", "it is old", "person"]
    assert [request[name] for name in names] == values
    resolved = by_type["approval.resolved"]
    names = ("id", "outcome", "by", "scope", "reason")
    assert [resolved[name] for name in names] == ["a1", "denied", "person", "once", "no\nway"]
    assert by_type["run.completed"]["review_usd"] == 0.01
