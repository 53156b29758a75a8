"""What a sandboxed server's table lets it see of the machine's temporary folders."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from swarm.mailbox.protocol.values.limits import ReadOnly
from swarm.worker.parts.mcp.server_process import named_paths
from swarm.worker.sandbox.sandbox_plan import plan_sandbox


@pytest.fixture
def folder():
    with TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


@pytest.mark.parametrize(
    ("program", "arguments", "seen"),
    [
        ("/usr/bin/python3", ("-m", "server"), ()),
        ("/usr/bin/python3", ("/home/me/server.py", "/run/other.sock"), ()),
        ("/usr/bin/python3", ("/tmp/work/server.py", "--name=/tmp/x"), ("/tmp/work/server.py",)),
        ("/tmp/server", (), ("/tmp/server",)),
        ("/tmp/tools/server", (), ("/tmp/tools/server", "/tmp/tools")),
        ("/usr/bin/python3", ("/tmp/../run/user/1000/bus", "/tmp//x"), ()),
    ],
)
def test_only_what_the_table_names_below_a_temporary_folder_is_seen(program, arguments, seen):
    assert named_paths(program, arguments) == seen


def test_of_a_virtual_environment_all_is_seen(folder):
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "venv/pyvenv.cfg").touch()
    program = f"{folder}/venv/bin/python"
    assert named_paths(program, ()) == (program, f"{folder}/venv")


def test_a_link_that_a_command_may_have_made_shows_nothing(folder):
    (folder / "data").symlink_to("/run")
    assert named_paths("/usr/bin/python3", (f"{folder}/data", f"{folder}/data/user")) == ()


def test_the_whole_temporary_folder_stays_private_and_hidden_paths_stay_hidden(folder):
    run, tool = folder / "run", folder / "tool"
    run.mkdir()
    tool.touch()
    plan = plan_sandbox(
        ReadOnly(), cwd="/", tmp_dir=None, hidden_paths=(str(run),), stack="bwrap",
        extra_readable=("/tmp/", str(run), str(tool)),
    )  # fmt: skip
    assert "/tmp" in plan.covered
    assert [path for path in plan.visible if path.startswith("/tmp")] == [str(tool)]


def test_what_is_named_within_a_writable_root_stays_writable(folder):
    file = folder / "effects"
    file.touch()
    plan = plan_sandbox(
        ReadOnly(), cwd="/", tmp_dir=None, extra_roots=(str(folder),),
        extra_readable=(str(file),), stack="bwrap",
    )  # fmt: skip
    assert str(folder) in plan.writable
    assert plan.visible == tuple(path for path in plan.visible if not path.startswith("/tmp"))
