"""Requests that no agent's process made: its hooks are asked first, and only it answers."""

from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.protocol.approvals import ApprovalRequest, NetworkAction
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.ops import AskPermissionHooks
from swarm.mailbox.protocol.requests import Decided, ReportPermission, RequestRefused, Sent
from swarm.mailbox.protocol.spec import Inherited
from swarm.supervisor.approvals.queue.permission_hooks import MAX_ASKED, NO_ANSWER, PermissionHooks

REQUEST = ApprovalRequest(
    action=NetworkAction(host="example.org", port=443, protocol="https", trigger="curl x"),
    cause="network",
)
HOOK = Hook(hook_id="h1", event="PermissionRequest", command="true")
APPROVED = Decided(outcome="approved", by="person")


class Process:
    """An agent's process, which ends when it is told to."""

    def __init__(self, path="/root", epoch=1):
        self.path, self.epoch = path, epoch
        self.plan = SimpleNamespace(slotless=False)
        self.ended = trio.Event()
        self.process = SimpleNamespace(child=SimpleNamespace(wait_ended=self.ended.wait))


class World:
    """A run with one agent, and a broker that approves what reaches it."""

    def __init__(self, *, hooks=(HOOK,), gone=False):
        self.agent, self.sent, self.asked, self._gone = Process(), [], [], gone
        running = SimpleNamespace(
            request=SimpleNamespace(inherited=Inherited(hooks=hooks)),
            agents=SimpleNamespace(live={"/root": self.agent}),
            send=self._send,
        )
        self.hooks = PermissionHooks(running, self)

    async def _send(self, agent, order):
        if self._gone:
            raise PeerGone(b"agent")
        self.sent.append(order)

    async def decide(self, agent, request):
        self.asked.append(request)
        return APPROVED


async def decided(world, *steps):
    """The decision, while these steps are taken one after another."""
    found = []

    async def ask():
        found.append(await world.hooks.decide("/root", REQUEST))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        for step in steps:
            step()
    return found[0]


async def test_without_hooks_the_broker_decides_at_once():
    world = World(hooks=())
    assert await decided(world) == APPROVED
    assert (world.sent, world.asked) == ([], [REQUEST])


async def test_a_hooks_denial_is_the_answer():
    world = World()
    report = ReportPermission(question=1, denied="not that host")
    answer = await decided(world, lambda: world.hooks.take_report(world.agent, report))
    assert answer == Decided(outcome="denied", by="hook", text="not that host")
    assert world.asked == []
    assert world.sent == [
        AskPermissionHooks(question=1, command="curl x", target="https://example.org:443")
    ]


async def test_what_a_hook_allows_is_judged_by_the_broker():
    world = World()
    report = ReportPermission(question=1, allowed_by="h1")
    assert await decided(world, lambda: world.hooks.take_report(world.agent, report)) == APPROVED
    assert [one.allowed_by_hook for one in world.asked] == ["h1"]


async def test_only_the_process_that_was_asked_answers():
    world, replies = World(), []
    allowed = ReportPermission(question=1, allowed_by="h1")
    silent = ReportPermission(question=1)
    sent = [
        (Process("/root/b"), allowed),
        (Process(epoch=2), allowed),
        (world.agent, ReportPermission(question=2, allowed_by="h1")),
        (world.agent, silent),
        (world.agent, allowed),
    ]

    def report_all():
        replies.extend(type(world.hooks.take_report(whose, what)) for whose, what in sent)

    assert await decided(world, report_all) == APPROVED
    assert replies == [RequestRefused, RequestRefused, RequestRefused, Sent, RequestRefused]
    assert [one.allowed_by_hook for one in world.asked] == [""]


@pytest.mark.parametrize("gone", [True, False])
async def test_an_agent_that_ends_before_its_hooks_answered_reaches_no_host(gone):
    world = World(gone=gone)
    answer = await decided(world, world.agent.ended.set)
    assert answer == Decided(outcome="denied", by="hook", text=NO_ANSWER)
    assert world.asked == []


async def test_questions_that_hooks_leave_open_are_bounded_and_go_with_their_process():
    world = World()
    async with trio.open_nursery() as nursery:
        for _ in range(MAX_ASKED):
            nursery.start_soon(world.hooks.decide, "/root", REQUEST)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()  # withdrawn; their hooks still run
    refused = await world.hooks.decide("/root", REQUEST)
    assert refused.outcome == "denied"
    assert len(world.sent) == MAX_ASKED
    world.agent.epoch = 2
    report = ReportPermission(question=MAX_ASKED + 2)
    answer = await decided(world, lambda: world.hooks.take_report(world.agent, report))
    assert answer == APPROVED
