"""A call whose server wants to know more: it is asked again with the answers, and not for ever."""

import mcp_types
import pytest
import trio
from mcp.shared.exceptions import MCPError

from swarm.mailbox.protocol.mcp import McpServer
from swarm.worker.parts.mcp.call_questions import CallQuestions, PersonReply
from swarm.worker.parts.mcp.call_rounds import MAX_ROUNDS, CallRounds, TooManyRounds
from swarm.worker.parts.mcp.running_call import RunningCall

DONE = mcp_types.CallToolResult(content=[])
FORM = mcp_types.ElicitRequest(
    params=mcp_types.ElicitRequestFormParams(message="?", requested_schema={"properties": {}})
)
PAGE = mcp_types.ElicitRequest(
    params=mcp_types.ElicitRequestURLParams(message="?", url="file:///x", elicitation_id="1")
)


class Person:
    """Answers after `wait_s`."""

    def __init__(self, wait_s=0.0):
        self.asked = self.left = 0
        self._wait_s = wait_s

    async def ask(self, requests, action):
        self.asked += 1
        try:
            await trio.sleep(self._wait_s)
        except trio.Cancelled:
            self.left += 1
            raise
        return PersonReply("accept", b'{"a":1}')


class Server:
    """Says one thing after the other; keeps what it was asked again with."""

    def __init__(self, *says):
        self._says = list(says)
        self.heard = []

    async def send(self, *, input_responses=None, request_state=None):
        self.heard.append((input_responses, request_state))
        return self._says.pop(0) if len(self._says) > 1 else self._says[0]


async def complete(server, person):
    questions = CallQuestions(McpServer(name="s"), person)
    call = RunningCall(1, "tool", limit_s=1e6)
    return await CallRounds(None, questions).complete(call, server.send)


def wants(state=None, **requests):
    return mcp_types.InputRequiredResult(input_requests=requests or None, request_state=state)


async def test_a_result_at_once_is_the_result():
    server = Server(DONE)
    assert await complete(server, Person()) is DONE
    assert server.heard == [(None, None)]


async def test_all_questions_of_a_round_are_asked_at_once_and_the_state_goes_back(autojump_clock):
    server, person = Server(wants("s1", a=FORM, b=FORM), wants("s2", c=FORM), DONE), Person(5)
    assert await complete(server, person) is DONE
    assert trio.current_time() == 10
    first, second = server.heard[1:]
    assert (set(first[0]), first[1]) == ({"a", "b"}, "s1")
    assert (set(second[0]), second[1]) == ({"c"}, "s2")


async def test_a_server_that_only_wants_to_be_asked_again_is_asked_ever_more_slowly(autojump_clock):
    server = Server(*(wants(f"s{number}") for number in range(5)), DONE)
    assert await complete(server, Person()) is DONE
    assert trio.current_time() == pytest.approx(0.05 + 0.1 + 0.2 + 0.25 + 0.25)
    assert [state for _, state in server.heard] == [None, "s0", "s1", "s2", "s3", "s4"]


async def test_a_server_that_never_ends_asking_is_left(autojump_clock):
    server = Server(wants("again"))
    with pytest.raises(TooManyRounds, match="asked 10 times"):
        await complete(server, Person())
    assert len(server.heard) == MAX_ROUNDS + 1


async def test_a_question_that_is_refused_withdraws_the_others(autojump_clock):
    server, person = Server(wants(a=FORM, b=PAGE), DONE), Person(1e6)
    with pytest.raises(MCPError):
        await complete(server, person)
    assert trio.current_time() < 1
    assert person.asked == person.left
    assert len(server.heard) == 1


async def test_the_end_of_a_call_ends_its_questions(autojump_clock):
    server, person = Server(wants(a=FORM), DONE), Person(1e6)
    with trio.move_on_after(3):
        await complete(server, person)
    assert (person.asked, person.left) == (1, 1)
