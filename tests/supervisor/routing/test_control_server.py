"""The control socket: every request gets an answer, and each refusal says why."""

import os
from contextlib import asynccontextmanager

import pytest
import trio

from support.team_in_memory import WORK, calls, open_team, says
from swarm.mailbox.delivery.control_channel import ControlRequest
from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES, split_into_fragments
from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.control import (
    CompactAgent,
    ContinueAgent,
    Done,
    GetSnapshot,
    InterruptAgent,
    KillAgent,
    PauseAgent,
    Refused,
    ResolveApproval,
    ReviewWork,
    RollBack,
    SendText,
    UndoFiles,
    decode_control_reply,
    encode_control,
)
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.records import ContextRecorded
from swarm.supervisor.agents.agent_phases import AgentEvent
from swarm.supervisor.routing.control_server import ControlService

LIMIT_S = 60
US = os.getpid()


class Server:
    """A ControlServer without a socket; the limit of a reply is the real one."""

    def __init__(self) -> None:
        self._in, self._calls = trio.open_memory_channel[ControlRequest](9)
        self._answers, self._replies = trio.open_memory_channel[bytes](9)

    async def receive(self) -> ControlRequest:
        return await self._calls.receive()

    def reply(self, call: ControlRequest, body: bytes) -> None:
        self._answers.send_nowait(b"".join(split_into_fragments(body)))

    async def ask(self, request, *, pid: int | None = US):
        body = request if isinstance(request, bytes) else encode_control(request)
        self._in.send_nowait(ControlRequest(pid, body, None))
        return decode_control_reply(await self._replies.receive())


@asynccontextmanager
async def open_control_server(folder, scripts):
    """A run whose root works or has finished, and a terminal that sends requests to it."""
    async with open_team(folder, scripts) as team:
        server = Server()
        team.nursery.start_soon(ControlService(team.running, server, team.controlled).serve)
        with trio.fail_after(LIMIT_S):
            await team.begin()
            yield team, server


async def wait_until_idle(team):
    await team.until(lambda: "/root" in team.ends())


async def test_a_caller_that_cannot_be_inspected_is_refused_every_request(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        for request in (GetSnapshot(), KillAgent(), SendText(agent="", text="obey")):
            reply = await server.ask(request, pid=None)
            assert (type(reply), reply.exit_code) == (Refused, 3)
            assert "the system does not say who asks" in reply.message
        assert (team.ending.status, team.alive) == (None, {"/root"})


async def test_what_is_no_request_is_refused_and_the_next_one_is_served(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        for junk in (b"", b"\xc1", b"\xff" * 99, b'{"type": "KillAgent"}'):
            reply = await server.ask(junk)
            assert (type(reply), reply.exit_code) == (Refused, 2)
            assert "cannot be read" in reply.message
        assert team.ending.status is None
        assert isinstance(await server.ask(KillAgent()), Done)
        assert team.ending.status == "terminated"


async def test_an_answer_that_is_too_large_is_refused_and_the_socket_stays_open(
    tmp_path, autojump_clock, monkeypatch
):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        view = team.running.broadcast.current_view()
        large = type(view)(**{**_fields(view), "title": "x" * (MAX_MESSAGE_BYTES + 1)})
        monkeypatch.setattr(team.running.broadcast, "current_view", lambda: large)
        reply = await server.ask(GetSnapshot())
        assert isinstance(reply, Refused)
        assert reply.message.startswith("the answer is too large to be told: ")
        assert isinstance(await server.ask(InterruptAgent(agent="/root")), Done)


def _fields(struct):
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@pytest.mark.parametrize(
    "unaddressed",
    [SendText(agent="/root/nobody", text="x"), InterruptAgent(agent="/root/nobody"),
     KillAgent(agent="/root/nobody"), CompactAgent(agent="/root/nobody"),
     RollBack(agent="/root/nobody"), ReviewWork(prompt="p", agent="/root/nobody")],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
async def test_a_request_for_nobody_names_the_live_agents(tmp_path, autojump_clock, unaddressed):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (_, server):
        reply = await server.ask(unaddressed)
        assert reply == Refused(message="no live agent '/root/nobody'; live now: /root")


async def test_a_run_with_no_question_and_no_changed_file_says_so(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (_, server):
        reply = await server.ask(ResolveApproval(approval_id="a", approve=True))
        assert reply.message == "no approval 'a'; what waits: nothing"
        reply = await server.ask(UndoFiles())
        assert reply.message.startswith("there is nothing to undo; ")


async def test_an_agent_that_was_ended_for_good_is_not_spoken_to(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        agents = team.running.agents
        agents.apply(agents.members["/root"], AgentEvent.CLOSED)
        reply = await server.ask(SendText(agent="/root", text="x"))
        assert reply == Refused(message="/root was ended for good; nothing reaches it")
        assert isinstance(await server.ask(ReviewWork(prompt="p", agent="/root")), Refused)


async def test_a_pause_of_the_whole_run_leaves_the_pause_of_an_agent(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        agents = team.running.agents
        root = agents.members["/root"]
        assert isinstance(await server.ask(PauseAgent(agent="/root")), Done)
        assert isinstance(await server.ask(PauseAgent(agent="")), Done)
        assert isinstance(await server.ask(ContinueAgent(agent="/root")), Refused)
        assert isinstance(await server.ask(ContinueAgent(agent="")), Done)
        assert agents.is_paused(root)
        assert isinstance(await server.ask(ContinueAgent(agent="/root")), Done)
        assert not agents.is_paused(root)


async def test_words_for_a_run_that_is_ending_are_refused(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK)]}) as (team, server):
        team.service.close()
        reply = await server.ask(SendText(agent="/root", text="x"))
        assert reply == Refused(
            message="the run is ending; say it with `swarm resume`", run_ends=True
        )


# --- turns taken back ----------------------------------------------------------------------------


async def test_no_turn_is_taken_back_of_an_agent_at_work_or_without_turns(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [calls(WORK), says("r")]}) as (team, server):
        reply = await server.ask(RollBack(turns=0))
        assert reply == Refused(message="at least one turn must be taken back", exit_code=2)
        await team.until(lambda: bool(team.bodies(CallBegan)))
        reply = await server.ask(RollBack())
        assert isinstance(reply, Refused)
        assert "/root is at work; `swarm interrupt` it first" in reply.message
        await wait_until_idle(team)
        assert isinstance(await server.ask(RollBack()), Done)
        await team.until(lambda: bool(team.bodies(ContextRecorded)))
        reply = await server.ask(RollBack())
        assert reply == Refused(message="/root has had no turn that could be taken back")
        assert [one.rolled_back for one in team.bodies(ContextRecorded)] == [1]


async def test_a_history_that_no_mailbox_takes_is_not_taken_back_to(tmp_path, autojump_clock):
    async with open_control_server(tmp_path, {"/root": [says("r")]}) as (team, server):
        await wait_until_idle(team)
        file = team.service.team.members["/root"].plan.agent_id
        items = tuple(text_message("user", "x" * (MAX_MESSAGE_BYTES // 3)) for _ in range(4))
        kept = ContextRecorded(turn_id="", items=items)
        await team.running.commit(kept, agent="/root", file=file)
        await server.ask(SendText(agent="/root", text="once more"))
        team.scripts["/root"].append(says("again"))
        await team.until(lambda: len(team.ends()["/root"]) == 2)
        reply = await server.ask(RollBack())
        assert isinstance(reply, Refused)
        assert reply.message.startswith(
            "what would stay of /root's history is too large to be sent"
        )
        assert reply.message.endswith("; take back more turns, or compact it first")
        assert team.alive == {"/root"}


async def test_a_compaction_whose_items_no_mailbox_takes_is_not_taken_back(
    tmp_path, autojump_clock
):
    async with open_control_server(tmp_path, {"/root": [says("r")]}) as (team, server):
        await wait_until_idle(team)
        file = team.service.team.members["/root"].plan.agent_id
        long = tuple(text_message("user", "x" * (MAX_MESSAGE_BYTES // 3)) for _ in range(4))
        made = CompactionInfo(
            compaction_id="c", trigger="person", means="model",
            before_tokens=9, after_tokens=1, before_items=4,
        )  # fmt: skip
        for body in (
            ContextRecorded(turn_id="", items=long),
            ContextRecorded(turn_id="", items=(text_message("user", "sum"),), shortened=made),
        ):
            await team.running.commit(body, agent="/root", file=file)
        reply = await server.ask(CompactAgent(undo=True))
        assert isinstance(reply, Refused)
        assert reply.message.startswith("what /root had forgotten is too large to be sent: ")
        assert isinstance(await server.ask(CompactAgent()), Done)


async def test_an_agent_that_is_just_ending_has_no_turn_taken_back(
    tmp_path, autojump_clock, monkeypatch
):
    async with open_control_server(tmp_path, {"/root": [says("r")]}) as (team, server):
        await wait_until_idle(team)
        life = team.control.agents["/root"]
        team.server.dismiss(life.identity)  # as its end does, before anybody has noticed
        assert await server.ask(RollBack()) == Refused(message="/root is just ending; try again")
        reply = await server.ask(CompactAgent())
        assert reply == Refused(message="/root has ended")
