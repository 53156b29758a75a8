"""The lease folder: runs see each other's tickets; what a dead or a strange one left is nothing."""

import contextlib
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from msgspec.structs import replace

from swarm.mailbox.base.errors import SwarmError
from swarm.supervisor.parts.leases.lease_folder import (
    FRESH_S,
    LeaseFolder,
    LeaseFolderBusy,
    RunLeases,
    counted_tickets,
    look,
)
from swarm.supervisor.parts.leases.lease_scheduler import Ticket

NOW = 50.0


def ticket(run, number=1, **more) -> Ticket:
    return Ticket(
        run=run, number=number, agent="/root", kind="test", command="pytest", asked_s=NOW,
        memory_bytes=1, cpus=1.0, **more,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runtime" / "leases"


@pytest.fixture
def runs(folder):
    with contextlib.ExitStack() as stack:
        made = [LeaseFolder(folder, name) for name in ("one", "two")]
        for run in made:
            stack.callback(run.close)
        yield made


def publish(run, *tickets, now=NOW):
    with run.open_exclusive() as shared:
        shared.publish(tickets, now)


def others_of(run, now=NOW):
    with run.open_exclusive() as shared:
        return shared.read_others(now)


def test_each_run_sees_the_tickets_of_the_other(runs):
    one, two = runs
    publish(one, ticket("one"))
    publish(two, ticket("two", 1), ticket("two", 2))
    assert others_of(one) == [ticket("two", 1), ticket("two", 2)]
    assert others_of(two) == [ticket("one")]
    publish(two)
    assert others_of(one) == []


def test_only_one_run_at_a_time_changes_the_folder(runs):
    one, two = runs
    with one.open_exclusive():
        with pytest.raises(LeaseFolderBusy), two.open_exclusive():
            pass
        with pytest.raises(LeaseFolderBusy):
            look(one._folder)
    assert others_of(two) == []


def test_a_run_that_has_ended_leaves_no_file(runs, folder):
    one, two = runs
    publish(one, ticket("one"))
    one.close()
    assert others_of(two) == []
    assert sorted(path.name for path in folder.iterdir()) == ["order", "two.json"]
    publish(one, ticket("one"))  # and it may come back
    assert others_of(two) == [ticket("one")]


def test_a_run_whose_file_was_deleted_makes_it_again(runs, folder):
    one, two = runs
    publish(one, ticket("one"))
    (folder / "one.json").unlink()
    assert others_of(two) == []
    publish(one, ticket("one"))
    assert others_of(two) == [ticket("one")]


def test_two_supervisors_of_one_run_do_not_share_its_file(runs, folder):
    publish(runs[0], ticket("one"))
    with pytest.raises(SwarmError, match="is locked"), LeaseFolder(folder, "one").open_exclusive():
        pass


def test_kill_9_frees_the_leases_of_a_run(runs, folder):
    """A real process holds a lease; the kernel frees it, and the next look removes its file."""
    (two,) = runs[1:]
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from swarm.supervisor.parts.leases.lease_folder import LeaseFolder\n"
        "from swarm.supervisor.parts.leases.lease_scheduler import Ticket\n"
        "run = LeaseFolder(Path(sys.argv[1]), 'dying')\n"
        "one = Ticket(run='dying', number=1, agent='/root', kind='test', command='pytest',\n"
        "             asked_s=50.0, memory_bytes=1, cpus=1.0, given_s=50.0)\n"
        "with run.open_exclusive() as shared:\n"
        "    shared.publish((one,), 50.0)\n"
        "print('holds', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "holds\n"
        assert others_of(two) == [ticket("dying", given_s=NOW)]
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=30)
        assert others_of(two) == []
        assert not (folder / "dying.json").exists()
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_what_a_standing_supervisor_waits_for_is_not_counted_but_what_it_holds_is(runs):
    one, two = runs
    publish(one, ticket("one", 1), ticket("one", 2, given_s=NOW))
    assert others_of(two, now=NOW + FRESH_S + 1) == [ticket("one", 2, given_s=NOW)]


@pytest.mark.parametrize(
    ("given_s", "updated_s", "counts"),
    [
        (NOW, NOW, True),
        (NOW - 1_790, NOW - 1_790, True),
        (NOW - 1_810, NOW - 1_810, False),
        (NOW - 9_000, NOW - 60, True),  # of a run with a longer `max_hold`, which lives
        (NOW - 9_000, NOW - 1_810, False),
    ],
)
def test_a_supervisor_that_stands_still_holds_its_leases_for_half_an_hour(
    given_s, updated_s, counts
):
    held = ticket("odd", given_s=given_s)
    leases = RunLeases(format=1, run="odd", pid=1, updated_s=updated_s, tickets=(held,))
    assert counted_tickets(leases, NOW) == ((held,) if counts else ())


def test_of_too_many_tickets_those_that_hold_leases_are_told_and_the_file_stays_sound(runs):
    one, two = runs
    long = replace(ticket("one"), command="\x01" * 200, agent="/root/" + "x" * 194)
    held = replace(long, number=0, given_s=NOW)
    publish(one, *(replace(long, number=number) for number in range(1, 1_200)), held)
    found = others_of(two)
    assert len(found) == 400
    assert held in found


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"\xff\xfe", b" " * (2 << 20),
        msgspec.json.encode(RunLeases(format=2, run="odd", pid=1, updated_s=NOW)),
        msgspec.json.encode(RunLeases(format=1, run="other", pid=1, updated_s=NOW)),
        msgspec.json.encode(RunLeases(format=1, run="odd", pid=1, updated_s=NOW,
                                      tickets=(ticket("other"),))),
        b'{"format":1,"run":"odd","pid":1,"updated_s":1,"tickets":[{"number":1}]}',
        msgspec.json.encode(RunLeases(format=1, run="odd", pid=1, updated_s=NOW,
                                      tickets=(replace(ticket("odd"), memory_bytes=-5),))),
        msgspec.json.encode(RunLeases(format=1, run="odd", pid=1, updated_s=NOW,
                                      tickets=(replace(ticket("odd"), command="x" * 500),))),
        msgspec.json.encode(RunLeases(format=1, run="odd", pid=1, updated_s=NOW,
                                      tickets=(ticket("odd"),) * 1_001)),
    ],
)  # fmt: skip
def test_a_live_file_that_is_not_sound_counts_for_nothing(runs, folder, content):
    odd = LeaseFolder(folder, "odd")
    publish(odd)
    try:
        (folder / "odd.json").write_bytes(content)
        assert others_of(runs[0]) == []
    finally:
        odd.close()


def test_links_pipes_and_other_names_are_not_read(runs, folder, tmp_path):
    publish(runs[0])
    (tmp_path / "outside").write_text("{}")
    (folder / "link.json").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe.json")
    (folder / "x.json.tmp").write_text("{}")
    (folder / f"{'long' * 40}.json").write_text("{}")
    assert others_of(runs[1]) == []
    assert (folder / "link.json").is_symlink()
    assert (tmp_path / "outside").read_text() == "{}"


def test_a_folder_of_someone_else_is_refused(tmp_path, runs):
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "leases").symlink_to(target)
    with (
        pytest.raises(SwarmError, match="belongs to someone else"),
        LeaseFolder(tmp_path / "leases", "one").open_exclusive(),
    ):
        pass


def test_a_missing_folder_holds_no_leases_and_is_not_made_by_looking(folder):
    assert look(folder) == []
    assert not folder.exists()
