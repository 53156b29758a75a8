"""Retry policy of a backend: which failures are retried, how often, and until when.

- 5xx and broken connections: only this request, `request_max_retries` times, from 0.2 s doubling.
- 429, 503, 529 and "overloaded": everyone waits in the rate limiter; as often as the server says
  so, for at most half an hour.
- No connection: everyone waits too, up to a minute per pause. After the retries of the request the
  agent receives the failure; it may retry unless the server has never answered.
- Once a part of the response has reached the agent, nothing is retried here: the agent decides.
"""

from contextlib import aclosing

import msgspec
import trio

from .backend import (
    Failure,
    RenderedRequest,
    RequestAccepted,
    RequestWaiting,
    ResponseEvents,
    ResponseSource,
    SampleError,
)
from .rate_limit_state import MAX_WAIT_S, backoff_s
from .rate_limiter import RateLimiter

_MAX_RETRIES = 100
NOTICE_FROM_S = 1.0  # shorter pauses of one request are not reported


class RetryingBackend:
    """Makes a backend of a source by retrying failed attempts.

    Args:
        max_retries: `request_max_retries` of the provider; at most 100.
    """

    def __init__(self, source: ResponseSource, limiter: RateLimiter, *, max_retries: int) -> None:
        self._source, self._rate_limiter = source, limiter
        self._max_retries = min(max(0, max_retries), _MAX_RETRIES)

    async def sample(self, request: RenderedRequest) -> ResponseEvents:
        give_up_at = trio.current_time() + MAX_WAIT_S
        failed = 0
        while True:
            async with aclosing(self._rate_limiter.wait_turn()) as waits:
                async for notice in waits:
                    if trio.current_time() + notice.delay_s > give_up_at:
                        resets_at = self._rate_limiter.unix_s() + notice.delay_s
                        raise SampleError(
                            _waited_too_long(notice.reason, notice.delay_s, resets_at)
                        )
                    yield notice
            state = _Attempt(self._rate_limiter)
            try:
                if (limit := self._rate_limiter.find_limit(request.model.slug)) is not None:
                    raise SampleError(limit)  # unsent: another request has met it
                async with aclosing(self._source.attempt(request)) as events:
                    async for event in events:
                        state.note(event)
                        if not isinstance(event, RequestAccepted):
                            yield event
                return
            except SampleError as error:
                failure = error.failure
            finally:
                state.end()
            failed += failure.scope == "request" or failure.kind == "connection_failed"
            self._rate_limiter.note_limit(request.model.slug, failure)
            pause_s = self._plan_retry(
                failure, has_output=state.has_output, failed=failed, until=give_up_at
            )
            if pause_s >= NOTICE_FROM_S:
                yield RequestWaiting(
                    reason=failure.message,
                    delay_s=pause_s,
                    attempt=failed,
                    max_attempts=self._max_retries,
                )
            await trio.sleep(pause_s)

    def _plan_retry(
        self, failure: Failure, *, has_output: bool, failed: int, until: float
    ) -> float:
        """Seconds that this request waits before its next attempt. Raises SampleError if it gets
        none.
        """
        closed_s = self._pause_everyone(failure)
        if failure.scope == "final" or has_output:
            raise SampleError(_with_delay(failure, closed_s))
        if failed > self._max_retries:
            raise SampleError(self._exhausted(failure, closed_s))
        pause_s = 0.0
        if closed_s is None:
            pause_s = failure.retry_after_s or backoff_s(failed, self._rate_limiter.noise())
        if trio.current_time() + (closed_s or pause_s) > until:
            delay_s, resets_at = closed_s or pause_s, failure.resets_at_unix_s
            raise SampleError(_waited_too_long(failure.message, delay_s, resets_at))
        return pause_s

    def _pause_everyone(self, failure: Failure) -> float | None:
        """Stop everyone if the failure concerns everyone; returns the seconds, else None."""
        if failure.scope != "everyone":
            return None
        if failure.kind == "connection_failed":
            return self._rate_limiter.note_connection_lost(failure.message)
        return self._rate_limiter.note_push_back(failure.retry_after_s, failure.message)

    def _exhausted(self, failure: Failure, delay_s: float | None) -> Failure:
        if failure.kind == "connection_failed" and not self._rate_limiter.ever_answered:
            text = f"{failure.message}; it has not answered once: check its address and network"
            return msgspec.structs.replace(failure, message=text, retryable=False)
        return _with_delay(failure, delay_s)


class _Attempt:
    """Reports the outcome of one attempt to the rate limiter."""

    def __init__(self, limiter: RateLimiter) -> None:
        self._rate_limiter = limiter
        self._is_answered = False
        self.has_output = False  # something has reached the agent

    def note(self, event: object) -> None:
        if not self._is_answered:
            self._is_answered = True
            self._rate_limiter.note_answered()
        if isinstance(event, RequestAccepted):
            self._rate_limiter.note_limits(event.limits)
            if event.pause_s is not None:
                self._rate_limiter.pause(event.pause_s, "the provider's allowance is spent for now")
        elif not isinstance(event, RequestWaiting):
            self.has_output = True

    def end(self) -> None:
        if not self._is_answered:
            self._rate_limiter.note_unanswered()


def _with_delay(failure: Failure, delay_s: float | None) -> Failure:
    if delay_s is None:
        return failure
    return msgspec.structs.replace(failure, retry_after_s=delay_s)


def _waited_too_long(reason: str, delay_s: float, resets_at: float | None) -> Failure:
    minutes = MAX_WAIT_S / 60
    text = f"{reason}; the next chance is {delay_s:.0f} s away, and {minutes:.0f} min is the limit"
    return Failure(
        kind="overloaded", message=text, retry_after_s=delay_s, resets_at_unix_s=resets_at
    )
