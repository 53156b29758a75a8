"""`/status`, `/mcp`, and the conversation's own questions."""

import asyncio

import pytest

from swarm.mailbox.protocol.control import AgentView, RunView
from swarm.mailbox.protocol.events import CallBegan, CallEnded, McpCall
from swarm.mailbox.protocol.records import AgentSpawned, Record
from swarm.mailbox.protocol.values.limits import Budget, Limits, McpAccess
from swarm.supervisor.clients.chat.chat_frame import is_waiting_with_plan
from swarm.supervisor.clients.chat.confirmation_panel import ConfirmationPanel
from swarm.supervisor.clients.chat.status_page import mcp_lines, status_lines


def test_the_status_says_what_was_spent_and_what_the_agent_may_do():
    view = RunView(
        run_id="00000000-0000-7000-8000-0000000012ab", cwd="/w", model="m", started=40.0,
        status="idle", budget=Budget(tokens=5_000), slots_max=8,
    )  # fmt: skip
    agent = AgentView(path="/root", state="ended", sandbox="read-only", planning=True,
                      context_tokens=30, context_window=300)  # fmt: skip
    text = "\n".join(status_lines(view, agent, now=100.0))
    assert "0 tokens of at most 5.0k tokens" in text
    assert "read-only, plan mode: it only reads until /accept" in text
    assert "10 % of 300 tokens" in text
    assert "idle" in text


def test_what_a_run_says_of_itself_cannot_control_the_terminal():
    lines = status_lines(RunView(cwd="/w\x1b[2J\n", title="\x07"), None, now=0.0)
    assert all(line.isprintable() for line in lines)


def records(*bodies):
    return [Record(seq=n, ts=0.0, agent="/root", body=body) for n, body in enumerate(bodies, 1)]


def mcp_call(call_id, status):
    detail = McpCall(server="time", tool="now")
    ids = {"turn_id": "t", "call_id": call_id, "tool": "mcp__time__now"}
    return CallBegan(**ids, detail=detail), CallEnded(**ids, status=status)


def test_servers_and_their_calls_are_counted():
    access = (McpAccess("time"), McpAccess("docs", ("search",)))
    spawned = AgentSpawned(agent_id="a", path="/root", epoch=1, pid=1, limits=Limits(mcp=access))
    past = records(spawned, *mcp_call("1", "completed"), *mcp_call("2", "failed"))
    assert mcp_lines(past, "/root") == [
        "  time      all its tools",
        "  docs      search",
        "  time.now: 2 calls, 1 failed",
    ]
    assert mcp_lines([], "/root") == ["  /root may use no MCP server"]


@pytest.mark.parametrize(("state", "waits"), [("ended", True), ("idle", True), ("running", False)])
def test_an_agent_waits_with_its_plan_when_its_turn_has_ended(state, waits):
    assert is_waiting_with_plan(AgentView(path="/root", state=state, planning=True)) is waits
    assert not is_waiting_with_plan(AgentView(path="/root", state=state))


@pytest.mark.parametrize(
    ("keys", "answer"), [("y", True), ("n", False), ("x", False), ("qy", True), ("qn", False)]
)
def test_only_a_yes_is_a_yes(keys, answer):
    async def ask():
        panel = ConfirmationPanel(lambda: None)
        asked = asyncio.create_task(panel.ask("Sure?"))
        await asyncio.sleep(0)
        assert panel.lines()[0] == ("Sure?",)
        for key in keys:
            panel.press(key)
        assert not panel.is_open
        return await asked

    assert asyncio.run(ask()) is answer


def test_a_second_question_answers_the_first_with_no():
    async def ask():
        panel = ConfirmationPanel(lambda: None)
        first = asyncio.create_task(panel.ask("One?"))
        await asyncio.sleep(0)
        second = asyncio.create_task(panel.ask("Two?"))
        await asyncio.sleep(0)
        panel.press("y")
        return await first, await second

    assert asyncio.run(ask()) == (False, True)
