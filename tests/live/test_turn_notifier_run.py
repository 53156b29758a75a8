"""The `notify` key: a program after each turn of the root, whatever becomes of it."""

import json

import pytest

pytestmark = pytest.mark.live


async def test_the_program_is_started_after_each_turn_with_what_was_said(rig):
    told = rig.folder / "told"
    words = json.dumps(["/bin/sh", "-c", f'printf "%s\\n" "$1" >> {told}; sleep 30', "sh"])
    provider = rig.script({"text": "first"}, {"text": "second"})
    running = await rig.run(provider, "-c", f"notify={words}")
    assert (await running.wait_end()).code == 0  # it is not waited for
    resumed = await rig.resume("-p", "and now?")
    assert (await resumed.wait_end()).code == 0
    await rig.wait(lambda: told.exists() and len(told.read_text().splitlines()) == 2)
    first, second = (json.loads(line) for line in told.read_text().splitlines())
    assert first == {
        "type": "agent-turn-complete",
        "thread-id": rig.lives()[0].agent_id,
        "turn-id": first["turn-id"],
        "cwd": str(rig.work),
        "input-messages": ["do it"],
        "last-assistant-message": "first",
    }
    assert second["last-assistant-message"] == "second"


async def test_a_program_that_is_not_there_is_a_warning(rig):
    running = await rig.run(rig.script({"text": "done"}), "-c", 'notify=["/nowhere/at/all"]')
    ended = await running.wait_end()
    assert ended.code == 0
    assert "warning: notify:" in ended.err
