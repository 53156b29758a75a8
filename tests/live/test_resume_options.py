"""What a run recorded is how it goes on; what `resume` and `fork` are told wins, and stays."""

import pytest
import trio

from swarm.mailbox.protocol.records import AgentSpawned, RunStarted
from swarm.mailbox.protocol.values.limits import ReadOnly

pytestmark = pytest.mark.live
LIMIT_S = 60


async def test_options_of_a_resume_win_over_what_was_recorded_and_hold_on(rig):
    provider = rig.script({"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"})
    with trio.fail_after(LIMIT_S):
        first = await (await rig.run(provider, "--effort", "low", sandbox="read-only")).wait_end()
        assert first.code == 0, first.err
        plain = await (await rig.resume("-p", "as before")).wait_end()
        other = await (await rig.resume("-p", "x", "--effort", "high", "-a", "never")).wait_end()
        again = await (await rig.resume("-p", "y")).wait_end()
        wider = await (await rig.resume("-p", "z", "-s", "danger-full-access")).wait_end()
    assert [one.code for one in (plain, other, again)] == [0, 0, 0]
    lives = rig.bodies(AgentSpawned)
    assert [one.effort for one in lives] == ["low", "low", "high", "high"]
    assert [one.limits.approval for one in lives][-2:] == ["never", "never"]
    assert all(isinstance(one.limits.sandbox, ReadOnly) for one in lives)
    assert wider.code == 2
    assert "read-only" in wider.err
    assert len(rig.bodies(RunStarted)) == 4  # it was refused before anything began
