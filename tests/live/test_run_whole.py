"""A whole run with real processes: what it writes, in which order, and that nothing stays."""

import pytest
import trio

from swarm.mailbox.protocol.events import CallBegan, CallEnded
from swarm.mailbox.protocol.items import FunctionCall, FunctionCallOutput
from swarm.mailbox.protocol.records import ItemRecorded, ProcessEnded

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("started_anew")]
LIMIT_S = 30


def command(script: str) -> dict:
    return {"name": "exec_command", "arguments": {"cmd": script}}


async def test_a_run_with_calls_completes_and_leaves_nothing(rig):
    provider = rig.script(
        {"calls": [command("sleep 0.3; echo slow"), command("echo quick")]},
        {"text": "answer: {last_output}"},
    )
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(provider)).wait_end()
    assert ended.code == 0, ended.err
    assert "quick" in ended.out
    assert rig.completed.status == "completed"
    assert rig.completed.agents == 1
    places = {
        (type(record.body), record.body.call_id): record.seq
        for record in rig.records()
        if isinstance(record.body, CallBegan | CallEnded)
    }
    calls = [item.call_id for item in items(rig, FunctionCall)]
    assert len(calls) == 2
    for call in calls:
        assert places[CallBegan, call] < places[CallEnded, call]
    assert [item.call_id for item in items(rig, FunctionCallOutput)] == calls
    assert [("slow" in text, "quick" in text) for text in rig.outputs()] == [
        (True, False),
        (False, True),
    ]
    (process,) = rig.bodies(ProcessEnded)
    assert (process.orderly, process.exit_code) == (True, 0)
    assert rig.alive() == {}
    assert not rig.places.sockets.exists()


def items(rig, kind):
    return [body.item for body in rig.bodies(ItemRecorded) if isinstance(body.item, kind)]
