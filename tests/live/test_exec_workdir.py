"""Where a command wants to run gives it no rights: its sandbox is by the agent's own folder."""

import tempfile
from pathlib import Path

import pytest


async def run_in(rig, folder, script):
    call = {"name": "exec_command", "arguments": {"cmd": script, "workdir": str(folder)}}
    provider = rig.script({"calls": [call]}, {"text": "done"})
    started = await rig.run(provider, "--reviewer", "nobody", sandbox="workspace-write")
    await started.wait_end()
    return rig.outputs()[0]


@pytest.mark.live
async def test_a_workdir_outside_of_the_workspace_is_not_writable(rig):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere:
        output = await run_in(rig, elsewhere, "touch made; echo $?; pwd")
        assert not (Path(elsewhere) / "made").exists()
    assert "Read-only file system" in output or "Permission denied" in output
    assert elsewhere in output  # it ran there, and may read there


@pytest.mark.live
async def test_a_workdir_inside_of_what_is_protected_opens_nothing(rig):
    hooks = rig.work / ".git" / "hooks"
    hooks.mkdir(parents=True)
    await run_in(rig, hooks, "echo evil > post-commit")
    assert not (hooks / "post-commit").exists()


@pytest.mark.live
async def test_a_workdir_below_the_workspace_can_be_written(rig):
    below = rig.work / "below"
    below.mkdir()
    await run_in(rig, below, "touch made")
    assert (below / "made").exists()


@pytest.mark.live
async def test_a_zero_character_in_a_command_is_said_and_nothing_starts(rig):
    output = await run_in(rig, rig.work, "touch made; printf 'a\0b'")
    assert "zero character" in output
    assert not (rig.work / "made").exists()


@pytest.mark.live
async def test_a_refused_commit_is_explained_although_the_command_line_ended_well(rig):
    (rig.work / ".git" / "objects").mkdir(parents=True)
    (rig.work / ".git" / "refs").mkdir()
    (rig.work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    output = await run_in(rig, rig.work, "X=1; git add .; echo done")
    assert "exited with code 0" in output
    assert "record" in output
