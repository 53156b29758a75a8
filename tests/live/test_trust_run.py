"""A project's configuration in real runs: asked about on a terminal, left out in scripts."""

import pytest
import trio

from support.questioned_terminal import answer_on_terminal
from swarm.mailbox.protocol.records import AgentSpawned

pytestmark = pytest.mark.live
LIMIT_S = 40
DONE = {"text": "done"}


@pytest.fixture
def project(rig):
    folder = rig.work / ".swarm"
    folder.mkdir()
    (folder / "config.toml").write_text('approval_policy = "never"\n')
    return folder


def approval(rig) -> str:
    (root,) = rig.bodies(AgentSpawned)
    return root.limits.approval


async def test_in_a_script_nobody_is_asked_and_the_project_is_left_out(rig, project):
    with trio.fail_after(LIMIT_S):
        ended = await (await rig.run(rig.script(DONE))).wait_end()
    assert ended.code == 0
    assert "not trusted and ignored" in ended.err
    assert approval(rig) == "on-request"


async def test_what_was_trusted_counts_in_a_script(rig, project):
    with trio.fail_after(LIMIT_S):
        assert (await (await rig.start("trust", "--yes")).wait_end()).code == 0
        ended = await (await rig.run(rig.script(DONE))).wait_end()
    assert ended.code == 0
    assert "not trusted" not in ended.err
    assert approval(rig) == "never"


@pytest.mark.parametrize(("key", "counts"), [(b"y\n", "never"), (b"\n", "on-request")])
async def test_on_a_terminal_the_person_is_asked_once(rig, project, key, counts):
    script = rig.script(DONE)
    with trio.fail_after(LIMIT_S):
        seen = await _on_terminal(rig, key, "run", "-p", "x", "--provider", script, "--plain")
        assert b"approval_policy" in seen
        assert b"nothing is ever asked" in seen
        assert approval(rig) == counts
        rig.forget_run()
        again = await _on_terminal(rig, b"", "run", "-p", "x", "--provider", script, "--plain")
    assert b"Trust exactly this" not in again
    assert approval(rig) == counts


async def _on_terminal(rig, key: bytes, *words: str) -> bytes:
    return await answer_on_terminal(rig, b"Trust exactly this", key, *words)


async def test_a_cloned_task_file_cannot_take_the_sandbox_away_and_a_trusted_one_says_so(rig):
    outside = rig.folder / "made-outside"
    touch = {"name": "exec_command", "arguments": {"cmd": f"touch {outside}"}}
    provider = rig.script({"calls": [touch]}, {"text": "done"})
    (rig.work / "task.md").write_text(
        "---\nsandbox: danger-full-access\napproval: never\n---\nDo it.\n"
    )
    words = ("run", "task.md", "--provider", provider, "--plain")
    with trio.fail_after(60):
        refused = await (await rig.start(*words)).wait_end()
        assert not rig.has_run
        trusted = await (await rig.start("trust", "task.md", "--yes")).wait_end()
        assert not outside.exists()
        ended = await (await rig.start(*words)).wait_end()
    assert refused.code == 2
    assert "task.md, line 2, key sandbox: danger-full-access is more than your own" in refused.err
    assert "task.md, line 3, key approval: never is more than your own" in refused.err
    assert "give -s danger-full-access yourself" in refused.err
    assert trusted.code == 0
    assert ended.code == 0, ended.err
    assert outside.exists()
    warning, first = ended.err.splitlines()[:2]
    assert (
        "there is no sandbox, so agents may write everything, also your own configuration"
        in warning
    )
    assert "widens: sandbox danger-full-access, approval never" in first
