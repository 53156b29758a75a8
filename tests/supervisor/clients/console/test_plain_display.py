"""Plain lines: words only, in order, each thing once; and the answer alone on stdout."""

import io

import msgspec
import pytest

from swarm.mailbox.protocol.control import Recorded, TransientEvent
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    FileChange,
    PatchCall,
    PlanCall,
    PlanStep,
    TurnAborted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
    Waiting,
    Warned,
)
from swarm.mailbox.protocol.gateway import Throttled
from swarm.mailbox.protocol.items import TokenUsage, text_message
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    FanOutPlanned,
    ItemRecorded,
    MailPosted,
    ProcessEnded,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.clients.console.final_answer import print_final_answer
from swarm.supervisor.clients.console.plain_display import PlainDisplay
from swarm.supervisor.processes.answer_caution import answer_caution

SCOUT = "/root/scout"


class Tty(io.StringIO):
    def isatty(self):
        return True


class PlainRun:
    """A plain view, fed as the supervisor feeds it."""

    def __init__(self, stderr=None, stdout=None):
        self.stderr, self.stdout = stderr or io.StringIO(), stdout or io.StringIO()
        self.view = PlainDisplay(self.stderr, self.stdout, clock=lambda: 105.0)
        self.seq = 0
        self.record("", RunStarted(run_id="r-1", task="t", title="T", cwd="/w", version="1"))

    def record(self, agent, *bodies):
        for body in bodies:
            self.seq += 1
            record = Record(seq=self.seq, ts=99.0 + self.seq, agent=agent, body=body)
            self.view.on_feed(Recorded(record=record))

    def finish(self, **fields):
        self.view.finish(RunCompleted(**{"status": "completed", **fields}))
        return self.stderr.getvalue().splitlines()


def message(text):
    return ItemRecorded(turn_id="t", item=text_message("assistant", text), item_id="i")


def test_a_run_reads_like_this():
    run = PlainRun()
    run.record("", ProviderChosen(provider="openai", model="m", why="a key is set"))
    run.record("", AgentSpawned(agent_id="0", path="/root", epoch=1, pid=7, role="default"))
    detail = CommandCall(script="make\ntest", argv=(), cwd="/w")
    patch = PatchCall(changes=(FileChange(path="/w/a.py", kind="update"),))
    plan = PlanCall(plan=(PlanStep(step="look", status="in_progress"),))
    model = ModelInfo(slug="m", provider="p", wire="chat")
    run.record(
        "/root",
        TurnStarted(turn_id="t", model=model),
        message("first\nI look"),
        CallBegan(turn_id="t", call_id="a", tool="exec_command", detail=detail),
        CallEnded(turn_id="t", call_id="a", tool="x", status="failed", exit_code=2, duration_s=1.5),
        CallBegan(turn_id="t", call_id="b", tool="apply_patch", detail=patch),
        CallEnded(turn_id="t", call_id="b", tool="x", status="declined"),
        CallBegan(turn_id="t", call_id="c", tool="update_plan", detail=plan),
        Warned(message="careful"),
        message("the answer"),
        TurnCompleted(turn_id="t", duration_s=9, usage=TokenUsage(total_tokens=1200)),
    )
    lines = run.finish(result="the answer", agents=1, duration_s=12.0, usd=0.25)
    assert lines == [
        "[0.0 s] swarm 1 run r-1 started at 1970-01-01T00:01:40.000Z in /w: T",
        "[1.0 s] provider openai, model m (a key is set)",
        "[2.0 s] /root started: role default, model of the run, process 7",
        "[3.0 s] /root turn started by user",
        "[4.0 s] /root message",
        "    first",
        "    I look",
        "[5.0 s] /root began: exec_command: make test",
        "[6.0 s] /root ended: exit code 2 after 1.5 s: exec_command: make test",
        "[7.0 s] /root began: apply_patch: M a.py",
        "[8.0 s] /root ended: declined: apply_patch: M a.py",
        "[9.0 s] /root plan",
        "    in progress: look",
        "[10 s] /root warning: careful",
        "[12 s] /root turn completed after 9.0 s, 1.2k tokens",
        "[11 s] /root message",
        "    the answer",
        "run completed after 12 s: 1 agent, 0 tokens, $0.25",
    ]
    assert run.stdout.getvalue() == "the answer\n"


def test_the_last_line_says_that_the_answer_of_a_tiny_model_is_not_to_be_trusted():
    tiny = ModelInfo(slug="tiny", provider="local", wire="local", can_call_tools=False)
    lines = PlainRun().finish(result="42", caution=answer_caution(tiny))
    assert lines[-1].startswith("tiny is a tiny model that cannot use tools and is often wrong")
    able = msgspec.structs.replace(tiny, can_call_tools=True)
    assert answer_caution(able) == ""
    assert answer_caution(msgspec.structs.replace(tiny, wire="chat")) == ""


def test_on_one_terminal_the_answer_is_printed_once():
    run = PlainRun(Tty(), Tty())
    run.record("/root", message("the answer"))
    assert not any("the answer" in line for line in run.finish(result="the answer"))
    assert run.stdout.getvalue() == "the answer\n"


def test_a_wait_that_goes_on_is_said_once():
    run = PlainRun()
    for _ in range(5):
        run.view.on_feed(TransientEvent(agent=SCOUT, event=Waiting(reason="no slot", delay_s=1)))
        run.view.on_feed(TransientEvent(agent="", event=Throttled(reason="429", delay_s=2.0)))
    run.view.on_feed(TransientEvent(agent="", event=Throttled(reason="")))
    run.view.on_feed(TransientEvent(agent="", event=Throttled(reason="429", delay_s=2.0)))
    assert run.finish()[1:-1] == [
        "[5.0 s] /root/scout waiting: no slot, again in 1.0 s",
        "[5.0 s] waiting: 429, next request in 2.0 s",
        "[5.0 s] waiting: 429, next request in 2.0 s",
        "run completed after 0.0 s: 0 agents, 0 tokens",
    ]


def test_how_agents_end_and_fail_is_said_in_words():
    run = PlainRun()
    run.record(SCOUT, AgentSpawned(agent_id="s", path=SCOUT, epoch=1, pid=8, nickname="Ada"))
    run.record(SCOUT, TurnFailed(turn_id="t", kind="overloaded", message="busy", duration_s=2))
    run.record("", ProcessEnded(agent_id="s", epoch=1, pid=8, reason="killed by signal 9"))
    run.record(SCOUT, AgentSpawned(agent_id="s", path=SCOUT, epoch=2, pid=9))
    run.record("", AgentEnded(agent_id="s", state="crashed", message="three times\nin 60 s"))
    run.record("", FanOutPlanned(items=("a", "b"), names=("a", "b"), concurrency=2))
    run.record("", FanOutItemEnded(index=0, item="a", agent="/root/a", state="failed"))
    assert [line.partition("] ")[2] for line in run.finish()[1:-2]] == [
        "/root/scout started: role default, model of the run, process 8, called Ada",
        "/root/scout turn failed after 2.0 s, 0 tokens: busy",
        "/root/scout warning: process 8 ended: killed by signal 9",
        "/root/scout started again, life 2, process 9",
        "/root/scout agent crashed, 0 tokens: three times",
        "fan-out: 2 items, 2 at a time",
        "/root/a fan-out item 1/2 failed: a",
    ]


def test_an_end_is_told_once_however_many_records_say_it():
    run = PlainRun()
    answer = Mail(mail_id="m", kind="final_answer", author=SCOUT, recipient="/root", content="42")
    run.record(SCOUT, AgentSpawned(agent_id="s", path=SCOUT, epoch=1, pid=8), message("42"))
    run.record(SCOUT, TurnCompleted(turn_id="t", duration_s=2))
    run.record("/root", MailPosted(mail=answer))
    run.record("", AgentEnded(agent_id="s", state="completed", message="42"))
    assert [line.partition("] ")[2] or line for line in run.finish()[2:-2]] == [
        "/root/scout message",
        "    42",
        "/root/scout turn completed after 2.0 s, 0 tokens",
    ]


def test_hostile_text_stays_on_its_own_lines_and_moves_nothing():
    run = PlainRun()
    run.record("/root", Warned(message="x\n[0 s] /root forged\x1b[2J\r\u202e"))
    run.record("/root/a", message("a\x1b]0;t\x07b\r\x1b[31mc"))
    lines = run.finish()
    assert lines[1] == "[1.0 s] /root warning: x [0 s] /root forged⟨ESC⟩[2J ⟨U+202E⟩"
    told = ["    a⟨ESC⟩]0;t⟨BEL⟩b", "    ⟨ESC⟩[31mc"]
    assert lines[2:5] == ["[2.0 s] /root/a message", *told]


@pytest.mark.parametrize(
    ("terminal", "expected"), [(True, "⟨ESC⟩[31mred⟨ESC⟩[0m\n"), (False, "\x1b[31mred\x1b[0m\n")]
)
def test_the_answer_is_made_harmless_only_for_a_terminal(terminal, expected):
    stdout = Tty() if terminal else io.StringIO()
    completed = RunCompleted(status="completed", result="\x1b[31mred\x1b[0m\n")
    print_final_answer(completed, stdout=stdout, stderr=io.StringIO())
    assert stdout.getvalue() == expected


def test_without_an_answer_stderr_says_why():
    stdout, stderr = io.StringIO(), io.StringIO()
    print_final_answer(RunCompleted(status="budget", message="spent"), stdout=stdout, stderr=stderr)
    assert (stdout.getvalue(), stderr.getvalue()) == ("", "budget: spent\n")


def test_an_answer_that_the_stream_cannot_spell_is_still_printed():
    raw = io.BytesIO()
    stdout = io.TextIOWrapper(raw, encoding="ascii")
    completed = RunCompleted(status="completed", result="naïve")
    print_final_answer(completed, stdout=stdout, stderr=io.StringIO())
    assert raw.getvalue() == b"na?ve\n"


def test_what_the_end_of_the_run_cut_off_was_not_interrupted():
    run = PlainRun()
    run.record(SCOUT, TurnAborted(turn_id="t", reason="run_ended"))
    run.record(
        SCOUT,
        AgentEnded(agent_id="a", state="interrupted", message="the run ended first", cut_off=True),
    )
    run.record(SCOUT, TurnAborted(turn_id="t"))
    run.record(SCOUT, AgentEnded(agent_id="a", state="interrupted", message="it was interrupted"))
    told = run.finish()
    lines = [line.partition(f"{SCOUT} ")[2] for line in told if SCOUT in line]
    assert lines == [
        "turn cut off after 0.0 s, 0 tokens: the run ended",
        "turn aborted after 0.0 s, 0 tokens: interrupted",
    ]
