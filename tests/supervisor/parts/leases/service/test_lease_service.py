"""Leases within one run, in virtual time: given in turn, ended with the command or its process."""

from types import SimpleNamespace

import msgspec
import pytest
import trio

from support.lease_stage import ONE, FakeAgent, settle, stage
from swarm.mailbox.parts.leases.lease_messages import (
    HeavyCommandEnded,
    LeaseGiven,
    LeaseSettings,
    QueuedForLease,
    TakeLease,
)
from swarm.mailbox.protocol.events import Warned
from swarm.supervisor.parts.leases.command_costs import read_costs
from swarm.supervisor.parts.leases.lease_folder import LeaseFolder, look
from swarm.supervisor.parts.leases.lease_scheduler import Ticket


async def test_the_second_waits_until_the_first_has_ended(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        await settle()
        assert on.replies(a) == [LeaseGiven()]
        on.ask(b)
        await settle()
        assert on.replies(b) == [QueuedForLease(place=1, why="1 run, and 1 may at once")]
        await trio.sleep(60)
        assert not on.has_lease(b)
        on.end(a, ran=False)
        await settle()
        assert on.replies(b)[-1] == LeaseGiven(waited_s=pytest.approx(60, abs=1))


async def test_the_end_of_an_agents_process_frees_its_lease(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        await settle()
        on.ask(b)
        a.ended.set()
        await settle()
        assert on.has_lease(b)


async def test_an_interrupted_wait_leaves_nothing_behind(tmp_path, autojump_clock):
    a, b, c = (FakeAgent(f"/root/{name}") for name in "abc")
    async with stage(tmp_path) as on:
        for agent in (a, b, c):
            on.ask(agent)
            await settle()
        on.end(b, ran=False)
        on.end(a, ran=False)
        await settle()
        assert not on.has_lease(b)
        assert on.has_lease(c)
        on.end(c, ran=False)
        await settle()
        assert look(on.places) == []


async def test_a_wait_ends_at_its_bound_and_says_so(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path, msgspec.structs.replace(ONE, max_hold=9_999.0)) as on:
        on.ask(a)
        await settle()
        on.ask(b)
        await trio.sleep(1_001)
        given = on.replies(b)[-1]
        assert given == LeaseGiven(waited_s=pytest.approx(1_000, abs=1), without_turn=True)


async def test_a_lease_that_is_held_too_long_lets_the_next_one_go(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        await settle()
        on.ask(b)
        await trio.sleep(502)
        assert on.replies(b)[-1] == LeaseGiven(waited_s=pytest.approx(500, abs=1))
        on.end(a)  # later: changes nothing for the second
        await settle()
        assert [one.run for one in look(on.places)] == ["run1"]


async def test_a_command_that_does_nothing_for_a_minute_lets_the_next_one_go(
    tmp_path, autojump_clock
):
    a, b, c = FakeAgent("/root/a", 1), FakeAgent("/root/b", 2), FakeAgent("/root/c", 3)
    async with stage(tmp_path) as on:
        on.used_s = {1: 100.0, 2: 0.0, 3: 0.0}
        on.ask(a)
        await settle()
        on.ask(b)
        on.ask(c)
        for _ in range(3):  # busy for three minutes
            await trio.sleep(59)
            on.used_s[1] += 7.0
            await trio.sleep(1)
        assert not on.has_lease(b)
        await trio.sleep(61)
        assert on.replies(b)[-1] == LeaseGiven(waited_s=pytest.approx(240, abs=2))
        assert not on.has_lease(c)
        on.end(a)  # later: changes nothing for the others
        await settle()
        assert not on.has_lease(c)
        assert not any(on.measures_in_lock)


async def test_a_holder_tells_other_runs_each_minute_that_it_lives(tmp_path, autojump_clock):
    agent = FakeAgent("/root/a", 1)
    async with stage(tmp_path) as on:
        on.used_s = {1: 0.0}
        on.ask(agent)
        await trio.sleep(30)
        (first,) = look(on.places)
        on.used_s[1] = 50.0
        await trio.sleep(31)
        (second,) = look(on.places)
        assert second.updated_s - first.updated_s == pytest.approx(60, abs=1)


async def test_a_lease_ends_with_the_process_that_asked_for_it_not_with_a_later_one(
    tmp_path, autojump_clock
):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        a.process = SimpleNamespace(child=SimpleNamespace(pid=0, wait_ended=trio.sleep_forever))
        await settle()
        on.ask(b)
        await settle()
        assert not on.has_lease(b)
        a.ended.set()
        await settle()
        assert on.has_lease(b)


async def test_the_leases_of_another_run_count_and_its_deadline_stops_meanwhile(
    tmp_path, autojump_clock
):
    agent = FakeAgent("/root/a")
    async with stage(tmp_path) as on:
        other = LeaseFolder(on.places, "run2")
        theirs = Ticket(
            run="run2", number=1, agent="/root", kind="build", command="make",
            asked_s=trio.current_time(), memory_bytes=1, cpus=1.0, given_s=trio.current_time(),
        )  # fmt: skip
        (tmp_path / "runtime").mkdir()
        with other.open_exclusive() as shared:
            shared.publish((theirs,), trio.current_time())
        on.ask(agent)
        await trio.sleep(30)
        assert not on.has_lease(agent)
        assert on.pauses.paused_s() == pytest.approx(30, abs=1)
        other.close()
        await trio.sleep(1)
        assert on.has_lease(agent)
        assert on.pauses.paused_s() == pytest.approx(30, abs=1)
        assert on.pauses.waited_s("/root/a") == pytest.approx(30, abs=1)


async def test_waiting_for_the_runs_own_commands_does_not_stop_its_deadline(
    tmp_path, autojump_clock
):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        await settle()
        on.ask(b)
        await trio.sleep(100)
        assert on.pauses.paused_s() == pytest.approx(0, abs=0.1)
        assert on.pauses.waited_s("/root/b") == pytest.approx(100, abs=1)


async def test_what_a_command_used_is_remembered_without_secrets(tmp_path):
    agent = FakeAgent("/root/a")
    (tmp_path / "runs").mkdir()
    async with stage(tmp_path) as on:
        on.service.end(
            agent,
            HeavyCommandEnded(
                kind="test", command="pytest --key hunter2hunter2", head="pytest",
                cwd="/w/hunter2hunter2",
                seconds=9.0, cpu_s=8.0, peak_bytes=7, exit_code=0,
            ),
        )  # fmt: skip
        with trio.fail_after(30):
            while not on.ledger.costs.commands:  # noqa: ASYNC110 - a thread writes it
                await trio.sleep(0.01)
    (known,) = read_costs(tmp_path / "runs").commands
    assert known.samples[0].peak_bytes == 7
    assert "hunter2" not in known.command
    assert "hunter2" not in known.cwd


async def test_all_that_ended_at_once_is_remembered_by_one_task_within_a_bound(
    tmp_path, monkeypatch
):
    agent = FakeAgent("/root/a")
    (tmp_path / "runs").mkdir()
    async with stage(tmp_path) as on:
        adding, most = 0, 0
        add = on.ledger.add

        async def noted(ended) -> None:
            nonlocal adding, most
            adding += 1
            most = max(most, adding)
            await add(ended)
            adding -= 1

        monkeypatch.setattr(on.ledger, "add", noted)
        for n in range(100):
            on.service.end(
                agent,
                HeavyCommandEnded(
                    kind="test", command="pytest", head="pytest", cwd=f"/{n}", seconds=9.0,
                    exit_code=0,
                ),
            )  # fmt: skip
        with trio.fail_after(30):
            while len(on.ledger.costs.commands) < 64:  # noqa: ASYNC110 - a thread writes them
                await trio.sleep(0.01)
    assert most == 1
    assert read_costs(tmp_path / "runs").commands[-1].cwd == "/99"


async def test_a_command_that_was_always_short_does_not_wait(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        on.ask(a)
        await settle()
        for _ in range(2):
            short = HeavyCommandEnded(
                kind="test", command="pytest one", head="pytest", cwd="/w", seconds=0.5,
                cpu_s=0.4, peak_bytes=1 << 20, exit_code=0,
            )  # fmt: skip
            await on.ledger.add(short)
        on.ask(b, command="pytest one")
        await settle()
        assert on.replies(b) == [LeaseGiven()]


async def test_where_the_folder_cannot_be_used_the_run_takes_turns_by_itself_and_says_so(
    tmp_path, autojump_clock
):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    async with stage(tmp_path) as on:
        (tmp_path / "runtime").write_text("no folder")
        on.ask(a)
        on.ask(b)
        await settle()
        assert on.has_lease(a)
        assert not on.has_lease(b)
        (note,) = on.notes
        assert isinstance(note, Warned)
        assert "take turns within this run alone" in note.message


async def test_a_folder_that_stays_locked_does_not_stop_the_run(tmp_path, autojump_clock):
    agent = FakeAgent("/root/a")
    async with stage(tmp_path) as on:
        other = LeaseFolder(on.places, "run2")
        (tmp_path / "runtime").mkdir()
        with other.open_exclusive():
            on.ask(agent)
            await trio.sleep(2)
            assert on.has_lease(agent)
        other.close()


async def test_while_the_folder_stays_locked_the_others_count_as_they_were_read_last(
    tmp_path, autojump_clock
):
    agent = FakeAgent("/root/a")
    async with stage(tmp_path) as on:
        other = LeaseFolder(on.places, "run2")
        (tmp_path / "runtime").mkdir()
        theirs = Ticket(
            run="run2", number=1, agent="/root", kind="build", command="make",
            asked_s=trio.current_time(), memory_bytes=1, cpus=1.0, given_s=trio.current_time(),
        )  # fmt: skip
        with other.open_exclusive() as shared:
            shared.publish((theirs,), trio.current_time())
        on.ask(agent)
        await settle()
        with other.open_exclusive():
            await trio.sleep(20)
            assert not on.has_lease(agent)
        other.close()
        await trio.sleep(1)
        assert on.has_lease(agent)


async def test_an_agents_long_path_is_cut_in_its_ticket(tmp_path, autojump_clock):
    agent = FakeAgent("/root/" + "x" * 500)
    async with stage(tmp_path) as on:
        on.ask(agent)
        await settle()
        (known,) = look(on.places)
        assert [len(one.agent) for one in known.tickets] == [200]


async def test_without_leases_every_command_runs_at_once(tmp_path, autojump_clock):
    agents = [FakeAgent(f"/root/{n}") for n in range(9)]
    async with stage(tmp_path, LeaseSettings(enabled=False)) as on:
        for agent in agents:
            on.ask(agent)
        await settle()
        assert all(on.has_lease(agent) for agent in agents)
        assert not on.places.exists()


async def test_eight_agents_with_three_commands_each_are_all_served(tmp_path, autojump_clock):
    """Never two at once, and nobody gets a second turn before each had a first one."""
    agents = [FakeAgent(f"/root/{n}") for n in range(8)]
    running, most, order = 0, 0, list[str]()
    async with stage(tmp_path, msgspec.structs.replace(ONE, max_wait=99_999.0)) as on:

        async def work(agent: FakeAgent) -> None:
            nonlocal running, most
            for number in (1, 2, 3):
                on.ask(agent, number)
                await on.wait_lease(agent, number)
                order.append(agent.path)
                running += 1
                most = max(most, running)
                await trio.sleep(20)
                running -= 1
                on.end(agent, number, ran=False)

        async with trio.open_nursery() as nursery:
            for agent in agents:
                nursery.start_soon(work, agent)
    assert most == 1
    paths = {agent.path for agent in agents}
    assert [set(order[at : at + 8]) for at in (0, 8, 16)] == [paths] * 3


async def test_what_the_supervisor_runs_for_an_agent_takes_its_turn_too(tmp_path, autojump_clock):
    a, b = FakeAgent("/root/a"), FakeAgent("/root/b")
    install = TakeLease(number=0, kind="install", command="npm ci", head="prepare", cwd="/w")
    begun = trio.Event()
    async with stage(tmp_path) as on, trio.open_nursery() as nursery:
        on.ask(a)
        await settle()

        async def prepare():
            async with on.service.hold("/root/c", install):
                begun.set()
                await trio.sleep(60)

        nursery.start_soon(prepare)
        await settle()
        assert not begun.is_set()
        on.end(a)
        await begun.wait()
        on.ask(b)
        await settle()
        assert not on.has_lease(b)
        await on.wait_lease(b, 1)
