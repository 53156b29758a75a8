"""Who waits, how long, and in what order: numbers, the limiter, and the gate in virtual time."""

from contextlib import aclosing

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.worker.gateway.backend import (
    Failure,
    RenderedRequest,
    RequestAccepted,
    RequestWaiting,
    ResponseFinished,
    ResponseTextDelta,
    SampleError,
)
from swarm.worker.gateway.failures import (
    ErrorBody,
    FailureOrigin,
    classify_status,
    classify_stream_error,
)
from swarm.worker.gateway.rate_limit_headers import (
    asked_delay_s,
    delay_in_prose_s,
    spent_allowance_s,
)
from swarm.worker.gateway.rate_limit_state import (
    Admitted,
    RateLimitState,
    WaitForSlot,
    WaitUntil,
    backoff_s,
)
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.retry_policy import RetryingBackend

NOW = 1_700_000_000.0
MODEL = ModelInfo(slug="m", provider="p", wire="responses")
REQUEST = RenderedRequest(agent_id="a", agent_path="/root", ordinal=1, model=MODEL)


@pytest.mark.parametrize(
    ("headers", "message", "delay_s"),
    [
        ({"retry-after": "3"}, "", 3.0),
        ({"retry-after": "0.5"}, "try again in 9s", 0.5),
        ({"retry-after-ms": "250", "retry-after": "3"}, "", 0.25),
        ({"retry-after": "Tue, 14 Nov 2023 22:13:50 GMT"}, "", 30.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "-5"}, "", None),
        ({}, "Rate limit reached. Please try again in 1.5s.", 1.5),
        ({}, "Please try again in 20 seconds", 20.0),
        ({}, "TRY AGAIN IN 350MS", 0.35),
        ({}, "retry after 2 minutes", 120.0),
        ({}, "no delay named", None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, "", 90.0),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "90s"}, "", None),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, "", 0.12),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000012"}, "", 12.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000012000"}, "", 12.0),
    ],
)
def test_the_delay_that_a_server_asks_for(headers, message, delay_s):
    assert asked_delay_s(headers, message, NOW) == (
        None if delay_s is None else pytest.approx(delay_s, abs=1e-6)
    )


@given(st.text(), st.text(), st.dictionaries(st.sampled_from(["retry-after"]), st.text()))
def test_no_header_or_message_breaks_the_reader(message, value, headers):
    headers |= {"x-ratelimit-remaining": "0", "x-ratelimit-reset": value}
    for delay_s in (asked_delay_s(headers, message, NOW), spent_allowance_s(headers, NOW)):
        assert delay_s is None or delay_s >= 0
    delay_in_prose_s(message)


@pytest.mark.parametrize(("attempt", "delay_s"), [(1, 0.2), (2, 0.4), (3, 0.8), (99, 60.0)])
def test_backoff_doubles_within_ten_percent_and_has_a_cap(attempt, delay_s):
    assert backoff_s(attempt, 0.0) == pytest.approx(delay_s * 0.9)
    assert backoff_s(attempt, 0.5) == pytest.approx(delay_s)
    assert backoff_s(attempt, 1.0) <= delay_s * 1.1 + 1e-9


def test_a_push_back_closes_the_door_for_everyone():
    limiter = RateLimitState()
    first, second = limiter.enqueue(), limiter.enqueue()
    assert limiter.admit(first, 0.0) == Admitted()
    limiter.ended_unanswered()
    assert limiter.pushed_back(0.0, 10.0, noise=0.0, reason="429") == 10.0
    assert limiter.admit(second, 9.9) == WaitUntil(10.0, "429")
    assert limiter.admit(second, 10.0) == Admitted()


def test_after_a_push_back_one_goes_first_and_each_success_opens_one_more_place():
    limiter = RateLimitState()
    limiter.pushed_back(0.0, 1.0, noise=0.0, reason="429")
    tickets = [limiter.enqueue() for _ in range(8)]
    released = []
    while tickets:
        batch = 0
        while tickets and isinstance(limiter.admit(tickets[0], 1.0), Admitted):
            tickets.pop(0)
            batch += 1
        released.append(batch)
        for _ in range(batch):
            limiter.answered()
    assert released == [1, 2, 4, 1]


def test_the_line_is_kept_in_order():
    limiter = RateLimitState()
    limiter.pushed_back(0.0, 1.0, noise=0.0, reason="429")
    first, second = limiter.enqueue(), limiter.enqueue()
    assert limiter.admit(second, 2.0) == WaitForSlot("429")
    assert limiter.admit(first, 2.0) == Admitted()
    assert limiter.admit(second, 2.0) == WaitForSlot("429")
    limiter.answered()
    assert limiter.admit(second, 2.0) == Admitted()


def test_losses_in_a_row_grow_to_a_minute_and_a_success_forgets_them():
    limiter = RateLimitState()
    delays = [limiter.connection_lost(1000.0 * n, noise=0.5, reason="down") for n in range(12)]
    assert delays[:3] == pytest.approx([0.2, 0.4, 0.8])
    assert delays[-1] == pytest.approx(60.0)
    limiter.answered()
    assert limiter.connection_lost(1e6, noise=0.5, reason="down") == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("status", "body", "kind", "scope"),
    [
        (429, b"{}", "overloaded", "everyone"),
        (503, b'{"error":{"code":"server_is_overloaded"}}', "overloaded", "everyone"),
        (529, b"", "overloaded", "everyone"),
        (500, b"", "other", "request"),
        (408, b"", "other", "request"),
        (
            400,
            b'{"error":{"message":"maximum context length is 8"}}',
            "context_window_exceeded",
            "final",
        ),
        (400, b'[{"error":{"message":"a list, as some do it"}}]', "bad_request", "final"),
        (413, b"", "bad_request", "final"),
        (403, b"<html>blocked</html>", "unauthorized", "final"),
        (777, b"\xff\x00", "other", "request"),
    ],
)
def test_what_a_status_means(status, body, kind, scope):
    failure = classify_status(status, {}, body, origin=FailureOrigin("P"))
    assert (failure.kind, failure.scope) == (kind, scope)


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("context_length_exceeded", "context_window_exceeded", False),
        ("insufficient_quota", "usage_limit_exceeded", False),
        ("invalid_prompt", "bad_request", False),
        ("rate_limit_exceeded", "overloaded", True),
        ("server_is_overloaded", "overloaded", True),
        ("anything", "other", True),
    ],
)
def test_what_an_error_in_a_stream_means(code, kind, retryable):
    failure = classify_stream_error(ErrorBody(code=code, message="m"), provider="P")
    assert (failure.kind, failure.retryable) == (kind, retryable)


class Server:
    """Refuses until `opens_at`; remembers when it was asked."""

    def __init__(self, opens_at, failure):
        self.opens_at, self.failure = opens_at, failure
        self.asked = []

    async def attempt(self, request):
        self.asked.append(trio.current_time())
        await trio.sleep(0.1)
        if trio.current_time() < self.opens_at:
            raise SampleError(self.failure)
        yield RequestAccepted()
        yield ResponseFinished()


async def drive(server, agents, *, max_retries=4, told=None):
    gate = RateLimiter(announce=(told if told is not None else []).append, noise=lambda: 0.0)
    backend = RetryingBackend(server, gate, max_retries=max_retries)
    results = []

    async def one():
        try:
            async with aclosing(backend.sample(REQUEST)) as events:
                results.append([event async for event in events])
        except SampleError as error:
            results.append(error.failure)

    async with trio.open_nursery() as nursery:
        for _ in range(agents):
            nursery.start_soon(one)
    return results


def overloaded(after_s=None):
    text = "P answered 429"
    return Failure(
        kind="overloaded", message=text, retryable=True, retry_after_s=after_s, scope="everyone"
    )


async def test_thirty_agents_do_not_all_hit_a_429_again(autojump_clock):
    start = trio.current_time()
    server, told = Server(start + 5.0, overloaded(20.0)), []
    results = await drive(server, 30, told=told)
    assert all(isinstance(result[-1], ResponseFinished) for result in results)
    before = [moment for moment in server.asked if moment < start + 20.0]
    assert len(before) == 30  # all were under way when the first refusal came
    after = [moment for moment in server.asked if moment >= start + 20.0]
    assert len(after) == 30
    assert sum(moment < start + 20.15 for moment in after) == 1  # one goes first
    assert told[0].reason == "P answered 429" and told[-1].delay_s is None


def test_refusals_of_requests_that_were_under_way_together_are_one():
    limiter = RateLimitState()
    delays = [limiter.pushed_back(0.0, None, noise=0.5, reason="429") for _ in range(30)]
    assert delays == pytest.approx([1.0] * 30)
    assert limiter.pushed_back(2.0, None, noise=0.5, reason="429") == pytest.approx(2.0)


async def test_one_refusal_holds_all_later_requests_back(autojump_clock):
    start = trio.current_time()
    server = Server(start + 3.0, overloaded(10.0))
    results = []
    gate = RateLimiter(announce=lambda _: None, noise=lambda: 0.0)
    backend = RetryingBackend(server, gate, max_retries=4)

    async def one(delay_s):
        await trio.sleep(delay_s)
        async with aclosing(backend.sample(REQUEST)) as events:
            results.append([event async for event in events])

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one, number * 0.5)
    assert [moment - start < 10.0 for moment in server.asked].count(True) == 1
    assert all(any(isinstance(event, RequestWaiting) for event in result) for result in results)


async def test_overload_without_an_end_is_given_up_after_half_an_hour(autojump_clock):
    start = trio.current_time()
    (failure,) = await drive(Server(float("inf"), overloaded()), 1)
    assert (failure.kind, failure.retryable) == ("overloaded", False)
    assert 25 * 60 < trio.current_time() - start <= 30 * 60
    assert "30 min" in failure.message


async def test_a_delay_beyond_all_patience_fails_at_once(autojump_clock):
    start = trio.current_time()
    (failure,) = await drive(Server(float("inf"), overloaded(86_400.0)), 1)
    assert failure.retry_after_s == pytest.approx(86_400.0, rel=0.1)
    assert trio.current_time() - start < 1


async def test_an_outage_after_a_first_answer_stays_retryable(autojump_clock):
    down = Failure(
        kind="connection_failed", message="cannot reach P", retryable=True, scope="everyone"
    )
    server = Server(0.0, down)
    gate = RateLimiter(announce=lambda _: None, noise=lambda: 0.0)
    backend = RetryingBackend(server, gate, max_retries=2)
    async with aclosing(backend.sample(REQUEST)) as events:
        assert [event async for event in events]
    server.opens_at = float("inf")
    with pytest.raises(SampleError) as caught:
        async with aclosing(backend.sample(REQUEST)) as events:
            [event async for event in events]
    assert caught.value.failure.retryable
    assert caught.value.failure.retry_after_s == pytest.approx(0.72)
    assert len(server.asked) == 1 + 3


async def test_nothing_is_repeated_once_a_part_has_reached_the_agent(autojump_clock):
    class Halfway:
        asked = 0

        async def attempt(self, request):
            self.asked += 1
            yield ResponseTextDelta(item_id="i", text="a part")
            raise SampleError(overloaded(5.0))

    server = Halfway()
    (failure,) = await drive(server, 1)
    assert server.asked == 1
    assert (failure.retryable, failure.retry_after_s) == (True, 5.0)


async def test_who_gives_up_waiting_leaves_the_line_to_the_next(autojump_clock):
    server = Server(0.0, overloaded())
    gate = RateLimiter(announce=lambda _: None, noise=lambda: 0.0)
    gate.note_push_back(10.0, "429")
    backend = RetryingBackend(server, gate, max_retries=0)

    async def one():
        async with aclosing(backend.sample(REQUEST)) as events:
            return [event async for event in events]

    with trio.move_on_after(5):
        await one()
    assert isinstance((await one())[-1], ResponseFinished)
    assert len(server.asked) == 1
