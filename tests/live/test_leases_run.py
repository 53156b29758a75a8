"""Heavy commands of two real runs take turns; kill -9 of a supervisor frees what it held."""

import json

import pytest
import trio

from swarm.mailbox.parts.leases.lease_messages import HeavyCommandEnded

pytestmark = pytest.mark.live
LIMIT_S = 60
CONFIG = '[leases]\nmost = 1\n[leases.commands]\n"./hold" = "test"\n'
HOLD = "#!/bin/sh\ntouch started\nwhile [ ! -e go ]; do sleep 0.05; done\n"
LATE = "late: builds, tests and installs on this machine take turns"


def prepare(rig):
    (rig.home / "config.toml").write_text(CONFIG)
    hold = rig.work / "hold"
    hold.write_text(HOLD)
    hold.chmod(0o755)


def call(command: str, **more):
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": command, **more}}]}


@pytest.fixture
async def other(rig, tmp_path):
    """A second home; its runs have the same runtime folder."""
    folder = tmp_path / "other"
    folder.mkdir()
    made = type(rig)(folder, rig.runtime)
    try:
        yield made
    finally:
        with trio.move_on_after(5, shield=True):
            await made.sweep()


async def rows_of(rig) -> list[dict[str, object]]:
    """The rows of `swarm leases`."""
    done = await (await rig.start("leases", "--json")).wait_end()
    assert done.code == 0, done.err
    return json.loads(done.out)["leases"]


def is_waiting(rows, *, longer_than_s: float) -> bool:
    return any(one["state"] == "waiting" and one["for_s"] > longer_than_s for one in rows)


async def leases_of(rig) -> list[tuple[str, str]]:
    """(state, command) as `swarm leases` tells them."""
    return [(one["state"], one["command"]) for one in await rows_of(rig)]


async def test_a_command_waits_for_one_of_another_run_until_its_supervisor_is_killed(rig, other):
    """The first run's command goes on as a session, and holds its lease still."""
    for one in (rig, other):
        prepare(one)
    with trio.fail_after(LIMIT_S):
        first = await rig.run(
            rig.script(call("./hold", yield_time_ms=250), call("sleep 300"), {"text": "never"})
        )
        await rig.wait_call(count=2)
        assert await leases_of(rig) == [("running", "hold")]
        second = await other.run(other.script(call("./hold"), {"text": "then: {last_output}"}))
        await other.wait_call()
        # The model is told of a wait of more than a second.
        while not is_waiting(await rows_of(other), longer_than_s=1.2):
            pass
        assert await leases_of(other) == [("running", "hold"), ("waiting", "hold")]
        assert not (other.work / "started").exists()
        first.process.kill()
        await other.wait(lambda: (other.work / "started").exists())
        (other.work / "go").touch()
        ended = await second.wait_end()
        assert ended.code == 0, ended.err
        assert LATE in ended.out
        assert "waits for its turn among heavy commands (number 1 in line" in ended.err
        (used,) = other.bodies(HeavyCommandEnded)
        assert (used.command, used.head, used.kind, used.exit_code) == ("hold", "hold", "test", 0)
        assert used.waited_s > 0
        assert used.peak_bytes > 0
        assert await leases_of(other) == []
        await rig.wait_gone()


async def test_what_a_command_used_is_kept_where_no_sandboxed_command_sees_it(rig):
    """A light command leaves nothing."""
    prepare(rig)
    (rig.work / "go").touch()
    costs, runtime = rig.home / "state/runs/.command-costs.json", rig.runtime / "swarm"
    look = f"cat {runtime}/leases/* {costs}; ls {runtime}"
    script = rig.script(call("./hold"), call(look), {"text": "{last_output}"})
    with trio.fail_after(LIMIT_S):
        run = await rig.run(script, "-a", "never", sandbox="workspace-write")
        ended = await run.wait_end()
        assert ended.code == 0, ended.err
        (used,) = rig.bodies(HeavyCommandEnded)
        assert used.waited_s < 5
        done = await (await rig.start("leases", "--learned")).wait_end()
    assert ended.out.count("No such file or directory") + ended.out.count("Permission denied") == 3
    assert "peak_bytes" not in ended.out
    assert done.out.split()[0] == "test"
    assert str(rig.work) in done.out


async def test_an_interrupted_wait_ends_and_leaves_no_lease(rig, other):
    for one in (rig, other):
        prepare(one)
    with trio.fail_after(LIMIT_S):
        await rig.run(rig.script(call("./hold"), {"text": "never"}))
        await rig.wait(lambda: (rig.work / "started").exists())
        second = await other.run(other.script(call("./hold"), {"text": "never"}))
        await other.wait_call()
        while len(await leases_of(other)) < 2:
            pass
        second.process.terminate()
        ended = await second.wait_end()
        assert ended.code == 143, ended.err
        (used,) = other.bodies(HeavyCommandEnded)
        assert not used.ran
        assert await leases_of(rig) == [("running", "hold")]
        assert not (other.work / "started").exists()
