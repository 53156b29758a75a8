"""A run whose project was renamed goes on in the new folder, and nothing comes to the old one."""

import json
import os
import subprocess

import msgspec
import pytest

from support.forked_programs import Setting, run_program
from support.scripted_team_run import SWARM
from swarm.supervisor.parts.copies.copy_folder import AgentCopy

pytestmark = pytest.mark.live
HOOK = """
[[hooks.PreToolUse]]
[[hooks.PreToolUse.hooks]]
type = "command"
command = "touch hooked; cat >/dev/null"
"""


def call(cmd: str) -> dict[str, object]:
    return {"calls": [{"name": "exec_command", "arguments": {"cmd": cmd}}]}


@pytest.fixture
def place(tmp_path):
    project = tmp_path / "old"
    (project / "sub").mkdir(parents=True)
    (project / "sub" / "a.txt").write_text("one\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "first")
    turns = [call("echo two >a.txt"), {"text": "first"}]
    turns += [call("echo more >b.txt; pwd"), {"text": "second"}]
    turns += [{"text": "third"}, {"text": "fourth"}]
    (tmp_path / "script.yaml").write_text(json.dumps({"turns": turns}))
    provider = f"--provider=scripted:{tmp_path / 'script.yaml'}"
    done = swarm(tmp_path, "run", "-p", "go", "--json", provider, cwd=project / "sub")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout.splitlines()[0])["run"]
    project.rename(tmp_path / "new")
    return tmp_path, run


def git(folder, *words):
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True,
        capture_output=True,
    )  # fmt: skip


def swarm(folder, *words, cwd=None):
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder),
    }
    return run_program([SWARM, *words], Setting(environment, cwd or folder))


def told(folder, word):
    """How often the model was told a text, over the whole run."""
    files = (folder / "home").glob(".local/state/swarm/runs/*/journal/*.jsonl")
    lines = (line for file in files for line in file.read_text().splitlines())
    return sum(word in line for line in lines if '"item_recorded"' in line)


def test_a_resume_of_a_run_whose_folder_is_gone_names_the_option(place):
    folder, run = place
    done = swarm(folder, "resume", run, "--plain")
    assert done.returncode == 2
    assert f"{folder}/old/sub, where this run worked, is gone" in done.stderr
    assert f"swarm resume {run[-8:]} -C DIR" in done.stderr
    done = swarm(folder, "resume", run, "--plain", "-C", "nowhere")
    assert (done.returncode, "is not a folder" in done.stderr) == (2, True)


def test_the_run_goes_on_in_the_renamed_folder_and_its_model_is_told_once(place):
    folder, run = place
    there = ("resume", run, "-p", "more", "--plain", "-C", "new/sub")
    done = swarm(folder, *there)
    assert (done.returncode, done.stdout) == (0, "second\n"), done.stderr
    assert f"the run goes on in {folder}/new/sub" in done.stderr
    assert "another project" not in done.stderr
    assert (folder / "new/sub/b.txt").read_text() == "more\n"
    assert told(folder, f"`{folder}/old` is now `{folder}/new`") == 1
    assert told(folder, f"Your working folder is now `{folder}/new/sub`") == 1
    again = swarm(folder, "resume", run, "-p", "again", "--plain")  # it is remembered
    assert (again.returncode, again.stdout) == (0, "third\n"), again.stderr
    assert told(folder, "<folder_moved>") == 1
    listed = json.loads(swarm(folder, "ps", "--json").stdout)
    assert listed["cwd"] == f"{folder}/new/sub"
    undone = swarm(folder, "undo", run, "--yes")
    assert undone.returncode == 0, undone.stderr
    assert (folder / "new/sub/a.txt").read_text() == "one\n"
    assert not (folder / "new/sub/b.txt").exists()
    assert not (folder / "old").exists()


def test_exec_resume_goes_on_in_the_renamed_folder_too(place):
    folder, run = place
    done = swarm(folder, "exec", "resume", run, "more", "-C", "new/sub")
    assert (done.returncode, done.stdout) == (0, "second\n"), done.stderr
    assert (folder / "new/sub/b.txt").exists()


def test_another_project_is_warned_of_and_a_folder_inside_the_old_one_is_refused(place):
    folder, run = place
    (folder / "old" / "sub" / "deep").mkdir(parents=True)
    done = swarm(folder, "resume", run, "-p", "x", "--plain", "-C", "old/sub/deep")
    assert (done.returncode, "it cannot go there" in done.stderr) == (2, True)
    (folder / "other").mkdir()
    done = swarm(folder, "resume", run, "-p", "x", "--plain", "-C", "other")
    assert done.returncode == 0, done.stderr
    assert f"{folder}/other may be another project" in done.stderr


def test_a_folder_that_holds_the_old_one_as_before_is_refused_and_flattened_ones_are_not(place):
    folder, run = place
    done = swarm(folder, "resume", run, "-p", "x", "--plain", "-C", "new/sub")
    assert done.returncode == 0, done.stderr
    for wider in ("new", ".", "/"):
        done = swarm(folder, "resume", run, "-p", "x", "--plain", "-C", wider)
        assert done.returncode == 2, wider
        assert "would get more than they had" in done.stderr
    (folder / "new/sub").rename(folder / "gone")
    done = swarm(folder, "resume", run, "-p", "x", "--plain", "-C", "new")
    assert done.returncode == 0, done.stderr


def test_what_the_new_folder_brings_counts_only_if_it_is_trusted(place):
    folder, run = place
    (folder / "new/.swarm").mkdir()
    (folder / "new/.swarm/config.toml").write_text(HOOK)
    done = swarm(folder, "resume", run, "-p", "more", "--plain", "-C", "new/sub")
    assert done.returncode == 0, done.stderr
    assert "trust" in done.stderr
    assert list((folder / "new").rglob("hooked")) == []


def test_agents_in_copies_are_not_carried(place):
    folder, run = place
    copies = folder / "home/.local/state/swarm/runs" / run / "copies/agents/x"
    copies.mkdir(parents=True)
    copy = AgentCopy(agent_id="x", path="/root/mason", base=1, roots=(), cwd=f"{folder}/old")
    (copies / "copy").write_bytes(msgspec.msgpack.encode(copy))
    done = swarm(folder, "resume", run, "-p", "more", "--plain", "-C", "new/sub")
    assert (done.returncode, "/root/mason worked in a copy" in done.stderr) == (2, True)
