"""What `swarm hosts doctor` says of a machine."""

import msgspec
import pytest

from swarm.mailbox.protocol.hosts import MachineFound
from swarm.mailbox.protocol.nodes import NodeCard
from swarm.supervisor.parts.hosts.placement.machine_faults import find_faults

CARD = NodeCard(
    port=1, public_key=b"", pid=1, version="1.0", python="3", system="Linux", sandbox="bwrap",
    free_disk_bytes=1 << 40, tools=("git",),
)  # fmt: skip
GOOD = MachineFound(
    host="lab", machine="abc", address="10.0.0.1", card=CARD, round_trip_ms=1.0, bytes_per_s=1e8
)


def told(found=GOOD, **card):
    if card:
        found = msgspec.structs.replace(found, card=msgspec.structs.replace(CARD, **card))
    return [(fault.what, fault.is_serious) for fault in find_faults(found, version="1.0")]


def changed(**fields):
    return msgspec.structs.replace(GOOD, **fields)


def test_nothing_is_said_of_a_machine_that_can_work():
    assert told() == []


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"version": "0.9"}, "it has swarm 0.9, and this is 1.0"),
        (
            {"copies": "no user namespaces", "sandbox": "none"},
            "agents cannot work in copies there: no user namesp",
        ),
    ],
)
def test_what_keeps_all_agents_away_is_serious(card, words):
    ((what, is_serious),) = told(**card)
    assert what.startswith(words)
    assert is_serious


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"clock_offset_s": -3600.0}, "its clock differs by -3600 s"),
        ({"round_trip_ms": 300.0}, "the way there is slow: 300 ms"),
        ({"bytes_per_s": 5e5}, "the way there is slow"),
    ],
)
def test_what_only_slows_work_down_is_a_note(fields, words):
    ((what, is_serious),) = told(changed(**fields))
    assert what.startswith(words)
    assert not is_serious


def test_a_missing_program_and_a_full_disk_are_notes():
    assert told(tools=(), free_disk_bytes=5 << 20) == [
        ("only 5 MiB of disk are left", False),
        ("git is not there", False),
    ]


@pytest.mark.parametrize(
    ("problem", "fix"),
    [
        ("there is no Ray here: install", "on this machine: "),
        (
            "10.0.0.1: ModuleNotFoundError: No module named 'swarm'",
            "install this version",
        ),
        ("no Ray cluster at 10.0.0.1:1: refused", "start it"),
        ("something else", "look at the logs"),
    ],
)
def test_a_host_without_machines_says_what_to_do(problem, fix):
    found = MachineFound(host="lab", problem=problem)
    (fault,) = find_faults(found, version="1.0")
    assert fault.what == problem
    assert fault.fix.startswith(fix)


def test_serious_faults_come_first():
    found = changed(clock_offset_s=3600.0, problem="its node cannot be reached at 10.0.0.1:1")
    assert [is_serious for _, is_serious in told(found)] == [True, False]
