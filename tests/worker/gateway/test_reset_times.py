"""When a limit resets, in every form in which servers say it; the sources are in the table."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway import failures
from swarm.worker.gateway.failures import (
    FailureOrigin,
    classify_status,
    classify_stream_error,
    read_error_event,
)
from swarm.worker.gateway.reset_times import describe_reset, load_reset_times, read_reset_time

NOW = datetime(2026, 11, 28, 16, 0, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86400.0


def words(message, **fields):
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("body", "after_s"),
    [
        (words("m", resets_at=int(NOW + HOUR)), HOUR),
        (words("m", resets_at=int(NOW + HOUR) * 1000), HOUR),
        (words("m", resets_in_seconds=5000), 5000),
        (words("m", resets_at=int(NOW + HOUR), resets_in_seconds=9), HOUR),
        (words("m", resetsAt="2026-11-28T18:00:00Z"), 2 * HOUR),
        (words("m", reset_at="2026-11-28T18:00:00.500+01:00"), HOUR + 0.5),
        (words("m", retry_after="90"), 90),
        ({"error": {"details": [{"metadata": {"quotaResetDelay": "3h2m1s"}}]}}, 3 * HOUR + 121),
        ({"error": {"details": [{"retryDelay": "34s"}]}}, 34),
        ([{"error": {"details": [{"quotaResetTimeStamp": "2026-11-29T16:00:00Z"}]}}], DAY),
        (words("Claude AI usage limit reached|1795885200"), 1795885200 - NOW),
        (
            words("已达到 5 小时的使用上限。您的限额将在 2026-11-29 07:41:44 重置。"),
            7.695556 * HOUR,
        ),
        (words("Your limit will reset at 2026-11-29 00:30:00"), HOUR / 2),
        (words("Your limit will reset at 2026-11-28 17:00:00 UTC"), HOUR),
        (words("It resets at 2026-11-28 17:30 +0000, be patient"), 1.5 * HOUR),
        (words("Try again at Nov 30th, 2026 3:45 PM."), 2 * DAY - 900),
        (words("available again on December 1, 2026 at 4:00 pm"), 3 * DAY),
        (words("You've hit your limit · resets 8pm (America/New_York)"), 9 * HOUR),
        (words("session limit · resets 2:50am (Asia/Muscat)"), 6 * HOUR + 50 * 60),
        (words("limit reached, resets 3pm (UTC)"), 23 * HOUR),
        (words("Monthly usage limit reached. Resets in 3 days."), 3 * DAY),
        (words("Please try again in 1 day 2 hours and 3 minutes"), DAY + 2 * HOUR + 180),
        (words("Please wait 12 seconds"), 12),
        (words("try again in 1h30m0s"), 1.5 * HOUR),
    ],
)
def test_a_reset_is_read_from_fields_and_from_words(body, after_s):
    data = json.dumps(body).encode()
    said = json.dumps(body, ensure_ascii=False)
    found = read_reset_time({}, data, said, NOW)
    assert found is not None
    assert found - NOW == pytest.approx(after_s, abs=1)


@pytest.mark.parametrize(
    ("headers", "after_s"),
    [
        ({"retry-after": "7999"}, 7999),
        ({"retry-after": "Sat, 28 Nov 2026 17:00:00 GMT"}, HOUR),
        ({"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": str(NOW + HOUR),
          "x-codex-secondary-used-percent": "40", "x-codex-secondary-reset-at": str(NOW + DAY)},
         HOUR),
        ({"anthropic-ratelimit-unified-5h-status": "rejected",
          "anthropic-ratelimit-unified-5h-reset": str(int(NOW + HOUR)),
          "anthropic-ratelimit-unified-7d-status": "allowed",
          "anthropic-ratelimit-unified-7d-reset": str(int(NOW + DAY)), "retry-after": "5"}, HOUR),
        ({"anthropic-ratelimit-unified-5h-status": "rejected",
          "anthropic-ratelimit-unified-5h-reset": str(int(NOW + HOUR)),
          "anthropic-ratelimit-unified-7d-status": "rejected",
          "anthropic-ratelimit-unified-7d-reset": str(int(NOW + DAY))}, DAY),
        ({"x-ratelimit-reset": str(int(NOW + HOUR) * 1000)}, HOUR),
        ({"ratelimit-reset": "120"}, 120),
    ],
)  # fmt: skip
def test_a_reset_is_read_from_headers_of_the_limit_that_was_reached(headers, after_s):
    found = read_reset_time(headers, b"", "", NOW)
    assert found is not None
    assert found - NOW == pytest.approx(after_s, abs=1)


@pytest.mark.parametrize(
    "body",
    [
        words("no luck"),
        words("m", resets_at=1),
        words("m", resets_at=None),
        words("m", resets_at=True),
        words("m", resets_at=int(NOW - 1)),
        words("m", resets_at=int(NOW + 5000 * DAY)),
        words("m", resets_at="soon"),
        words("m", resetsAt="2026-02-30T00:00:00Z"),
        words("resets 25pm"),
    ],
)
def test_what_is_no_reset_ahead_is_none(body):
    found = read_reset_time({}, json.dumps(body).encode(), json.dumps(body), NOW)
    assert found is None or found - NOW <= 1


NAMES = st.sampled_from(["retry-after", "x-ratelimit-reset", "ratelimit-reset"])


@given(st.text(max_size=80), st.binary(max_size=80), st.dictionaries(NAMES, st.text(max_size=20)))
def test_whatever_a_server_says_a_reset_is_within_a_year(said, body, headers):
    found = read_reset_time(headers, body, said, NOW)
    assert found is None or 0 < found - NOW <= 366 * DAY


def test_a_spent_limit_carries_its_reset_and_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(failures, "time", lambda: NOW)
    body = words("The usage limit has been reached", type="usage_limit_reached",
                 resets_at=int(NOW + HOUR), resets_in_seconds=3600)  # fmt: skip
    data = json.dumps(body).encode()
    failure = classify_status(429, {}, data, origin=FailureOrigin("P"))
    assert (failure.kind, failure.retryable) == ("usage_limit_exceeded", False)
    assert failure.resets_at_unix_s == NOW + HOUR
    assert failure.message.endswith("it resets at 2026-11-28 17:00 UTC")
    event = json.dumps({"type": "error", **body}).encode()
    streamed = classify_stream_error(read_error_event(event), provider="P", event=event)
    assert (streamed.kind, streamed.resets_at_unix_s) == ("usage_limit_exceeded", NOW + HOUR)


def test_an_hour_of_rate_limit_is_told_as_a_reset_too(monkeypatch):
    monkeypatch.setattr(failures, "time", lambda: NOW)
    failure = classify_status(429, {"retry-after": "3600"}, b"{}", origin=FailureOrigin("P"))
    assert (failure.kind, failure.retry_after_s) == ("overloaded", 3600)
    assert failure.resets_at_unix_s == NOW + HOUR


def test_every_line_of_the_table_of_resets_names_its_source():
    table = load_reset_times()
    assert all(line.source for line in (*table.fields, *table.headers, *table.texts))
    assert describe_reset(None) == ""
