"""An agent's leases: light commands ask nobody, heavy ones wait, and their end is told once."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
import trio.testing

from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.parts.leases.lease_messages import (
    HeavyCommandEnded,
    LeaseGiven,
    LeaseRules,
    QueuedForLease,
    TakeLease,
)
from swarm.mailbox.parts.part_messages import PartRules
from swarm.mailbox.protocol.events import RequestSent, Waiting, decode_event
from swarm.mailbox.protocol.items import FunctionCall
from swarm.worker.base.current_spec import CurrentSpec
from swarm.worker.base.reporter import Reporter
from swarm.worker.exec.command_state import ExitStatus
from swarm.worker.exec.launcher_protocol import CommandUsage
from swarm.worker.parts.leases.lease_client import LeaseClient, wait_notice
from swarm.worker.sandbox.sandbox_plan import SandboxPlan
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC
from swarm.worker.tools.exec_command import ExecCommandTool
from swarm.worker.tools.interface.tool_context import ToolContext
from swarm.worker.tools.interface.tool_interface import TurnTakingInvocation

RULES = LeaseRules(enabled=True, command_memory_bytes=1 << 30)
PYTEST = ("sh", "-c", "pytest -q")
MODEST, LARGE = CommandUsage(cpu_s=1.0, peak_bytes=5), CommandUsage(cpu_s=99.0, peak_bytes=7)


class Stage:
    """A client, what it told the supervisor, and the supervisor's replies."""

    def __init__(self, reporter: Reporter, rules: LeaseRules) -> None:
        self.reporter, self.events = reporter, list[object]()
        spec = msgspec.structs.replace(FAKE_AGENT_SPEC, parts=PartRules(leases=rules))
        self.client = LeaseClient(CurrentSpec(spec), reporter)

    async def receive(self, server) -> None:
        while True:
            self.events.append(decode_event((await server.receive()).body))

    def told(self, kind):
        return [one for one in self.events if isinstance(one, kind)]

    async def reply(self, reply) -> None:
        await trio.testing.wait_all_tasks_blocked()
        self.reporter.receive_reply(self.told(RequestSent)[-1].request_id, reply)


@asynccontextmanager
async def stage(rules: LeaseRules = RULES) -> AsyncIterator[Stage]:
    async with open_pair_server() as server, trio.open_nursery() as nursery:
        server.admit(b"a", epoch=1)
        on = Stage(Reporter(server.connect(b"a", epoch=1)), rules)
        nursery.start_soon(on.receive, server)
        nursery.start_soon(on.reporter.run_outbox)
        yield on
        nursery.cancel_scope.cancel()


async def test_a_light_command_sends_nothing(autojump_clock):
    async with stage() as on:
        assert on.client.find(("sh", "-c", "ls -l")) is None
        on.client.observe(("sh", "-c", "ls -l"), "/w").end(ExitStatus(exit_code=0, usage=MODEST))
        await trio.sleep(1)
        assert on.events == []


@pytest.mark.parametrize("rules", [LeaseRules(), LeaseRules(enabled=False, learned=("a",))])
async def test_an_agent_without_leases_finds_nothing_heavy(autojump_clock, rules):
    async with stage(rules) as on:
        assert on.client.find(PYTEST) is None
        assert on.client.observe(PYTEST, "/w") is None


async def test_a_heavy_command_waits_shows_its_place_and_tells_its_end_once(autojump_clock):
    async with stage() as on, trio.open_nursery() as nursery:
        leases = []

        async def take() -> None:
            leases.append(await on.client.take(on.client.find(PYTEST), "/w"))

        nursery.start_soon(take)
        await on.reply(QueuedForLease(place=2, why="1 run, and 1 may at once"))
        (asked,) = on.told(RequestSent)
        assert asked.request == TakeLease(
            number=1, kind="test", command="pytest -q", head="pytest", cwd="/w"
        )
        await trio.sleep(12)
        assert not leases
        waits = (
            "waits for its turn among heavy commands (number 2 in line: 1 run, and 1 may at once)"
        )
        assert on.told(Waiting)[-1] == Waiting(reason=waits)
        await on.reply(LeaseGiven(waited_s=12.0))
        await trio.sleep(5)
        (lease,) = leases
        assert lease.memory_bytes == 1 << 30
        assert lease.notice.startswith("it began 12.0 s late: builds, tests and installs")
        for _ in range(2):
            lease.end(ExitStatus(exit_code=1, usage=LARGE))
        await trio.sleep(1)
        assert on.told(HeavyCommandEnded) == [
            HeavyCommandEnded(
                lease=1, kind="test", command="pytest -q", head="pytest", cwd="/w", waited_s=12.0,
                seconds=5.0, cpu_s=99.0, peak_bytes=7, exit_code=1,
            )
        ]  # fmt: skip


async def test_a_cancelled_wait_is_withdrawn(autojump_clock):
    async with stage() as on:
        with trio.move_on_after(3):
            await on.client.take(on.client.find(PYTEST), "/w")
        await trio.sleep(1)
        assert on.told(HeavyCommandEnded) == [
            HeavyCommandEnded(
                lease=1, kind="test", command="pytest -q", head="pytest", cwd="/w", ran=False
            )
        ]


async def test_a_command_that_proves_heavy_is_reported_and_takes_turns_from_then_on(autojump_clock):
    argv = ("sh", "-c", "simulate --all")
    async with stage() as on:
        assert on.client.find(argv) is None
        for killed in (ExitStatus(signal=15, usage=LARGE), ExitStatus(exit_code=137, usage=LARGE)):
            on.client.observe(argv, "/w").end(killed)
        assert on.client.find(argv) is None  # so ends a server, which is no heavy command
        on.client.observe(argv, "/w").end(ExitStatus(exit_code=0, usage=LARGE))
        await trio.sleep(1)
        (told,) = on.told(HeavyCommandEnded)
        assert (told.lease, told.kind, told.head) == (0, "learned", "simulate")
        assert on.client.find(argv).kind == "learned"


async def test_a_command_whose_program_has_no_name_ends_nothing(autojump_clock):
    async with stage() as on:
        assert on.client.find(("sh", "-c", "./ x")) is None
        on.client.observe(("sh", "-c", "./ x"), "/w").end(ExitStatus(exit_code=126, usage=LARGE))
        await trio.sleep(1)
        assert on.events == []


async def test_what_the_table_names_is_not_learned_from_a_command_with_a_terminal(autojump_clock):
    async with stage() as on:
        assert on.client.find(PYTEST) is not None
        on.client.observe(PYTEST, "/w").end(ExitStatus(exit_code=0, usage=LARGE))
        await trio.sleep(1)
        assert on.events == []


class Commands:
    """What a prepared command asks of the sessions; it runs none."""

    def shell_argv(self, script, *, shell=None):
        return ("/bin/sh", "-c", script)

    async def load_environment(self):
        pass

    def outside_environment(self):
        return {"PATH": "/usr/bin:/bin"}

    def plan(self, policy, cwd, extra=None):
        return SandboxPlan()


@pytest.mark.parametrize("tty", [False, True])
async def test_a_command_with_a_terminal_takes_no_turn(autojump_clock, tty):
    async with stage() as on:
        spec = msgspec.structs.replace(FAKE_AGENT_SPEC, parts=PartRules(leases=RULES))
        tool = ExecCommandTool(ToolContext(CurrentSpec(spec), Commands(), on.reporter))
        arguments = json.dumps({"cmd": "pytest -q", "tty": tty})
        call = FunctionCall(call_id="c", name="exec_command", arguments=arguments)
        prepared = await tool.prepare(call)
        assert isinstance(prepared, TurnTakingInvocation)
        assert prepared.takes_turns is not tty


def test_the_model_is_told_of_a_wait_only_if_it_was_one():
    assert wait_notice(0.4, without_turn=False) == ""
    assert "30.0 s late" in wait_notice(30.0, without_turn=False)
    assert "it ran beside them" in wait_notice(1800.0, without_turn=True)
