"""Whether a run waits for a limit, until when, and when no new agents start."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.gateway import LimitWindow
from swarm.roles.config.wait_for_limit import check_wait_for_limit
from swarm.supervisor.agents.child_plan import AgentRequestError
from swarm.supervisor.parts.wakeups.limit_rules import decide_limit_wait, nearly_spent

NOW = 1_800_000_000.0
HOUR = 3600.0


def decide(wait_s: float, after_s: float, noise: float = 0.0) -> float:
    return decide_limit_wait(wait_s, resets_at_unix_s=NOW + after_s, now_unix_s=NOW, noise=noise)


def test_one_request_tries_ten_to_sixty_seconds_after_the_reset():
    assert decide(6 * HOUR, HOUR, noise=0.0) == NOW + HOUR + 10
    assert decide(6 * HOUR, HOUR, noise=0.999) == pytest.approx(NOW + HOUR + 60, abs=1)
    assert decide(6 * HOUR, -5) == NOW + 10  # it has reset meanwhile


def test_a_run_that_does_not_wait_says_how_it_would():
    with pytest.raises(AgentRequestError, match="--wait-for-limit 6h"):
        decide(0, HOUR)


def test_a_reset_beyond_the_longest_wait_is_refused_with_both_times():
    with pytest.raises(AgentRequestError) as refused:
        decide(6 * HOUR, 8 * HOUR)
    text = str(refused.value)
    assert "swarm resume" in text
    assert text.count("2027-01-15") == 2


@pytest.mark.parametrize(
    ("value", "is_persons", "wait_s"),
    [
        (None, True, 6 * HOUR),
        (None, False, 0.0),
        ("never", True, 0.0),
        ("90m", False, 5400.0),
        (60, False, 60.0),
    ],
)
def test_the_longest_wait_by_kind_of_start(value, is_persons, wait_s):
    assert check_wait_for_limit(value, is_persons=is_persons) == wait_s


@pytest.mark.parametrize("value", ["soon", "", "-1h", 0, float("inf"), "400d"])
def test_what_is_no_span_is_refused_with_valid_forms(value):
    with pytest.raises(UsageError, match=r"wait_for_limit.*or never"):
        check_wait_for_limit(value, is_persons=True)


def window(**fields) -> LimitWindow:
    usual = {"name": "5h", "used_percent": 96.0, "window_minutes": 300.0}
    return LimitWindow(**{**usual, "resets_at_unix_s": NOW + 60, **fields})


@pytest.mark.parametrize(
    ("fields", "is_near"),
    [
        ({}, True),
        ({"used_percent": 95.0}, True),
        ({"used_percent": 94.9}, False),
        ({"resets_at_unix_s": NOW - 1}, False),  # an old report
        ({"resets_at_unix_s": None}, False),
        ({"window_minutes": 1.0}, False),  # the rate limiter's business
        ({"window_minutes": None}, False),
    ],
)
def test_no_new_agent_starts_while_a_long_window_is_nearly_spent(fields, is_near):
    assert bool(nearly_spent((window(used_percent=1.0), window(**fields)), NOW)) == is_near
