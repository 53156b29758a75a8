"""With few file descriptors agents wait for each other, and nothing breaks."""

import pytest
import trio

from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import AgentSpawned, FanOutItemEnded, ProcessEnded
from swarm.supervisor.agents.descriptor_limit import max_agents_for

pytestmark = pytest.mark.live
LIMIT_S = 120
ITEMS = 70
TASK = f"""---
max_agents: {ITEMS + 1}
fan_out:
  each: {{dirs: '*'}}
  prompt: Look at {{item}}.
  concurrency: {ITEMS}
---
Join.
"""


@pytest.mark.parametrize("limit", [256, 330])
async def test_over_what_the_descriptors_are_enough_for_agents_wait_and_all_are_done(rig, limit):
    for number in range(ITEMS):
        (rig.work / f"item{number:02}").mkdir()
    (rig.work / "task.md").write_text(TASK)
    tool = {"name": "exec_command", "arguments": {"cmd": "echo once >>../../runs; sleep 1"}}
    provider = rig.script(
        {"agent": "/root", "text": "joined", "repeat": "forever"},
        {"agent": "/root/*", "calls": [tool]},
        {"agent": "/root/*", "text": "done", "repeat": "forever"},
    )
    low = ("bash", "-c", f'ulimit -Sn {limit}; ulimit -Hn {limit}; exec "$@"', "bash")
    with trio.fail_after(LIMIT_S):
        words = ("-s", "danger-full-access", "--plain")
        run = await rig.start("run", "task.md", "--provider", provider, *words, prefix=low)
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert "Traceback" not in ended.err
    assert [one.state for one in rig.bodies(FanOutItemEnded)] == ["completed"] * ITEMS
    held = most = 0
    for record in rig.records():
        held += isinstance(record.body, AgentSpawned) - isinstance(record.body, ProcessEnded)
        most = max(most, held)
    assert most <= max_agents_for(limit)
    assert any("ulimit -Hn" in one.message for one in rig.bodies(Warned))
    assert rig.alive() == {}
