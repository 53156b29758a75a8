"""Allowances as servers tell them in headers: a table, and whatever headers may hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.gateway import LimitWindow
from swarm.worker.gateway.rate_limit_headers import read_rate_limits
from swarm.worker.gateway.rate_limiter import RateLimiter

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "windows"),
    [
        ({}, []),
        (
            {
                "x-codex-primary-used-percent": "62.5",
                "x-codex-primary-window-minutes": "300",
                "x-codex-primary-reset-at": "1800000600",
                "x-codex-secondary-used-percent": "0",
            },
            [("primary", 62.5, 300.0, NOW + 600)],
        ),
        (
            {"x-other-limit-primary-used-percent": "140"},
            [("other-limit primary", 100.0, None, None)],
        ),
        (
            {
                "x-ratelimit-limit-requests": "100",
                "x-ratelimit-remaining-requests": "25",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-limit-tokens": "0",
                "x-ratelimit-remaining-tokens": "0",
            },
            [("requests", 75.0, None, NOW + 360)],
        ),
        (
            {
                "anthropic-ratelimit-input-tokens-limit": "1000",
                "anthropic-ratelimit-input-tokens-remaining": "990",
                "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:30+00:00",
            },
            [("input tokens", 1.0, None, NOW + 30)],
        ),
        ({"x-codex-primary-used-percent": "much", "x-ratelimit-limit-tokens": "-1"}, []),
    ],
)
def test_windows_are_read_from_each_family_of_headers(headers, windows):
    expected = [
        LimitWindow(name=name, used_percent=used, window_minutes=minutes, resets_at_unix_s=reset)
        for name, used, minutes, reset in windows
    ]
    assert list(read_rate_limits(headers, NOW)) == expected


NAMES = st.sampled_from(
    [
        "x-codex-primary-used-percent", "x-codex-primary-reset-at", "x-a-secondary-used-percent",
        "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens",
        "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining",
        "anthropic-ratelimit-requests-reset",
    ]
)  # fmt: skip
VALUES = st.one_of(st.text(max_size=20), st.floats().map(str), st.integers().map(str))


@given(st.dictionaries(NAMES, VALUES))
def test_whatever_a_server_sends_every_window_is_in_its_range(headers):
    for window in read_rate_limits(headers, NOW):
        assert 0 <= window.used_percent <= 100


async def test_a_snapshot_is_told_when_it_has_moved_and_not_for_every_answer(autojump_clock):
    told = []
    gate = RateLimiter(announce=told.append, noise=lambda: 0.5)

    def snapshot(used):
        return (LimitWindow(name="primary", used_percent=used),)

    for used in (10.0, 10.2, 10.4, 12.0, 12.0):
        gate.note_limits(snapshot(used))
    gate.note_limits(())
    assert [one.windows[0].used_percent for one in told] == [10.0, 12.0]
