"""Agents make files with the modes of `swarm run`'s umask; what swarm keeps is private."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
import yaml

from support.copied_agents import call, root
from support.forked_programs import Setting, run_program
from support.scripted_team_run import SWARM

pytestmark = pytest.mark.live
PATCH = "*** Begin Patch\n*** Add File: patched/new.txt\n+hello\n*** End Patch\n"
CALLS = [
    call(
        "exec_command",
        cmd="mkdir made && touch made/file && touch made/tool && chmod 755 made/tool",
    ),
    call("exec_command", cmd="umask 077; touch made/secret"),
    call("apply_patch", input=PATCH),
]
PLACES = {"made": 0o777, "made/file": 0o666, "patched": 0o777, "patched/new.txt": 0o666}
# Modes of agents' files, and of the project's in copies: all below folders that are private.
THEIRS = {"tmp", "copies", "trees"}


def run(folder, turns, *words, umask, stack):
    """Run the command with this umask; `landlock` where it finds no bubblewrap."""
    project = folder / "project"
    project.mkdir()
    script = folder / "script.yaml"
    script.write_text(yaml.safe_dump({"turns": turns}))
    path = os.environ["PATH"]
    if stack == "landlock":
        tools = folder / "bin"
        tools.mkdir()
        for one in ("bash", "sh", "mkdir", "touch", "chmod", "git", "env", "cat"):
            (tools / one).symlink_to(shutil.which(one))
        path = str(tools)
    command = ("run", "-p", "go", "--plain", f"--provider=scripted:{script}", *words)
    done = swarm(folder, *command, cwd=project, umask=umask, path=path)
    assert done.returncode == 0, done.stderr
    return project


def swarm(folder, *words, cwd, umask, path=os.environ["PATH"]):
    environment = {"PATH": path, "HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder)}
    return run_program([SWARM, *words], Setting(environment, cwd, umask=umask))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(top: Path) -> dict[str, str]:
    """What somebody else could use of swarm's own files."""
    found = {}
    for path in top.rglob("*"):
        if path.is_symlink() or THEIRS & set(path.relative_to(top).parts[:-1]):
            continue
        if mode(path) & 0o077:
            found[str(path.relative_to(top))] = oct(mode(path))
    return found


STACKS = pytest.mark.parametrize("stack", ["bwrap", "landlock"])
UMASKS = pytest.mark.parametrize("umask", [0, 0o022, 0o027], ids=oct)


def check(project, home, umask):
    assert {name: mode(project / name) for name in PLACES} == {
        name: full & ~umask for name, full in PLACES.items()
    }
    assert mode(project / "made/tool") == 0o755
    assert mode(project / "made/secret") == 0o600
    state = home / ".local/state/swarm"
    assert open_to_others(home / ".local") == open_to_others(home / ".cache") == {}
    assert mode(state) == mode(state / "runs") == 0o700


@STACKS
@UMASKS
def test_files_of_an_agent_have_the_modes_of_the_persons_umask(tmp_path, umask, stack):
    turns = [*({"calls": [one]} for one in CALLS), {"text": "done"}]
    project = run(tmp_path, turns, "-s", "workspace-write", umask=umask, stack=stack)
    check(project, tmp_path / "home", umask)


@UMASKS
def test_files_that_come_out_of_a_copy_have_them_too(tmp_path, umask):
    turns = [
        *root("one", isolation="copy"),
        *({"agent": "/root/one", "calls": [one]} for one in CALLS),
        {"agent": "/root/one", "text": "done"},
    ]
    project = run(tmp_path, turns, "-s", "workspace-write", umask=umask, stack="bwrap")
    merged = swarm(tmp_path, "merge", cwd=project, umask=umask)
    assert merged.returncode == 0, merged.stderr
    check(project, tmp_path / "home", umask)


@UMASKS
def test_what_commands_leave_in_swarms_folders_is_private(tmp_path, umask):
    turns = [*({"calls": [one]} for one in CALLS), {"text": "done", "repeat": "forever"}]
    config = tmp_path / "home/.config/swarm"
    config.mkdir(parents=True, mode=0o700)
    (config / "config.toml").write_text(
        "[features]\nmemories = true\n[mcp_servers.time]\n"
        f"command = {str(Path(sys.executable).with_name('mcp-server-time'))!r}\n"
    )
    (config / "config.toml").chmod(0o600)
    project = run(tmp_path, turns, "-s", "workspace-write", umask=umask, stack="bwrap")
    for words in (
        ("name", "last"), ("undo", "--force"), ("fork", "-p", "again"), ("ps",), ("diff",),
        ("show",), ("log",), ("models", "list"), ("memory", "list"), ("config", "list"),
    ):  # fmt: skip
        swarm(tmp_path, *words, cwd=project, umask=umask)
    for place in (".local", ".cache", ".config/swarm"):
        assert open_to_others(tmp_path / "home" / place) == {}


def test_folders_that_an_earlier_version_left_open_are_closed(tmp_path):
    runs = tmp_path / "home/.local/state/swarm/runs"
    runs.mkdir(parents=True, mode=0o755)
    run(tmp_path, [{"text": "done"}], umask=0o022, stack="bwrap")
    assert mode(runs) == mode(runs.parent) == 0o700
    assert mode(runs.parent.parent) == 0o755  # not swarm's
