"""The journal: written before called back, whole lines or none, folds that hold."""

import subprocess
import sys
from pathlib import Path

import pytest
import trio

from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    OtherCall,
    TokenCount,
    TurnStarted,
    Warned,
)
from swarm.mailbox.protocol.items import FunctionCallOutput, TokenUsage, text_message
from swarm.mailbox.protocol.ops import Mail, TextInput
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    FanOutItemEnded,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_files import JournalFailed, repair_tail
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.journal.replay import fold_agent, fold_run
from swarm.supervisor.runs.paths import RunPaths

MODEL = ModelInfo(slug="m", provider="p", wire="responses")


@pytest.fixture
def run_paths(tmp_path: Path) -> RunPaths:
    folder = tmp_path / "run"
    folder.mkdir()
    return RunPaths(folder=folder, sockets=tmp_path / "s")


def records(*bodies, agent="/root"):
    return [Record(seq=n, ts=float(n), body=body, agent=agent) for n, body in enumerate(bodies, 1)]


async def test_a_record_is_on_disk_before_its_callback_runs(run_paths):
    seen: list[int] = []

    def then(record: Record) -> None:
        text = (run_paths.journal / "a1.jsonl").read_text()
        assert f'"seq":{record.seq},' in text
        seen.append(record.seq)

    async with open_journal(run_paths) as journal:
        for number in range(20):
            journal.write(Warned(message=str(number)), agent="/root", file="a1", then=then)
        await journal.flush()
    assert seen == list(range(1, 21))


async def test_who_waits_for_what_is_queued_does_not_wait_for_what_others_go_on_writing(run_paths):
    written: list[int] = []
    mine: list[int] = []
    async with open_journal(run_paths) as journal:

        def again(record: Record) -> None:
            written.append(record.seq)
            if not stop:
                journal.write(Warned(message="more"), then=again)

        stop = False
        for _ in range(10):
            journal.write(Warned(message="x"), then=again)
        with trio.fail_after(10):
            for _ in range(3):
                mine.append(journal.write(Warned(message="mine")).seq)
                await journal.flush()
                assert {*written, *mine} >= set(range(1, mine[-1] + 1))
                assert mine[-1] in {one.seq for one in read_records(run_paths)}
        stop = True
    assert len(written) > 30


async def test_callbacks_come_in_the_order_of_writing_over_several_files(run_paths):
    order: list[tuple[str, int]] = []
    async with open_journal(run_paths) as journal:
        for number in range(9):
            file = f"f{number % 3}"
            journal.write(
                Warned(message="x"),
                file=file,
                then=lambda record, file=file: order.append((file, record.seq)),
            )
    assert [seq for _, seq in order] == list(range(1, 10))
    assert [record.seq for record in read_records(run_paths)] == list(range(1, 10))


async def test_numbers_go_on_after_a_reopen(run_paths):
    async with open_journal(run_paths) as journal:
        await journal.commit(Warned(message="first"))
    async with open_journal(run_paths) as journal:
        assert (await journal.commit(Warned(message="second"))).seq == 2


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from swarm.supervisor.journal.journal_files import JournalFailed, JournalFiles
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
files = JournalFiles(Path(sys.argv[1]))
files.append("a", [b"x" * 59 + b"\\n"])
try:
    files.append("a", [b"y" * 59 + b"\\n"])
except JournalFailed as error:
    sys.exit(str(error))
"""


def test_a_write_that_does_not_fit_is_cut_back_to_whole_lines(tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-c", FULL_DISK, str(tmp_path)], capture_output=True, timeout=30
    )
    assert b"a.jsonl cannot be written" in done.stderr
    assert (tmp_path / "a.jsonl").read_bytes() == b"x" * 59 + b"\n"


async def test_a_journal_that_cannot_be_written_stops_the_run_with_its_name(run_paths):
    run_paths.journal.mkdir()
    (run_paths.journal / "run.jsonl").mkdir()
    with pytest.raises(ExceptionGroup) as caught:
        async with open_journal(run_paths, last_seq=0) as journal:
            journal.write(Warned(message="x"))
            await trio.sleep_forever()
    failure = caught.value.exceptions[0]
    assert isinstance(failure, JournalFailed)
    assert "run.jsonl" in str(failure)


def test_a_torn_last_line_is_cut_and_the_rest_stays(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":2}\n{"c":')
    assert repair_tail(path) == 5
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'
    assert repair_tail(path) == 0


def test_a_file_that_is_only_a_torn_line_becomes_empty(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 200_000)
    assert repair_tail(path) == 200_000
    assert path.read_bytes() == b""


def test_hundreds_of_files_are_merged_in_order(run_paths):
    run_paths.journal.mkdir()
    for number in range(250):
        line = f'{{"seq":{500 - number},"ts":1,"body":{{"type":"warned","message":"m"}}}}\n'
        (run_paths.journal / f"f{number}.jsonl").write_text(line)
    assert [record.seq for record in read_records(run_paths)] == list(range(251, 501))


def test_an_agent_is_remembered_from_its_lines():
    user = text_message("user", "do it")
    memory = fold_agent(
        records(
            InputPosted(input_id="i1", parts=(TextInput(text="do it"),)),
            InputPosted(input_id="i2", parts=(TextInput(text="and this"),)),
            TurnStarted(turn_id="i1", model=MODEL),
            ItemRecorded(turn_id="i1", item=user, item_id="i1", source="user"),
            CallBegan(turn_id="i1", call_id="c1", tool="exec_command", detail=OtherCall()),
            CallBegan(turn_id="i1", call_id="c2", tool="exec_command", detail=OtherCall()),
            CallEnded(turn_id="i1", call_id="c1", tool="exec_command", status="completed"),
            TokenCount(turn_id="i1", last=TokenUsage(), total=TokenUsage(total_tokens=7)),
        )
    )
    assert memory.items == [user]
    assert list(memory.open_calls) == ["c2"]
    assert list(memory.inputs) == ["i2"]
    assert memory.open_turn == "i1"
    assert memory.usage.total_tokens == 7


def test_a_call_that_ended_and_whose_output_was_not_written_is_remembered_by_its_end():
    ends = [
        CallEnded(turn_id="t", call_id=name, tool="exec_command", status=status)
        for name, status in (("a", "completed"), ("b", "completed"), ("c", "interrupted"))
    ]
    output = FunctionCallOutput(call_id="a", output="done")
    told = ItemRecorded(turn_id="t", item=output, item_id="i9", source="tool")
    again = CallBegan(turn_id="t", call_id="b", tool="exec_command", detail=OtherCall())
    assert list(fold_agent(records(*ends)).ended_calls) == ["a", "b"]
    assert list(fold_agent(records(*ends, told)).ended_calls) == ["b"]
    assert list(fold_agent(records(*ends, told, again)).ended_calls) == []


def test_the_schema_of_the_last_turn_is_remembered_until_words_bring_another_or_none():
    def posted(name: str, schema: bytes | None, text: str = "words") -> InputPosted:
        parts = (TextInput(text=text),) if text else ()
        return InputPosted(input_id=name, parts=parts, output_schema=schema)

    def started(name: str) -> TurnStarted:
        return TurnStarted(turn_id=name, model=MODEL)

    read = ItemRecorded(turn_id="i1", item=text_message("user", "do it"), item_id="i2")
    asked = [posted("i1", b"1"), started("i1")]
    assert fold_agent(records(*asked)).output_schema == b"1"
    went_on = [*asked, posted("w", None, text=""), started("w")]
    assert fold_agent(records(*went_on)).output_schema == b"1"
    assert fold_agent(records(*asked, posted("i2", b"2"), read)).output_schema == b"2"
    assert fold_agent(records(*asked, posted("i2", None), read)).output_schema == b"1"
    assert fold_agent(records(*asked, started("of a posted_mail"))).output_schema == b"1"
    assert fold_agent(records(*asked, posted("i2", None), started("i2"))).output_schema is None


def test_mail_that_was_handled_is_not_pending():
    mail = Mail(mail_id="m1", author="/root", recipient="/root/a", content="hi")
    memory = fold_agent(records(MailPosted(mail=mail)))
    assert memory.mails == {"m1": mail}
    memory = fold_agent(records(MailPosted(mail=mail), MailHandled(mail_id="m1")))
    assert memory.mails == {}


def test_a_run_is_remembered_from_its_own_lines():
    spawned = AgentSpawned(agent_id="a", path="/root", epoch=1, pid=1)
    ended = AgentEnded(agent_id="a", state="completed", message="ok")
    item = FanOutItemEnded(index=3, item="x", agent="/root/x", state="failed")
    past = fold_run(
        records(
            RunStarted(run_id="r", task="t", title="t", cwd="/", version="1"),
            spawned,
            ended,
            item,
            RunCompleted(status="completed"),
        )
    )
    assert past.agents["/root"].ended == ended
    assert past.fan_ended == {3: item}
    assert past.completed is not None
    assert past.last_seq == 5


def test_a_resume_forgets_the_completion_before_it():
    started = RunStarted(run_id="r", task="t", title="t", cwd="/", version="1")
    past = fold_run(records(started, RunCompleted(status="interrupted"), started))
    assert past.completed is None
    assert past.starts == 2


async def test_a_secret_reaches_neither_the_journal_nor_those_who_are_shown_it(run_paths):
    shown: list[str] = []

    def then(record: Record) -> None:
        assert isinstance(record.body, Warned)
        shown.append(record.body.message)

    key = '-----BEGIN PRIVATE KEY-----\nMII "quoted" \\n-----END PRIVATE KEY-----'
    async with open_journal(run_paths, redactor=Redactor(["topsecretvalue"])) as journal:
        journal.write(Warned(message="the key is topsecretvalue."), then=then)
        journal.write(Warned(message="export T=ghp_abcdefghijklmnopqrstuvwxyz0123 # x"), then=then)
        journal.write(Warned(message=f"cat id: {key}"), then=then)
        journal.write(Warned(message="nothing here"), then=then)
    text = (run_paths.journal / "run.jsonl").read_text()
    for secret in ("topsecretvalue", "ghp_", "MII"):
        assert secret not in text
    assert shown == [
        "the key is [redacted].",
        "export T=[redacted] # x",
        "cat id: [redacted]",
        "nothing here",
    ]
    assert len(list(read_records(run_paths))) == 4
