"""A reader of a run's events gets every record once, whatever the feed drops."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.control import Recorded, TransientEvent
from swarm.mailbox.protocol.events import TextArrived, Warned
from swarm.mailbox.protocol.records import Record, RunCompleted, encode_record
from swarm.supervisor.clients.client.client_sockets import ClientSocket
from swarm.supervisor.clients.client.run_events import RunEvents
from swarm.supervisor.runs.paths import RunPaths

_encode = msgspec.msgpack.Encoder().encode


class FakeFeed:
    """Feed messages from a list; then it is silent."""

    def __init__(self, *messages: tuple[int, bytes]) -> None:
        self._messages = list(messages)

    async def receive(self) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        if not self._messages:
            await trio.sleep_forever()
        number, body = self._messages.pop(0)
        return [number.to_bytes(8, "big"), body]


def record(seq: int, *, last: bool = False) -> Record:
    body = RunCompleted(status="completed") if last else Warned(message=f"{seq}")
    return Record(seq=seq, ts=1.0, body=body)


def recorded(seq: int, *, last: bool = False) -> bytes:
    return _encode(Recorded(record=record(seq, last=last)))


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[RunPaths]:
    """A live run's folder: its lock is held."""
    made = RunPaths(folder=tmp_path / "run", sockets=tmp_path / "sockets")
    made.journal.mkdir(parents=True)
    fd = os.open(made.lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    yield made
    os.close(fd)


def write(paths: RunPaths, *seqs: int, end: int = 0) -> None:
    """Records with these numbers on disk, in two files by turns."""
    for name, odd in (("run", 1), ("agent", 0)):
        lines = [encode_record(record(seq, last=seq == end)) for seq in seqs if seq % 2 == odd]
        (paths.journal / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


async def read(paths: RunPaths, feed: FakeFeed, *, after: int | None = 0, number: int = 0) -> list:
    events = RunEvents(paths, cast("ClientSocket", feed), number)
    await events.begin(after)
    seen = []
    with trio.fail_after(5):
        while (event := await events.receive()) is not None:
            seen.append(event.record.seq if isinstance(event, Recorded) else event)
    return seen


async def test_the_past_comes_from_the_journal_and_what_follows_from_the_feed(paths):
    write(paths, 1, 2, 3)
    feed = FakeFeed((1, recorded(3)), (2, recorded(4)), (3, recorded(5, last=True)))
    assert await read(paths, feed) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("after", "seen"), [(2, [3, 4, 5]), (None, [4, 5]), (9, [])])
async def test_a_reader_begins_behind_the_record_that_it_names(paths, after, seen):
    write(paths, 1, 2, 3)
    feed = FakeFeed((1, recorded(4)), (2, recorded(5, last=True)))
    assert await read(paths, feed, after=after) == seen


async def test_records_that_the_feed_dropped_come_from_the_journal(paths):
    write(paths, 1)
    feed = FakeFeed((1, recorded(2)), (5, recorded(6)), (6, recorded(7, last=True)))
    events = RunEvents(paths, cast("ClientSocket", feed), 0)
    await events.begin(0)
    seen = []
    with trio.fail_after(5):
        while (event := await events.receive()) is not None:
            assert isinstance(event, Recorded)
            seen.append(event.record.seq)
            write(paths, *range(1, 8), end=7)  # all that is shown is on disk
    assert seen == [1, 2, 3, 4, 5, 6, 7]


async def test_a_last_record_that_the_feed_dropped_comes_from_the_journal_and_ends_the_events(
    paths,
):
    write(paths, 1)
    events = RunEvents(paths, cast("ClientSocket", FakeFeed((1, recorded(2)))), 0)
    await events.begin(0)
    seen = []
    with trio.fail_after(30):
        while (event := await events.receive()) is not None:
            assert isinstance(event, Recorded)
            seen.append(event.record.seq)
            if seen == [1, 2]:
                write(paths, 1, 2, 3, 4, end=4)  # the run is alive, and its feed is silent
    assert seen == [1, 2, 3, 4]


async def test_another_reader_that_joins_is_no_gap_and_transient_events_pass(paths):
    text = TransientEvent(agent="/root", event=TextArrived(turn_id="t", item_id="i", delta="hello"))
    feed = FakeFeed((7, b""), (8, _encode(text)), (8, b""), (9, recorded(1, last=True)))
    assert await read(paths, feed, number=7) == [text, 1]


async def test_an_end_that_was_in_the_past_already_ends_the_events(paths):
    write(paths, 1, 2, end=2)
    assert await read(paths, FakeFeed((1, recorded(2, last=True)))) == [1, 2]


async def test_an_event_of_a_newer_supervisor_is_left_out(paths):
    write(paths)
    newer = msgspec.msgpack.encode({"type": "never_heard_of"})
    feed = FakeFeed((1, newer), (2, recorded(1, last=True)))
    assert await read(paths, feed) == [1]


def test_a_client_imports_no_event_loop_and_nothing_that_draws() -> None:
    program = "import sys, swarm.supervisor.clients.client; print(*sorted(sys.modules))"
    argv = [sys.executable, "-P", "-c", program]
    loaded = set(subprocess.run(argv, capture_output=True, check=True, text=True).stdout.split())
    assert (
        loaded & {"trio", "asyncio", "rich", "click", "httpcore", "yaml", "jsonschema_rs"} == set()
    )
