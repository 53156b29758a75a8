"""A folder of swarm's state that vanishes in mid-run ends no run that starts an agent next."""

import shutil

import pytest
import trio

from swarm.mailbox.protocol.records import AgentSpawned

pytestmark = pytest.mark.live
LIMIT_S = 60
UNTIL = {"name": "exec_command",
         "arguments": {"cmd": "until test -e go; do sleep 0.05; done; echo went"}}  # fmt: skip
SPAWN = {"name": "spawn_agent", "arguments": {"task_name": "a", "message": "look"}}
WAIT = {"name": "wait_agent", "arguments": {}}


def folders(rig) -> dict[str, object]:
    places = rig.places
    return {
        "memories": places.state / "memories",
        "logins": places.logins,
        "both": places.state,
        "tmp": places.tmp,
        "copies": places.copies,
        "kept": places.file_copies,
        "blobs": places.blobs,
    }


@pytest.mark.parametrize("name", ["memories", "logins", "tmp", "copies", "kept", "blobs"])
async def test_an_agent_starts_although_a_folder_of_state_is_gone(rig, name):
    steps = (
        {"agent": "/root", "calls": [UNTIL]},
        {"agent": "/root", "calls": [SPAWN]},
        {"agent": "/root", "calls": [WAIT]},
        {"agent": "/root", "text": "all: {last_output}"},
        {"agent": "/root/a", "text": "looked"},
    )
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script(*steps))
        await rig.wait_call()
        shutil.rmtree(folders(rig)[name], ignore_errors=True)
        (rig.work / "go").touch()
        ended = await run.wait_end()
    assert "fault of swarm" not in ended.err and "Traceback" not in ended.err
    assert ended.code == 0, ended.err
    assert len(rig.bodies(AgentSpawned, agent="/root/a")) == 1
