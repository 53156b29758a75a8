"""An administrator's requirements in real runs: they hold start, commands, children and resume."""

from pathlib import Path

import pytest
import trio

from swarm.mailbox.protocol.records import AgentSpawned

pytestmark = pytest.mark.live
LIMIT_S = 60
DONE = {"text": "done"}
NO_READ = "[permissions.filesystem]\ndeny_read = ['{path}']\n"


def command(cmd: str, **more) -> dict:
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": cmd, **more}}]}


def require(rig, text: str) -> Path:
    folder = rig.home / "system"
    folder.mkdir(exist_ok=True)
    path = folder / "requirements.toml"
    path.write_text(text)
    return path


async def test_a_run_beyond_them_does_not_start_and_names_both_sides(rig):
    path = require(rig, "allowed_sandbox_modes = ['read-only']\n")
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script(DONE))).wait_end()
    assert ended.code == 2
    assert 'flags, sandbox_mode = "danger-full-access" is not allowed' in ended.err
    assert f"{path}, line 1" in ended.err
    assert not rig.has_run


async def test_what_nobody_may_read_is_hidden_inside_and_nobody_is_let_out(rig):
    secret = rig.folder / "secret.txt"
    secret.write_text("the secret words")
    require(rig, NO_READ.format(path=secret))
    out = {"sandbox_permissions": "require_escalated", "justification": "please"}
    script = rig.script(command(f"cat {secret}"), command(f"cat {secret}", **out), DONE)
    with trio.fail_after(LIMIT_S):
        ended = await (
            await rig.run(script, "--reviewer", "nobody", sandbox="read-only")
        ).wait_end()
    assert ended.code == 0
    assert len(rig.outputs()) == 2
    assert not any("secret words" in words for words in rig.outputs())


async def test_a_rule_that_lets_commands_out_does_not_open_what_nobody_may_read(rig):
    secret = rig.folder / "secret.txt"
    secret.write_text("the secret words")
    rules = rig.home / "rules"
    rules.mkdir()
    (rules / "a.rules").write_text('prefix_rule(pattern=["cat"], decision="allow")\n')
    script = rig.script(command(f"cat {secret}"), DONE)
    with trio.fail_after(LIMIT_S):
        free = await (await rig.run(script, sandbox="read-only")).wait_end()
        assert free.code == 0
        assert "secret words" in rig.outputs()[0]
        rig.forget_run()
        require(rig, NO_READ.format(path=secret))
        held = await (await rig.run(script, sandbox="read-only")).wait_end()
    assert held.code == 0
    (said,) = rig.outputs()
    assert "secret words" not in said
    assert "can only be kept in a sandbox" in said


async def test_a_required_rule_forbids_whatever_the_persons_rules_allow(rig):
    rules = rig.home / "rules"
    rules.mkdir()
    (rules / "a.rules").write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    require(
        rig,
        "[rules]\nprefix_rules = [{ pattern = [{ token = 'touch' }], decision = 'forbidden', "
        "justification = 'nothing is made here' }]\n",
    )
    script = rig.script(command("touch made"), DONE)
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(script, sandbox="workspace-write")).wait_end()
    assert ended.code == 0
    assert "nothing is made here" in rig.outputs()[0]
    assert not (rig.work / "made").exists()


async def test_a_run_that_was_started_before_does_not_go_on_beyond_them(rig):
    script = rig.script(DONE, {"text": "again"})
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(script)).wait_end()).code == 0
        path = require(rig, "allowed_sandbox_modes = ['read-only', 'workspace-write']\n")
        refused = await (await rig.resume("-p", "more")).wait_end()
        assert refused.code == 2
        assert f"{path}, line 1" in refused.err
        path.unlink()
        assert (await (await rig.resume("-p", "more")).wait_end()).code == 0


async def test_a_run_that_goes_on_cannot_choose_another_model_than_the_pinned_one(rig):
    script = rig.script(DONE, {"text": "again"})
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.run(script, "-m", "a")).wait_end()).code == 0
        require(rig, "[pins]\nmodel = 'a'\n")
        refused = await (await rig.resume("-p", "more", "-m", "b")).wait_end()
        assert refused.code == 2
        assert "model b is not allowed" in refused.err
        assert (await (await rig.resume("-p", "more", "-m", "a")).wait_end()).code == 0


async def test_a_default_that_is_not_allowed_is_replaced_for_the_run_and_its_children(rig):
    require(rig, "allowed_sandbox_modes = ['read-only']\n")
    spawn = {"calls": [{"name": "spawn_agent", "arguments": {
        "task_name": "scout", "message": "look", "agent_type": "worker"}}]}  # fmt: skip
    wait = {"calls": [{"name": "wait_agent", "arguments": {"targets": ["scout"]}}]}
    root = [{**turn, "agent": "/root"} for turn in (spawn, wait, DONE)]
    script = rig.script(*root, {**DONE, "agent": "/root/*"})
    with trio.fail_after(LIMIT_S):
        run = await rig.start("run", "-p", "x", "--provider", script, "--plain")
        await run.wait_end()
    spawned = rig.bodies(AgentSpawned)
    assert len(spawned) == 2
    assert {type(one.limits.sandbox).__name__ for one in spawned} == {"ReadOnly"}
