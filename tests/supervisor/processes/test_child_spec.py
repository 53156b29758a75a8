"""A process that dies starts again three times in a minute, each time later."""

import pytest

from swarm.supervisor.processes.child_spec import GiveUp, Restart, RestartPolicy, decide_restart


@pytest.mark.parametrize(
    ("deaths", "verdict"),
    [
        ([100], Restart(after_s=0.1)),
        ([99, 100], Restart(after_s=0.5)),
        ([98, 99, 100], Restart(after_s=2.5)),
        ([97, 98, 99, 100], GiveUp(reason="it died 4 times within 60 s")),
        ([39, 98, 99, 100], Restart(after_s=2.5)),
        ([1, 2, 3, 4, 100], Restart(after_s=0.1)),
    ],
)
def test_three_restarts_a_minute(deaths, verdict):
    assert decide_restart(deaths, now=100) == verdict


def test_an_intensity_of_zero_restarts_nothing():
    policy = RestartPolicy(intensity=0)
    assert decide_restart([100], now=100, policy=policy) == GiveUp(
        reason="it died 1 times within 60 s"
    )
