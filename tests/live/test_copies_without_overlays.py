"""Copies of the project where no overlay can be had: folders of their own, held by Landlock."""

import os
import shutil
import subprocess

import pytest
import trio

from support.copied_agents import BASE, LIMIT_S, call, make_repository, project, root, swarm, turns

__all__ = ["project"]

_MASKED = [path for path in ("/usr/bin/bwrap", "/bin/bwrap") if os.path.exists(path)]
WITHOUT_BUBBLEWRAP = (
    *("unshare", "--mount" if os.geteuid() == 0 else "-rm", "--propagation", "private"),
    *("sh", "-c", "".join(f"mount --bind /dev/null {path}; " for path in _MASKED) + 'exec "$@"'),
    "sh",
)
CAN_MOUNT = subprocess.run([*WITHOUT_BUBBLEWRAP, "true"], capture_output=True).returncode == 0
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not CAN_MOUNT, reason="needs a mount namespace to hide bubblewrap"),
]


async def play(rig, *steps: dict[str, object], words: tuple[str, ...] = (), code: int = 0) -> str:
    started = await rig.run(
        rig.script(*steps), *words, sandbox="workspace-write", prefix=WITHOUT_BUBBLEWRAP
    )
    ended = await started.wait_end()
    assert ended.code == code, ended.err
    return ended.err


async def without_bubblewrap(rig, *words: str, code: int = 0) -> str:
    ended = await (await rig.start(*words, prefix=WITHOUT_BUBBLEWRAP)).wait_end()
    assert ended.code == code, ended.err + ended.out
    return ended.out + ended.err


async def test_what_it_writes_stays_in_its_folder_until_it_is_merged(rig, project):
    (project / ".venv").mkdir()
    (project / ".venv" / "pyvenv.cfg").write_text("installed\n")
    writes = f"pwd; echo two >> text; rm gone; echo x > {project}/escaped; ln text {project}/hard"
    with trio.fail_after(LIMIT_S):
        said = await play(
            rig,
            *root("one", isolation="copy"),
            *turns("/root/one", writes, "cat .venv/pyvenv.cfg; echo x > .venv/new", "cat text"),
            words=("--isolate=children",),
        )
        assert "folders of their own" in said
        pwd, packages, text = rig.outputs("/root/one")
        tree = rig.home / "state/copies" / rig.run_id
        assert str(tree) in pwd
        assert "installed" in packages
        assert "line 0" in text and "two" in text
        assert sorted(os.listdir(project)) == [".venv", "gone", "text"]
        assert os.listdir(project / ".venv") == ["pyvenv.cfg"]
        assert (project / "text").read_text() == BASE
        diff = await swarm(rig, "diff", rig.run_id, "one")
        assert "+two" in diff and "gone" in diff
        await swarm(rig, "merge", rig.run_id, "--yes")
        assert (project / "text").read_text() == f"{BASE}two\n"
        assert not (project / "gone").exists()
        await swarm(rig, "rm", rig.run_id)
        assert not tree.exists()


async def test_an_agent_there_cannot_write_the_project_by_its_own_tools_either(rig, project):
    patch = (
        f"*** Begin Patch\n*** Update File: {project}/text\n@@\n-line 0\n+line zero\n"
        "*** End Patch\n"
    )
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            {"agent": "/root/one", "calls": [
                call("apply_patch", input=patch),
                call("exec_command", cmd=f"echo x > {project}/escaped", justification="so",
                     sandbox_permissions="require_escalated"),
            ]},
            {"agent": "/root/one", "text": "done"},
            words=("--isolate=children", "--reviewer", "nobody"),
        )  # fmt: skip
    patched, _escalated = rig.outputs("/root/one")
    assert "is not in this agent's copy of the project" in patched
    assert (project / "text").read_text() == BASE
    assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_a_command_tries_the_merge_in_a_folder_of_its_own(rig, project):
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            *turns("/root/one", "echo two >> text"),
            words=("--isolate=children",),
        )
        tests = f"pwd; grep two text && ! echo x > {project}/escaped"
        said = await without_bubblewrap(rig, "merge", rig.run_id, "--yes", "--run", tests)
        assert f"state/copies/{rig.run_id}/trial-" in said
        assert (project / "text").read_text() == f"{BASE}two\n"
        assert sorted(os.listdir(project)) == ["gone", "text"]
        assert os.listdir(rig.home / "state/copies" / rig.run_id) != []


async def test_git_in_such_a_copy_reads_the_projects_history(rig, project):
    if shutil.which("git") is None:
        pytest.skip("needs git")
    make_repository(project)
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            *turns("/root/one", "echo two >> text; git status -s; git log --format=%s"),
            words=("--isolate=children",),
        )
    (said,) = rig.outputs("/root/one")
    assert " M text" in said and "base" in said
    assert " D gone" not in said


async def test_an_agent_whose_sandbox_names_other_folders_gets_no_such_copy(rig, project, tmp_path):
    beside = tmp_path / "beside"
    beside.mkdir()
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", isolation="copy"),
            words=("--isolate=children", "--add-dir", str(beside)),
        )
    assert any("a copy is one folder" in output for output in rig.outputs("/root"))


async def test_doctor_says_where_copies_lie(rig):
    with trio.fail_after(LIMIT_S):
        said = await without_bubblewrap(rig, "doctor", code=0)
    assert "a folder of its own for each agent" in said
