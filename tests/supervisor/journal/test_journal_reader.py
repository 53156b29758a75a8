"""A journal that was cut, damaged, or written by another version: what is sound is used, aloud."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.records import ItemRecorded, Record, encode_record
from swarm.supervisor.clients.cli.commands.journal_commands import agent_records
from swarm.supervisor.journal import journal_reader
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.journal.journal_files import repair_tail
from swarm.supervisor.journal.journal_reader import (
    BadLine,
    JournalUnreadable,
    RunFileRead,
    last_seq,
    last_seq_of_others,
    read_file,
    read_records,
    run_records_from,
    take_run_file,
)
from swarm.supervisor.journal.replay import fold_agent
from swarm.supervisor.runs.paths import RunPaths


@pytest.fixture
def run_paths(tmp_path: Path) -> RunPaths:
    here = RunPaths(folder=tmp_path / "run", sockets=tmp_path / "s")
    here.journal.mkdir(parents=True)
    return here


def line(seq: int, body=None) -> bytes:
    return encode_record(Record(seq=seq, ts=1.0, body=body or Warned(message=f"№ {seq}"))) + b"\n"


def item(seq: int, text: str) -> bytes:
    said = ItemRecorded(turn_id="t", item=text_message("user", text), item_id=str(seq))
    return line(seq, said)


@pytest.mark.parametrize("file", ["run", "01a1"])
async def test_a_last_record_cut_at_any_byte_is_gone_whole_and_the_journal_goes_on(run_paths, file):
    path = run_paths.journal / f"{file}.jsonl"
    whole, last = line(1) + line(2), line(3)
    for cut in range(len(last)):
        path.write_bytes(whole + last[:cut])
        assert [one.seq for one in read_records(run_paths)] == [
            1,
            2,
        ]  # while nobody repaired it yet
        async with open_journal(run_paths) as journal:  # cuts the torn line
            await journal.commit(Warned(message="again"), file=file)
        assert [one.seq for one in read_records(run_paths)] == [1, 2, 3]
        path.write_bytes(whole + last[:cut])
        assert repair_tail(path) == cut
    path.write_bytes(whole + last)
    assert repair_tail(path) == 0
    assert last_seq(run_paths) == 3


def test_what_came_behind_a_number_is_read_from_the_end_of_its_file(run_paths, monkeypatch):
    monkeypatch.setattr(journal_reader, "_TAIL_BYTES", 64)
    path = run_paths.journal / "a1.jsonl"
    assert journal_reader.records_after(run_paths, "a1", 0) == []
    path.write_bytes(b"".join(line(number) for number in range(3, 60, 2)) + b"bad\n" + b"to")
    for number in range(61):
        behind = [one.seq for one in journal_reader.records_after(run_paths, "a1", number)]
        assert behind == [seq for seq in range(3, 60, 2) if seq > number]


@pytest.mark.parametrize("file", ["run", "01a1"])
@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense\n",
        b"\n",
        b"\0" * 500 + b"\n",
        b'{"seq":2}\n',
        b"\xff\xfe\n",
        line(2)[:40] + b"\n",
    ],
)
def test_a_bad_line_in_the_middle_is_named_and_the_rest_is_used(run_paths, bad, file):
    path = run_paths.journal / f"{file}.jsonl"
    path.write_bytes(item(1, "one") + bad + item(3, "three"))
    said: list[BadLine] = []
    memory = fold_agent(read_file(path, said.append))
    assert memory.items == [text_message("user", "one"), text_message("user", "three")]
    assert [(one.path, one.number) for one in said] == [(str(path), 2)]
    assert f"{path}, line 2 cannot be read and is left out" in str(said[0])


def test_a_line_that_is_too_long_is_left_out_without_being_held(run_paths, monkeypatch):
    monkeypatch.setattr(journal_reader, "MAX_LINE_BYTES", 1_000)
    path = run_paths.journal / "a.jsonl"
    path.write_bytes(line(1) + b"x" * 10_500 + b"\n" + line(2))
    said: list[BadLine] = []
    assert [one.seq for one in read_file(path, said.append)] == [1, 2]
    assert [(one.number, one.why) for one in said] == [(2, "it is too long")]


def test_bad_lines_at_the_end_do_not_make_a_number_come_twice(run_paths):
    (run_paths.journal / "a.jsonl").write_bytes(line(1) + line(5) + b"bad\nbad\n")
    (run_paths.journal / "b.jsonl").write_bytes(line(2) + line(6))
    (run_paths.journal / "c.jsonl").write_bytes(b"")
    assert last_seq(run_paths) == 7


def test_the_run_file_is_repaired_read_and_measured_in_one_pass(run_paths):
    (run_paths.journal / "a.jsonl").write_bytes(line(3))
    whole = line(1) + b"bad\n" + line(5) + b"bad\nbad\n"
    path = run_paths.journal / "run.jsonl"
    path.write_bytes(whole + line(6)[:9])
    seen: list[int] = []
    read = take_run_file(run_paths, lambda record: seen.append(record.seq))
    assert seen == [1, 5]
    assert path.read_bytes() == whole
    assert (read.last_seq, read.size_bytes) == (last_seq(run_paths), len(whole)) == (7, len(whole))
    assert [one.number for one in read.bad_lines] == [2, 4, 5]
    assert last_seq_of_others(run_paths) == 3
    path.write_bytes(whole + line(8))
    assert [one.seq for one in run_records_from(run_paths, read.size_bytes)] == [8]


def test_a_run_killed_before_its_first_record_has_an_empty_past(run_paths):
    assert take_run_file(run_paths, lambda record: None) == RunFileRead()
    (run_paths.journal / "run.jsonl").write_bytes(line(1)[:5])
    assert take_run_file(run_paths, lambda record: None) == RunFileRead()


def test_the_last_number_is_found_behind_a_line_longer_than_a_look_back(run_paths):
    (run_paths.journal / "a.jsonl").write_bytes(line(8, Warned(message="x" * 300_000)))
    assert last_seq(run_paths) == 8


@pytest.mark.parametrize(
    ("newer", "words"),
    [
        (b'{"seq":2,"ts":1,"schema_version":99,"body":{"type":"warned","message":"m"}}\n', "99"),
        (b'{"seq":2,"ts":1,"schema_version":99,"what":{}}\n', "99"),
        (b'{"seq":2,"ts":1,"body":{"type":"teleported","to":"x"}}\n', "'teleported'"),
    ],
)
def test_a_record_of_a_newer_version_is_refused_and_named(run_paths, newer, words):
    path = run_paths.journal / "a.jsonl"
    path.write_bytes(line(1) + newer + line(3))
    stream = read_file(path)
    assert next(stream).seq == 1
    with pytest.raises(JournalUnreadable, match=rf"a\.jsonl, line 2: .*{words}.*newer one"):
        next(stream)
    path.write_bytes(line(1) + newer)
    with pytest.raises(JournalUnreadable, match=words):
        last_seq(run_paths)


def test_many_files_are_merged_by_chunks_in_order(run_paths, monkeypatch):
    monkeypatch.setattr(journal_reader, "_CHUNKS_BYTES", 250 * 300)  # a few lines of each at a time
    for number in range(250):
        lines = [line(1 + number + 250 * turn) for turn in range(20)]
        (run_paths.journal / f"f{number}.jsonl").write_bytes(b"".join(lines))
    with (run_paths.journal / "f0.jsonl").open("ab") as file:
        file.write(b"torn")
    assert [one.seq for one in read_records(run_paths)] == list(range(1, 5_001))


KILLED = """
import os, signal, sys
from pathlib import Path
import trio
from swarm.mailbox.protocol.events import Warned
from swarm.supervisor.journal.journal import open_journal
from swarm.supervisor.runs.paths import RunPaths

folder, left = Path(sys.argv[1]), int(sys.argv[2])
write = os.write

def write_some(fd, data):
    global left
    if data[:7] != b'{"seq":':
        return write(fd, data)
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return write(fd, data)

async def main():
    async with open_journal(RunPaths(folder=folder, sockets=folder)) as journal:
        for number in range(12):
            journal.write(Warned(message="m"), file=("a", "b", "run", "b")[number % 4])
        os.write = write_some
        await journal.flush()

trio.run(main)
"""


def test_killed_between_any_two_writes_a_batch_leaves_a_prefix_over_all_files(tmp_path):
    seen = set()
    for left in (0, 1, 2, 5, 11):
        folder = tmp_path / str(left)
        folder.mkdir()
        argv = [sys.executable, "-P", "-c", KILLED, str(folder), str(left)]
        done = subprocess.run(argv, capture_output=True, timeout=60)
        assert done.returncode == -9, done.stderr
        numbers = [one.seq for one in read_records(RunPaths(folder=folder, sockets=folder))]
        assert numbers == list(range(1, len(numbers) + 1))
        seen.add(len(numbers))
    assert len(seen) == 5


def test_what_an_agent_did_is_shown_in_bounded_memory(run_paths):
    big = Warned(message="x" * 10_000)
    with (run_paths.journal / "01a1.jsonl").open("wb") as file:
        file.writelines(line(number, big) for number in range(1, 2_001, 2))
    record = Record(seq=500, ts=1.0, body=Warned(message="about it"), agent="/root/a")
    (run_paths.journal / "run.jsonl").write_bytes(encode_record(record) + b"\n" + line(600))
    tracemalloc.start()
    numbers = [one.seq for one in agent_records(run_paths, "01a1", "/root/a")]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert numbers == sorted([*range(1, 2_001, 2), 500])
    assert peak_bytes < 1_000_000  # of ten million
