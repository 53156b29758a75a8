"""A server is one connection: started when needed, stopped when idle, started again with pauses."""

from contextlib import asynccontextmanager
from itertools import pairwise

import pytest
import trio

from swarm.mailbox.protocol.mcp import McpAnnotations, McpOutcome, McpServer, McpTool
from swarm.worker.parts.mcp.server_pool import MAX_FAILURES, PooledCall, ServerPool
from swarm.worker.parts.mcp.server_session import CallInterrupted, ServerFailed

READS = McpTool(server="s", tool="reads", name="reads")
REPEATS = McpTool(
    server="s", tool="repeats", name="repeats", annotations=McpAnnotations(idempotent=True)
)


class Connection:
    """A connected server that answers at once."""

    def __init__(self, servers):
        self._servers = servers
        self.tools, self.has_resources = (READS, REPEATS), False
        self.ended = trio.Event()

    async def wait_ended(self):
        await self.ended.wait()
        return "it ended"

    async def current_tools(self):
        return self.tools

    async def call(self, call, arguments, on_progress):
        await trio.sleep(self._servers.call_s)
        if self._servers.dies_in_calls:
            self.ended.set()
            raise CallInterrupted("it ended")
        return McpOutcome(state="completed")

    async def ask(self, question):
        raise AssertionError("nothing is asked here")


class Servers:
    """Starts connections; `failing` starts fail first."""

    def __init__(self):
        self.starts, self.stops = [], []  # (label, when)
        self.failing, self.start_s, self.call_s, self.stop_s = 0, 0.0, 0.0, 0.0
        self.dies_in_calls = False
        self.newest = None

    @asynccontextmanager
    async def open(self, server, label):
        self.starts.append((label, trio.current_time()))
        await trio.sleep(self.start_s)
        if self.failing:
            self.failing -= 1
            raise ServerFailed("no such program")
        self.newest = Connection(self)
        try:
            yield self.newest
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.stop_s)
            self.stops.append((label, trio.current_time()))


@asynccontextmanager
async def pool_of(*servers):
    made = Servers()
    async with trio.open_nursery() as nursery:
        pool = ServerPool(servers, made.open, nursery)
        nursery.start_soon(pool.stop_idle)
        yield pool, made
        nursery.cancel_scope.cancel()


async def call(pool, agent="a", tool="reads"):
    return await pool.call("s", agent, PooledCall(tool, {}, lambda line: None))


async def test_all_agents_share_one_connection_which_ends_when_nobody_used_it_for_long(
    autojump_clock,
):
    async with pool_of(McpServer(name="s", idle_s=10.0)) as (pool, made):
        assert made.starts == []  # nothing is started before its first use
        async with trio.open_nursery() as nursery:
            for agent in "abcdefgh":
                nursery.start_soon(call, pool, agent)
        assert [label for label, _ in made.starts] == ["s-1"]
        await trio.sleep(9)
        assert made.stops == []
        await trio.sleep(3)
        assert len(made.stops) == 1
        assert (await call(pool)).state == "completed"
        assert len(made.starts) == 2


async def test_a_server_that_takes_time_to_end_is_gone_before_it_is_started_again(autojump_clock):
    async with pool_of(McpServer(name="s", idle_s=10.0)) as (pool, made):
        made.stop_s = 5.0
        await call(pool)
        await trio.sleep(12)  # it is being stopped
        assert (await call(pool)).state == "completed"
        assert made.starts[1][1] == pytest.approx(made.stops[0][1])
        await trio.sleep(6)
        assert (await call(pool)).state == "completed"
        assert len(made.starts) == 2  # the end of the first has not hidden the second


async def test_a_server_that_works_is_not_idle(autojump_clock):
    async with pool_of(McpServer(name="s", idle_s=10.0)) as (pool, made):
        made.call_s = 100.0
        assert (await call(pool)).state == "completed"
        assert made.stops == []


async def test_pauses_between_starts_grow_and_a_server_that_keeps_failing_is_left_alone(
    autojump_clock,
):
    async with pool_of(McpServer(name="s")) as (pool, made):
        made.failing = MAX_FAILURES
        outcomes = [await call(pool) for _ in range(MAX_FAILURES + 2)]
        times = [when for _, when in made.starts]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert pauses == pytest.approx([0.2, 0.6, 1.8, 5.4])
        assert {one.state for one in outcomes} == {"failed"}
        assert outcomes[0].message == "no such program"
        assert "failed 5 times in a row and is left alone for 60 s" in outcomes[-1].message
        await trio.sleep(61)
        assert (await call(pool)).state == "completed"


async def test_a_server_that_answered_begins_with_a_short_pause_again(autojump_clock):
    async with pool_of(McpServer(name="s")) as (pool, made):
        made.failing = 3
        for _ in range(4):
            await call(pool)
        made.newest.ended.set()
        await trio.testing.wait_all_tasks_blocked()
        ended_at = trio.current_time()
        assert (await call(pool)).state == "completed"
        assert trio.current_time() - ended_at == pytest.approx(0.2)


async def test_a_server_that_is_not_ready_in_time_says_so(autojump_clock):
    async with pool_of(McpServer(name="s", startup_timeout_s=2.0)) as (pool, made):
        made.start_s = 5.0
        outcome = await call(pool)
        assert outcome.message == "it was not ready within 2 s (startup_timeout_sec)"
        assert trio.current_time() == pytest.approx(2)


@pytest.mark.parametrize(("tool", "starts"), [("reads", 1), ("repeats", 2)])
async def test_an_interrupted_call_is_repeated_once_if_that_does_no_harm(
    tool, starts, autojump_clock
):
    async with pool_of(McpServer(name="s")) as (pool, made):
        made.dies_in_calls = True
        outcome = await call(pool, tool=tool)
        assert outcome.state == "interrupted"
        assert "may or may not have had its effect" in outcome.message
        assert len(made.starts) == starts


async def test_an_agents_own_server_ends_with_it_and_no_other_does(autojump_clock):
    async with pool_of(McpServer(name="s", per_agent=True)) as (pool, made):
        await call(pool, "a")
        await call(pool, "b")
        assert [label for label, _ in made.starts] == ["s-1", "s-2"]
        pool.release_agent("a")
        await trio.testing.wait_all_tasks_blocked()
        assert [label for label, _ in made.stops] == ["s-1"]
        assert (await call(pool, "b")).state == "completed"
        assert len(made.starts) == 2


async def test_what_is_known_of_a_server_starts_none_that_was_used_before(autojump_clock):
    async with pool_of(McpServer(name="s", idle_s=1.0)) as (pool, made):
        assert await pool.known_tools("s", "a") == (READS, REPEATS)
        await trio.sleep(5)
        assert len(made.stops) == 1
        assert await pool.known_tools("s", "a") == (READS, REPEATS)
        assert len(made.starts) == 1
