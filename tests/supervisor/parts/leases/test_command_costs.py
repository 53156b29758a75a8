"""What a heavy command is expected to use, from what it used before."""

import pytest
from msgspec.structs import replace

from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded
from swarm.supervisor.parts.leases.command_costs import (
    COSTS_FILE,
    CommandCosts,
    Estimate,
    add_cost,
    estimate_cost,
    learned_heads,
    read_costs,
    with_cost,
)

MIB = 1 << 20
ENDED = HeavyCommandEnded(
    lease=1, kind="test", command="pytest tests", head="pytest", cwd="/w", seconds=60.0,
    cpu_s=90.0, peak_bytes=1000 * MIB, exit_code=0,
)  # fmt: skip


def known(*ends) -> CommandCosts:
    costs = CommandCosts()
    for ended in ends:
        costs = with_cost(costs, ended)
    return costs


def expected(costs, command="pytest tests", kind="test", cwd="/w", head="pytest") -> Estimate:
    return estimate_cost(costs, kind=kind, command=command, head=head, cwd=cwd, processors=4)


@pytest.mark.parametrize(
    ("kind", "memory", "cpus"), [("build", 1024, 4.0), ("test", 512, 1.0), ("install", 384, 0.5)]
)
def test_an_unknown_command_is_expected_to_be_like_its_kind(kind, memory, cpus):
    assert expected(CommandCosts(), kind=kind) == Estimate(memory_bytes=memory * MIB, cpus=cpus)


def test_the_same_command_counts_with_the_most_memory_of_its_last_five_runs():
    older = replace(ENDED, peak_bytes=9000 * MIB)
    ends = [older, *(replace(ENDED, peak_bytes=n * 100 * MIB, seconds=n) for n in range(11, 16))]
    assert expected(known(*ends)) == Estimate(
        memory_bytes=int(1.2 * 1500 * MIB), cpus=90 / 11, seconds=13.0
    )


def test_a_command_like_it_counts_with_the_middle_of_all_of_them():
    ends = [replace(ENDED, command=f"pytest {n}", peak_bytes=n * MIB) for n in (100, 200, 9000)]
    found = expected(known(*ends), command="pytest other")
    assert (found.memory_bytes, found.cpus) == (240 * MIB, 1.5)
    assert not found.is_light


def test_another_folder_tells_nothing():
    assert expected(known(ENDED), cwd="/elsewhere") == expected(CommandCosts())


def test_what_was_short_and_small_twice_need_not_wait():
    quick = replace(ENDED, seconds=0.5, peak_bytes=30 * MIB)
    assert not expected(known(quick)).is_light
    assert expected(known(quick, quick)).is_light
    assert not expected(known(quick, quick, ENDED)).is_light
    assert not expected(known(*[replace(quick, exit_code=1)] * 5)).is_light


@pytest.mark.parametrize(
    "changes",
    [
        {"ran": False},
        {"exit_code": None},
        {"exit_code": 137},
        {"seconds": float("nan")},
        {"seconds": -1.0},
        {"cpu_s": float("inf")},
        {"peak_bytes": -1},
        {"peak_bytes": 1 << 60},
        {"head": ""},
        {"head": "x" * 201},
        {"command": "x" * 999},
        {"cwd": "/" + "x" * 5000},
    ],
)
def test_a_command_that_was_cut_off_or_tells_nonsense_changes_nothing(changes):
    assert known(replace(ENDED, **changes)) == CommandCosts()


def test_what_no_table_names_is_learned_latest_first():
    ends = [replace(ENDED, kind="learned", head=head, command=head) for head in ("a b", "c", "a b")]
    assert learned_heads(known(ENDED, *ends), folder="/w") == ("a b", "c")


def test_what_was_learned_elsewhere_is_not_passed_on():
    learned = replace(ENDED, kind="learned", command="c")
    places = {"here": "/w", "below": "/w/x", "above": "/", "beside": "/ww", "nowhere": ""}
    ends = [replace(learned, head=head, cwd=cwd) for head, cwd in places.items()]
    assert learned_heads(known(*ends), folder="/w") == ("below", "here")


def test_what_is_expected_stays_within_what_other_runs_accept():
    large = replace(ENDED, seconds=0.0, cpu_s=9e9, peak_bytes=1 << 50)
    for command in ("pytest tests", "pytest other"):
        found = expected(known(large), command=command)
        assert (found.memory_bytes, found.cpus) == (1 << 49, 4096.0)


def test_the_file_is_bounded_and_a_broken_one_is_nothing(tmp_path):
    assert read_costs(tmp_path) == CommandCosts()
    assert len(known(*(replace(ENDED, cwd=f"/{n}") for n in range(500))).commands) == 400
    assert add_cost(tmp_path, ENDED) == known(ENDED) == read_costs(tmp_path)
    assert add_cost(tmp_path, ENDED) == known(ENDED, ENDED)
    (tmp_path / COSTS_FILE).write_text("{")
    assert read_costs(tmp_path) == CommandCosts()
    (tmp_path / COSTS_FILE).write_bytes(b" " * (2 << 20))
    assert add_cost(tmp_path, ENDED) == known(ENDED)
