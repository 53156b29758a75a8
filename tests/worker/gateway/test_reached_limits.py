"""A limit that names its end is met once: nobody asks until then, and one request goes first."""

from contextlib import aclosing

import pytest
import trio

from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.worker.gateway.backend import (
    Failure,
    RenderedRequest,
    RequestAccepted,
    ResponseFinished,
    SampleError,
)
from swarm.worker.gateway.failures import (
    ErrorBody,
    FailureOrigin,
    classify_status,
    classify_stream_error,
)
from swarm.worker.gateway.rate_limiter import RateLimiter
from swarm.worker.gateway.reached_limits import ReachedLimits
from swarm.worker.gateway.retry_policy import RetryingBackend

NOW = 1_800_000_000.0


def request(model: str = "m") -> RenderedRequest:
    info = ModelInfo(slug=model, provider="p", wire="responses")
    return RenderedRequest(agent_id="a", agent_path="/root", ordinal=1, model=info)


def limit(resets_at: float | None, **fields) -> Failure:
    failure = {"kind": "usage_limit_exceeded", "message": "limit", **fields}
    return Failure(resets_at_unix_s=resets_at, **failure)


class Server:
    """Refuses while `limits` holds something, with the wall clock of a test."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.limits: dict[str, Failure] = {}
        self.at_once, self.most_at_once = 0, 0

    def unix_s(self) -> float:
        return NOW + trio.current_time()

    async def attempt(self, asked: RenderedRequest):
        self.asked.append((asked.model.slug, trio.current_time()))
        if (failure := self.limits.get(asked.model.slug)) is not None:
            await trio.sleep(1)
            raise SampleError(failure)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await trio.sleep(5)
        yield RequestAccepted()
        self.at_once -= 1
        yield ResponseFinished()


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def limiter(server):
    return RateLimiter(announce=lambda news: None, noise=lambda: 0.0, unix_s=server.unix_s)


@pytest.fixture
def backend(server, limiter):
    return RetryingBackend(server, limiter, max_retries=0)


async def ask(backend, model: str = "m") -> Failure | None:
    try:
        async with aclosing(backend.sample(request(model))) as events:
            async for _ in events:
                pass
    except SampleError as error:
        return error.failure
    return None


async def test_while_a_limit_holds_nobody_asks_and_each_gets_the_same_failure(
    server, backend, autojump_clock
):
    server.limits["m"] = limit(server.unix_s() + 3600)
    first = await ask(backend)
    assert [await ask(backend) for _ in range(5)] == [first] * 5
    assert len(server.asked) == 1
    del server.limits["m"]
    assert await ask(backend) == first  # until it resets
    await trio.sleep(3600)
    assert await ask(backend) is None
    assert len(server.asked) == 2


async def test_a_limit_is_that_of_its_model(server, backend, autojump_clock):
    server.limits["m"] = limit(server.unix_s() + 3600)
    assert await ask(backend) is not None
    assert await ask(backend, "other") is None


async def test_after_the_reset_one_request_goes_first_and_the_others_follow(
    server, backend, autojump_clock
):
    server.limits["m"] = limit(server.unix_s() + 3600)
    await ask(backend)
    del server.limits["m"]
    await trio.sleep(3700)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(ask, backend)
    times = [moment - began for _, moment in server.asked[1:]]
    assert times == [0, 5, 5, 10, 10, 10]  # each answer lets one more go


async def test_all_that_wait_in_line_are_refused_unsent_when_the_first_meets_the_limit(
    server, backend, autojump_clock
):
    server.limits["m"] = limit(server.unix_s() + 60)
    await ask(backend)
    await trio.sleep(100)
    server.limits["m"] = limit(server.unix_s() + 3600)
    failures: list[Failure | None] = []

    async def note() -> None:
        failures.append(await ask(backend))

    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(note)
    assert len(server.asked) == 2
    assert failures == [server.limits["m"]] * 6


async def test_a_person_has_it_tried_now(server, limiter, backend, autojump_clock):
    server.limits["m"] = limit(server.unix_s() + 3600)
    await ask(backend)
    del server.limits["m"]
    limiter.try_now()
    assert await ask(backend) is None


async def test_a_pause_beyond_what_is_retried_names_its_end(server, backend, autojump_clock):
    failure = Failure(
        kind="overloaded", message="429", retryable=True, scope="everyone", retry_after_s=7200.0
    )
    server.limits["m"] = failure
    for failed in (await ask(backend), await ask(backend)):
        assert failed is not None
        assert failed.resets_at_unix_s is not None or failed.retry_after_s is not None
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "failure",
    [
        limit(None),
        limit(NOW + 9, kind="unauthorized"),
        limit(NOW + 9, kind="overloaded", scope="everyone"),
        limit(NOW - 1),
    ],
)
def test_what_has_no_end_ahead_is_not_remembered(failure):
    reached = ReachedLimits(lambda: NOW)
    reached.note("m", failure)
    assert reached.find("m") is None


SPENT = [
    (402, b'{"error":{"message":"Payment required","resets_in_seconds":7200}}'),
    (429, b'{"error":{"code":"insufficient_quota","message":"x","resets_in_seconds":7200}}'),
    (429, b'{"error":{"message":"Your credit balance is too low","resets_in_seconds":7200}}'),
    (429, b'{"error":{"code":"usage_not_included","message":"usage","resets_in_seconds":7200}}'),
    (403, b'{"error":{"message":"Your subscription has expired","resets_in_seconds":7200}}'),
    (429, '{"error":{"code":"1113","message":"余额不足","resets_in_seconds":7200}}'.encode()),
]


@pytest.mark.parametrize(("status", "body"), SPENT)
def test_credit_that_is_spent_and_a_plan_without_the_service_name_no_end(status, body):
    failure = classify_status(status, {"retry-after": "7200"}, body, origin=FailureOrigin("p"))
    assert failure.resets_at_unix_s is None


def test_neither_does_it_inside_a_stream():
    event = b'{"error":{"code":"insufficient_quota","resets_in_seconds":7200}}'
    error = ErrorBody(message="You exceeded your current quota", code="insufficient_quota")
    assert classify_stream_error(error, provider="p", event=event).resets_at_unix_s is None


LIMITS = [
    b'{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached",'
    b'"resets_in_seconds":7200}}',
    b'{"error":{"message":"You have hit your usage limit. Upgrade or purchase more credits, or try'
    b' again in 2 hours.","code":"usage_limit_reached","resets_in_seconds":7200}}',
    b'{"error":{"message":"5-hour limit reached, resets_in_seconds below","resets_in_seconds":7200,'
    b'"code":"usage_limit_reached"}}',
]


@pytest.mark.parametrize("body", LIMITS)
def test_a_limit_of_a_plan_names_its_end_also_where_credits_are_offered(body):
    failure = classify_status(429, {}, body, origin=FailureOrigin("p"))
    assert failure.kind == "usage_limit_exceeded"
    assert failure.resets_at_unix_s is not None
