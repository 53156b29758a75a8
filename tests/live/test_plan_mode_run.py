"""Plan mode in real runs: nothing is written before the plan is accepted, and only by a person."""

import sys

import pytest
import trio

from swarm.mailbox.protocol.records import RunIdle, SettingsChanged

from .conftest import Rig

pytestmark = pytest.mark.live
LIMIT_S = 120
TOUCH = {"name": "exec_command", "arguments": {"cmd": "touch made && echo made it"}}


async def test_a_plan_is_made_read_only_and_carried_out_once_it_is_accepted(rig: Rig) -> None:
    turns = ({"calls": [TOUCH]}, {"text": "my plan"}, {"calls": [TOUCH]}, {"text": "done"})
    with trio.fail_after(LIMIT_S):
        words = ("--plan", "--keep-open")
        started = await rig.run(rig.script(*turns), *words, sandbox="workspace-write")
        await rig.wait(lambda: rig.bodies(RunIdle))
        assert "made it" not in rig.outputs()[0]
        assert not (rig.work / "made").exists()
        refused = await (await rig.start("accept", rig.run_id)).wait_end()
        assert (refused.code, "--yes" in refused.err) == (2, True)
        accepted = await (await rig.start("accept", rig.run_id, "--yes")).wait_end()
        assert accepted.code == 0, accepted.err
        await rig.wait(lambda: len(rig.bodies(RunIdle)) == 2)
        await (await rig.start("end", rig.run_id)).wait_end()
        done = await started.wait_end()
    assert (done.out, (rig.work / "made").exists()) == ("my plan\ndone\n", True)
    (changed,) = rig.bodies(SettingsChanged)
    assert not changed.settings.limits.planning


async def test_a_run_in_plan_mode_stays_in_it_over_a_resume_until_it_is_accepted(rig: Rig) -> None:
    first, second = {"calls": [TOUCH]}, {"calls": [TOUCH]}
    turns = ({"text": "plan"}, first, {"text": "no"}, second, {"text": "yes"})
    with trio.fail_after(LIMIT_S):
        provider = rig.script(*turns)
        ended = await (await rig.run(provider, "--plan", sandbox="workspace-write")).wait_end()
        assert ended.out == "plan\n"
        ended = await (await rig.resume("-p", "a better one")).wait_end()
        assert (ended.out, (rig.work / "made").exists()) == ("no\n", False)
        ended = await (await rig.resume("--accept-plan")).wait_end()
    assert (ended.out, (rig.work / "made").exists()) == ("yes\n", True)


async def test_no_command_of_a_run_widens_its_rights(rig: Rig) -> None:
    """Not without a sandbox either, whatever it does to its place in the tree and its variables."""
    entry = "swarm.supervisor.clients.cli.entry"
    swarm = f"import sys; sys.argv[0] = 'swarm'; from {entry} import main; main()"
    ask = f'{sys.executable} -P -c "{swarm}" set $(cat id) root -a never --widen --yes'
    clean = "env -u SWARM_COMMAND -u SWARM_THREAD_ID"
    commands = (ask, f"{clean} setsid {ask}", f"({clean} setsid {ask} >> out 2>&1 & ) ; sleep 9")
    calls = [
        {"calls": [{"name": "exec_command",
                    "arguments": {"cmd": f"{one} >> out 2>&1", "yield_time_ms": 30_000}}]}
        for one in commands
    ]  # fmt: skip
    with trio.fail_after(LIMIT_S):
        started = await rig.run(rig.script(*calls, {"text": "tried"}))
        await rig.wait(lambda: rig.has_run)
        (rig.work / "id").write_text(rig.run_id)
        assert (await started.wait_end()).code == 0
    assert (rig.work / "out").read_text().count("may not steer any") == 3
    assert rig.bodies(SettingsChanged) == []
