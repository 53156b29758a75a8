"""A server's questions belong to a call, are bounded, and cost the call no time."""

import mcp_types
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from swarm.mailbox.base.resting_limit import RestingLimit
from swarm.mailbox.protocol.mcp import McpServer
from swarm.worker.parts.mcp.call_questions import (
    MAX_OF_CALL,
    MAX_OPEN,
    CallQuestions,
    PersonReply,
)
from swarm.worker.parts.mcp.running_call import RunningCall

FORM = mcp_types.ElicitRequestFormParams(message="?", requested_schema={"properties": {}})


class Person:
    """Answers after a while; keeps whom it was asked for."""

    def __init__(self, wait_s=0.0):
        self.asked = []
        self._wait_s = wait_s

    async def ask(self, requests, action):
        self.asked.append((requests, action))
        await trio.sleep(self._wait_s)
        return PersonReply("accept", b'{"a":1}')


def running(number=1, limit_s=1.0):
    return RunningCall(number, "tool", limit_s=limit_s)


async def test_the_limit_of_a_call_rests_while_a_person_is_asked(autojump_clock):
    person = Person(wait_s=100)
    questions, call, other = CallQuestions(McpServer(name="s"), person), running(1), running(2)
    with questions.during(call), questions.during(other), call.limit.scope, other.limit.scope:
        result = await questions.elicit(FORM)
        assert result.action == "accept"
        await trio.sleep(0.9)
        assert not call.limit.scope.cancel_called
        assert trio.current_time() == pytest.approx(100.9)
        await trio.sleep(0.2)
    assert trio.current_time() == pytest.approx(101)
    assert person.asked[0][0] == (1, 2)


async def test_limits_that_rest_twice_go_on_after_the_last(autojump_clock):
    limit = RestingLimit(1.0)
    with limit.scope, limit.resting():
        with limit.resting():
            await trio.sleep(50)
        await trio.sleep(50)
    assert limit.scope.deadline == pytest.approx(101)


async def test_nobody_is_asked_outside_of_a_call():
    person = Person()
    result = await CallQuestions(McpServer(name="s"), person).elicit(FORM)
    assert isinstance(result, mcp_types.ErrorData)
    assert person.asked == []


async def test_one_call_asks_a_bounded_number_of_times():
    person = Person()
    questions, call = CallQuestions(McpServer(name="s"), person), running()
    with questions.during(call):
        results = [await questions.elicit(FORM) for _ in range(MAX_OF_CALL + 3)]
    assert len(person.asked) == MAX_OF_CALL
    assert all(isinstance(one, mcp_types.ErrorData) for one in results[MAX_OF_CALL:])


async def test_few_questions_wait_at_once_and_all_end_with_their_call(autojump_clock):
    person, ended = Person(wait_s=1000), []
    questions, call = CallQuestions(McpServer(name="s"), person), running()

    async def ask():
        ended.append(await questions.elicit(FORM))

    async with trio.open_nursery() as nursery:
        with questions.during(call):
            for _ in range(MAX_OPEN + 2):
                nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert len(person.asked) == MAX_OPEN
            assert len(ended) == 2
    assert trio.current_time() < 1
    results = [one for one in ended if isinstance(one, mcp_types.ElicitResult)]
    assert [one.action for one in results] == ["cancel"] * MAX_OPEN
