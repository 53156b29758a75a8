"""Many are being started when the supervisor is killed: those that live, and those on their way."""

import pytest
import trio

from swarm.mailbox.protocol.records import AgentSpawned

pytestmark = pytest.mark.live
LIMIT_S = 60
AGENTS = 60
TASK = f"""---
max_agents: {AGENTS + 1}
fan_out:
  each: {{dirs: '*'}}
  prompt: Look at {{item}}.
  concurrency: {AGENTS}
---
Join.
"""


async def test_a_supervisor_killed_in_the_middle_of_a_burst_of_starts_leaves_nobody(rig):
    for number in range(AGENTS):
        (rig.work / f"item{number:02}").mkdir()
    (rig.work / "task.md").write_text(TASK)
    provider = rig.script({"text": "never", "delay_s": 300.0, "repeat": "forever"})
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "task.md", "--provider", provider, "--plain")
        await rig.wait(lambda: len(rig.bodies(AgentSpawned)) >= AGENTS // 4)
        run.process.kill()
        with trio.fail_after(20):  # `scripts/benches/many_agents_bench.py` holds it to one second
            await rig.wait_gone()
    assert rig.alive() == {}
