"""An agent that finished long ago is there when it is wanted, though memory has let go of it."""

import msgspec
import pytest

from support.scripted_team_run import call, calls, open_scripted_run, says, spawns, waits
from swarm.mailbox.protocol.events import TurnStarted
from swarm.mailbox.protocol.records import AgentEnded, AgentSpawned

pytestmark = pytest.mark.live

MANY = 80  # more than the team keeps in memory


async def test_the_first_of_many_answers_a_wait_and_a_further_task(tmp_path):
    names = [f"a{number}" for number in range(MANY)]
    turns = [
        calls("/root", *spawns(*names)),
        calls("/root", waits(*names)),
        calls("/root", *spawns("z1", "z2")),
        calls("/root", waits("z1", "z2")),
        calls("/root", waits("a0"), call("list_agents", path_prefix="/root/a0")),
        calls("/root", call("followup_task", target="a0", message="once more")),
        calls("/root", waits("a0")),
        says("/root", "{last_output}"),
        *[says(f"/root/{name}", f"{name} has an answer") for name in (*names, "z1", "z2")],
        says("/root/a0", "a second answer"),
    ]
    async with open_scripted_run(tmp_path, turns, "--max-agents", "9") as scripted:
        pass
    assert scripted.code == 0
    outputs = scripted.outputs()
    wait, listed = outputs[-4:-2]
    (end,) = msgspec.json.decode(wait)["finished"]
    assert end == {
        "agent_name": "/root/a0", "end_state": "completed", "result": "a0 has an answer",
    }  # fmt: skip
    assert "a0 has an answer" in listed
    assert "a second answer" in outputs[-1]
    assert [one.epoch for one in scripted.of(AgentSpawned, "/root/a0")] == [1, 2]
    assert [one.started_by for one in scripted.of(TurnStarted, "/root/a0")] == ["mail", "mail"]
    ends = [one.message for one in scripted.of(AgentEnded)]
    assert len(ends) == MANY + 4
    assert scripted.slots_at_the_end() == 1
