"""Which heavy commands may run: bounds of the machine, order of the queue, nobody starves."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from swarm.supervisor.parts.leases.lease_scheduler import (
    STARVED_AFTER_S,
    LeaseLimits,
    Ticket,
    decide_leases,
)
from swarm.supervisor.processes.machine_facts import MachineState

GIB = 1 << 30
MACHINE = MachineState(processors=2, available_bytes=8 * GIB)
LIMITS = LeaseLimits(reserve_bytes=GIB)
NOW = 1_000.0


def ticket(number, *, agent="/root/a", run="r1", asked=NOW - 1, **more) -> Ticket:
    fields = {"kind": "test", "command": "pytest", "memory_bytes": GIB, "cpus": 1.0, **more}
    return Ticket(run=run, number=number, agent=agent, asked_s=asked, **fields)


def held(number, **more) -> Ticket:
    return ticket(number, given_s=NOW - 1, **more)


def numbers(tickets) -> list[int]:
    return [one.number for one in tickets]


def decide(*tickets, machine=MACHINE, limits=LIMITS):
    return decide_leases(tickets, machine, limits, now=NOW)


@pytest.mark.parametrize(
    ("running", "machine", "limits", "why"),
    [
        ([], MACHINE, LIMITS, ""),
        ([held(1)], MACHINE, LIMITS, ""),
        ([held(1), held(2)], MACHINE, LIMITS, "2 run, and 2 may at once"),
        ([held(1)], MACHINE, LeaseLimits(most=1), "1 run, and 1 may at once"),
        ([held(1, cpus=2.0)], MACHINE, LIMITS, "it may use 1.0 processors, and 0.0 are free"),
        ([held(1, cpus=9.0)], replace(MACHINE, processors=4), LIMITS,
         "it may use 1.0 processors, and 0.0 are free"),
        ([held(1, memory_bytes=7 * GIB)], MACHINE, LIMITS,
         "it may need 1,024 MiB of memory, and 0 MiB are free"),
        ([held(1, memory_bytes=7 * GIB, used_bytes=6 * GIB)], MACHINE, LIMITS, ""),
        ([held(1)], replace(MACHINE, memory_pressure=12.0), LIMITS,
         "the machine is under memory pressure (12 %)"),
        ([held(1)], replace(MACHINE, io_pressure=70.0), LIMITS,
         "the machine is under disk pressure (70 %)"),
        ([held(1)], replace(MACHINE, cpu_pressure=95.0, load=1.0), LIMITS,
         "the machine is under processor pressure (95 %)"),
        ([held(1)], replace(MACHINE, cpu_pressure=20.0, load=50.0), LIMITS, ""),
        ([held(1)], replace(MACHINE, load=4.5), LIMITS, "the machine's load is 4.5"),
        ([held(1)], MachineState(processors=2), LIMITS, ""),
    ],
)  # fmt: skip
def test_the_next_one_runs_if_the_machine_has_room_for_it(running, machine, limits, why):
    decision = decide(*running, ticket(9), machine=machine, limits=limits)
    assert decision.why == why
    assert numbers(decision.given) == ([] if why else [9])
    assert numbers(decision.queue) == ([9] if why else [])


def test_without_any_lease_the_first_one_runs_on_the_worst_machine():
    worst = MachineState(processors=1, available_bytes=0, cpu_pressure=100.0,
                         memory_pressure=100.0, io_pressure=100.0, load=500.0)  # fmt: skip
    decision = decide(ticket(1, memory_bytes=99 * GIB, cpus=64.0), ticket(2), machine=worst)
    assert (numbers(decision.given), numbers(decision.queue)) == ([1], [2])


def test_a_large_command_is_not_overtaken_by_small_ones():
    large, small = ticket(1, memory_bytes=7 * GIB), ticket(2, asked=NOW - 0.5)
    decision = decide(held(3, agent="/root/b"), replace(large, agent="/root/c"), small)
    assert numbers(decision.given) == []
    assert numbers(decision.queue) == [1, 2]


def test_interactive_runs_go_first_then_agents_that_hold_nothing_then_those_served_least():
    queue = decide(
        held(1, agent="/root/busy"), held(2, agent="/root/other"),
        ticket(3, agent="/root/busy", asked=NOW - 9),
        ticket(4, agent="/root/often", served=3, asked=NOW - 8),
        ticket(5, agent="/root/new", asked=NOW - 7),
        ticket(6, agent="/root/newer", asked=NOW - 6),
        ticket(7, run="r2", interactive=True, served=9, asked=NOW - 1),
    ).queue  # fmt: skip
    assert numbers(queue) == [7, 5, 6, 4, 3]


def test_who_waited_too_long_goes_before_interactive_ones():
    old = ticket(3, served=50, asked=NOW - STARVED_AFTER_S)
    queue = decide(held(1), held(2), ticket(4, interactive=True), old).queue
    assert numbers(queue) == [3, 4]


machines = st.builds(
    MachineState,
    processors=st.integers(1, 8),
    available_bytes=st.none() | st.integers(0, 16 * GIB),
    cpu_pressure=st.none() | st.floats(0, 100),
    memory_pressure=st.none() | st.floats(0, 100),
    io_pressure=st.none() | st.floats(0, 100),
    load=st.none() | st.floats(0, 50),
)
limits_of_runs = st.builds(LeaseLimits, most=st.integers(0, 5), reserve_bytes=st.integers(0, GIB))


@st.composite
def crowds(draw) -> list[Ticket]:
    count = draw(st.integers(0, 12))
    return [
        ticket(
            number,
            run=draw(st.sampled_from(["r1", "r2"])),
            agent=draw(st.sampled_from(["/root", "/root/a", "/root/b"])),
            asked=NOW - draw(st.floats(0, 2 * STARVED_AFTER_S)),
            memory_bytes=draw(st.integers(0, 12 * GIB)),
            cpus=draw(st.floats(0.1, 16)),
            interactive=draw(st.booleans()),
            served=draw(st.integers(0, 3)),
            given_s=draw(st.none() | st.just(NOW)),
            used_bytes=draw(st.integers(0, 4 * GIB)),
        )
        for number in range(count)
    ]


@given(crowds(), machines, limits_of_runs)
def test_in_every_crowd_somebody_runs_and_no_bound_is_broken(crowd, machine, limits):
    decision = decide_leases(crowd, machine, limits, now=NOW)
    running = [one for one in crowd if one.holds_lease]
    waiting = [one for one in crowd if not one.holds_lease]
    assert sorted(numbers((*decision.given, *decision.queue))) == sorted(numbers(waiting))
    assert not waiting or running or decision.given
    assert bool(decision.queue) == bool(decision.why)
    if decision.given and running:
        assert len(running) + len(decision.given) <= (limits.most or machine.processors)
    again = decide_leases(
        [*running, *(replace(one, given_s=NOW) for one in decision.given), *decision.queue],
        machine, limits, now=NOW,
    )  # fmt: skip
    assert again.given == ()


@given(crowds(), machines, limits_of_runs)
def test_every_run_decides_the_same_whatever_order_it_read_the_tickets_in(crowd, machine, limits):
    first = decide_leases(crowd, machine, limits, now=NOW)
    assert decide_leases(crowd[::-1], machine, limits, now=NOW) == first


@given(st.lists(st.integers(1, 4), min_size=1, max_size=40), st.integers(1, 3))
def test_agents_that_always_have_another_command_are_all_served_soon(durations, most):
    """Four agents ask again and again; each lease lasts one to four rounds."""
    agents = [f"/root/{name}" for name in "abcd"]
    served, ends = dict.fromkeys(agents, 0), dict[int, int]()
    tickets: list[Ticket] = []
    machine, count, longest = MachineState(processors=most), 0, 0.0
    for at in range(80):
        tickets = [one for one in tickets if ends.get(one.number, at + 1) > at]
        for agent in agents:
            if all(one.agent != agent for one in tickets):
                count += 1
                tickets.append(ticket(count, agent=agent, asked=float(at), served=served[agent]))
        decision = decide_leases(tickets, machine, LeaseLimits(), now=float(at))
        for one in decision.given:
            served[one.agent] += 1
            longest = max(longest, at - one.asked_s)
            ends[one.number] = at + durations[one.number % len(durations)]
            tickets[tickets.index(one)] = replace(one, given_s=float(at))
        longest = max([longest, *(at - one.asked_s for one in decision.queue)])
    others = len(agents) - 1
    assert longest <= 2 * others * max(durations)
    if most == 1:
        assert max(served.values()) - min(served.values()) <= 1
