"""What is kept of what commands made on a node, and how they run there."""

import os
import shutil
import signal
import subprocess

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.nodes import CopiedPlace, PrepareCopies
from swarm.supervisor.parts.copies.prepare_commands import PrepareFailed, keep_tool_folders
from swarm.supervisor.parts.node import node_prepare
from swarm.supervisor.parts.node.node_paths import NodePaths
from swarm.supervisor.parts.node.node_prepare import prepare_copies

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")


def paths_below(folder):
    return sorted(
        os.path.relpath(f"{top}/{name}", folder)
        for top, folders, files in os.walk(folder)
        for name in (*folders, *files)
    )


def test_only_folders_that_tools_fill_are_kept(tmp_path):
    for name in ("node_modules/a", "sub/.venv/bin/x", "sub/other", "gone/deep/file", "text"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / "link").symlink_to("/etc")
    keep_tool_folders(tmp_path)
    assert paths_below(tmp_path) == [
        "node_modules", "node_modules/a", "sub", "sub/.venv", "sub/.venv/bin", "sub/.venv/bin/x",
    ]  # fmt: skip


def test_a_folder_that_was_made_anew_would_hide_the_projects_and_goes(tmp_path):
    (tmp_path / "sub" / "node_modules").mkdir(parents=True)
    os.setxattr(tmp_path / "sub", "user.overlay.opaque", b"y")
    keep_tool_folders(tmp_path)
    assert paths_below(tmp_path) == []


def test_a_link_with_a_tools_name_is_no_such_folder(tmp_path):
    (tmp_path / "node_modules").symlink_to("/etc")
    keep_tool_folders(tmp_path)
    assert paths_below(tmp_path) == []


@pytest.fixture(params=["overlays", "folders"])
def node(tmp_path, request):
    paths = NodePaths(
        folder=tmp_path / "node", sockets=tmp_path / "s", shown=tmp_path / "shown",
        has_overlays=request.param == "overlays",
    )  # fmt: skip
    base = paths.tree("bases/1/tree-0")
    base.mkdir(parents=True)
    (base / "text").write_text("base\n")
    (tmp_path / "project").mkdir()
    return paths, tmp_path / "project"


def order(project, *commands, limit_s=60.0):
    return PrepareCopies(
        request=1, commands=commands, base=1, places=(CopiedPlace(path=str(project)),),
        cwd=str(project), limit_s=limit_s,
    )  # fmt: skip


@needs_bwrap
async def test_commands_run_in_a_copy_and_leave_the_project_alone(node):
    paths, project = node
    wanted = order(project, "mkdir .venv", "cp text .venv/seen; echo 2 > text")
    await prepare_copies(paths, wanted, dict(os.environ), ())
    upper = paths.prepared_of(str(project)) / "upper"
    made = upper if paths.has_overlays else paths.prepared_tree
    assert (made / ".venv/seen").read_text() == "base\n"
    assert sorted(os.listdir(made)) == [".venv"] if paths.has_overlays else [".venv", "text"]
    assert os.listdir(project) == []


@needs_bwrap
@pytest.mark.parametrize(
    ("command", "limit_s", "words"),
    [
        ("mkdir .venv; echo why >&2; exit 4", 60.0, "ended with exit code 4: why"),
        ("mkdir .venv; sleep 50", 1.0, "took over 1 s"),
    ],
)
async def test_after_a_failure_nothing_is_left_and_the_reason_is_told(
    node, command, limit_s, words
):
    paths, project = node
    with trio.fail_after(30), pytest.raises(PrepareFailed, match=words):
        await prepare_copies(paths, order(project, command, limit_s=limit_s), dict(os.environ), ())
    assert not paths.prepared.exists()
    assert not paths.prepared_tree.exists()


@needs_bwrap
async def test_a_command_ends_when_the_process_that_started_it_is_killed(node, tmp_path):
    paths, project = node
    program = node_prepare.make_place(paths, order(project))
    lifeline, held = os.pipe()
    argv = [
        *program, "-s", "workspace-write", "--lifeline", str(lifeline), "--",
        "/bin/sh", "-c", "echo up; setsid sleep 500",
    ]  # fmt: skip
    with trio.fail_after(30):
        process = await trio.lowlevel.open_process(
            argv, cwd="/", stdout=subprocess.PIPE, pass_fds=(lifeline,), start_new_session=True
        )
        os.close(lifeline)
        assert await process.stdout.receive_some() == b"up\n"
        os.close(held)
        assert await process.stdout.receive_some() == b""  # nothing has it open any more
        assert await process.wait() == -signal.SIGKILL


async def test_without_overlays_commands_need_bubblewrap_and_one_folder(node):
    paths, project = node
    paths = paths.without_overlays()
    two = (CopiedPlace(path=str(project)), CopiedPlace(path=str(project.parent)))
    wanted = msgspec.structs.replace(order(project, "true"), places=two)
    with pytest.raises(ValueError, match="one folder only"):
        await prepare_copies(paths, wanted, dict(os.environ), ())
    assert "bwrap" in node_prepare.make_place(paths, order(project))
