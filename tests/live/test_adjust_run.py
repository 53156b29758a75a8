"""A run is held, changed and let go from another terminal; what was changed outlives a resume."""

import pytest

from swarm.mailbox.protocol.records import ContextRecorded, ItemRecorded, PauseSet, SettingsChanged


def command(text):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": text}}]}


async def say(rig, *words):
    started = await rig.start(*words)
    ended = await started.wait_end()
    return ended.code, ended.err


@pytest.mark.live
async def test_a_held_run_is_changed_goes_on_and_stays_changed_after_a_resume(rig):
    provider = rig.script(
        {"delay_s": 1.5, **command("touch one")},
        {"text": "first"},
        command("touch two"),
        {"text": "second"},
    )
    running = await rig.run(provider, "--reviewer", "nobody", sandbox="workspace-write")
    await rig.wait(lambda: rig.has_run and rig.bodies(ItemRecorded))
    run = rig.run_id
    assert (await say(rig, "pause", run))[0] == 0
    assert (await say(rig, "set", run, "root", "-s", "read-only", "--effort", "high"))[0] == 0
    code, words = await say(rig, "set", run, "root", "-s", "danger-full-access")
    assert code == 2
    assert "can only become less" in words
    assert (await say(rig, "set", run, "root"))[0] == 2
    await rig.wait_call()
    assert running.process.returncode is None
    assert (await say(rig, "continue", run))[0] == 0
    assert (await running.wait_end()).code == 0
    assert (rig.work / "one").exists()  # this turn had begun before
    resumed = await rig.resume("-p", "again")
    assert (await resumed.wait_end()).code == 0
    assert not (rig.work / "two").exists()
    assert [body.paused for body in rig.bodies(PauseSet)] == [True, False]
    assert rig.bodies(SettingsChanged)[0].settings.effort == "high"
    told = [body for body in rig.bodies(ItemRecorded) if body.source == "context"]
    assert len(told) == 3  # both at first; then the rights, that had changed
    assert not rig.bodies(ContextRecorded)
