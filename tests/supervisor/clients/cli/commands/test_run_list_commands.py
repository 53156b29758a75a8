"""Listing, deleting and configuring: nothing alive is deleted, nothing outside the runs' folder."""

import contextlib
import json
import os
import pty
import subprocess
import sys

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.approvals import ApprovalRequest, CommandAction
from swarm.mailbox.protocol.records import (
    ApprovalRequested,
    ApprovalResolved,
    Record,
    RunStarted,
    encode_record,
)
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION
from swarm.supervisor.clients.cli.base.removal_reasons import has_open_question
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.runs.paths import find_user_paths, make_private_folder, paths_of_run
from swarm.supervisor.runs.run_list import (
    RunSummary,
    choose_runs_to_prune,
    file_sizes,
    folder_size,
    list_runs,
    remove_run,
)
from swarm.supervisor.runs.run_metadata import (
    RunLabel,
    RunMetadata,
    lock_run,
    write_label,
    write_metadata,
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return find_user_paths({"SWARM_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})


def add_run(places, name, *, status="completed", started=1000.0):
    here = paths_of_run(places, name)
    make_private_folder(here.folder)
    about = RunMetadata(
        schema_version=SCHEMA_VERSION, run_id=name, title=f"title of {name}", task="t.md",
        cwd="/", pid=1, started=started, version="0", status=status, ended=started + 1,
    )  # fmt: skip
    write_metadata(here, about)
    return here


def test_runs_are_listed_newest_first_with_their_state(home):
    add_run(home, "01-aaaaaaaa")
    add_run(home, "02-bbbbbbbb", status="running")
    old = add_run(home, "03-cccccccc")
    old.metadata.write_text('{"schema_version": 99}')
    (home.runs / "stray.txt").write_text("x")
    with lock_run(add_run(home, "04-dddddddd", status="running")):
        states = {run.run_id[-8:]: run.state for run in list_runs(home)}
    assert states == {
        "dddddddd": "running", "cccccccc": "unreadable", "bbbbbbbb": "stopped",
        "aaaaaaaa": "completed",
    }  # fmt: skip
    assert list(states) == sorted(states, reverse=True)


def test_ps_prints_one_object_a_run(home, capfd):
    add_run(home, "01-aaaaaaaa")
    assert run_cli(["ps", "--json"]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    row = json.loads(line)
    assert (row["short_id"], row["state"], row["usd"]) == ("aaaaaaaa", "completed", None)
    assert row["size_bytes"] > 0


def test_a_live_run_cannot_be_deleted(home, capfd):
    here = add_run(home, "01-aaaaaaaa")
    with lock_run(here):
        assert run_cli(["rm", "aaaaaaaa"]) == 2
    assert "is alive; end it first: swarm kill aaaaaaaa" in capfd.readouterr().err
    assert run_cli(["rm", "aaaaaaaa"]) == 0
    assert not here.folder.exists()


def test_whatever_ps_lists_can_be_deleted_also_without_its_run_json(home, capfd):
    add_run(home, "01-aaaaaaaa")
    make_private_folder(paths_of_run(home, "02-bbbbbbbb").folder)
    assert [run.state for run in list_runs(home)] == ["unreadable", "completed"]
    assert run_cli(["rm", "bbbbbbbb"]) == 0
    assert "deleted" in capfd.readouterr().out
    assert [run.run_id for run in list_runs(home)] == ["01-aaaaaaaa"]
    make_private_folder(paths_of_run(home, "03-cccccccc").folder)
    assert run_cli(["resume", "--last", "-p", "x"]) == 2
    assert "cccccccc" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "link"])
def test_only_a_folder_of_a_run_can_be_deleted(home, tmp_path, name):
    home.runs.mkdir(parents=True)
    (tmp_path / "precious").mkdir()
    (home.runs / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(UsageError):
        remove_run(home, name)
    assert (tmp_path / "precious").is_dir()


def test_prune_keeps_the_newest_the_living_and_the_young():
    runs = tuple(
        RunSummary(run_id=str(n), state=state, started=float(n), ended=float(n))
        for n, state in [
            (9, "running"),
            (8, "completed"),
            (7, "failed"),
            (6, "stopped"),
            (1, "failed"),
        ]
    )

    def chosen(**how):
        return [run.run_id for run in choose_runs_to_prune(runs, now=10.0, **how)]

    assert chosen(older_s=None, keep=0) == ["8", "7", "6", "1"]
    assert chosen(older_s=None, keep=2) == ["6", "1"]
    assert chosen(older_s=5.0, keep=0) == ["1"]
    assert chosen(older_s=5.0, keep=4) == []


def test_prune_says_what_it_would_do(home, capfd):
    add_run(home, "01-aaaaaaaa")
    add_run(home, "02-bbbbbbbb")
    assert run_cli(["prune", "--keep", "1", "--dry-run"]) == 0
    assert capfd.readouterr().out == "would delete aaaaaaaa\n"
    assert run_cli(["prune", "--keep", "1"]) == 2
    assert "--yes" in capfd.readouterr().err
    assert len(list_runs(home)) == 2
    assert run_cli(["prune", "--keep", "1", "--yes"]) == 0
    assert [run.run_id for run in list_runs(home)] == ["02-bbbbbbbb"]
    assert run_cli(["prune", "--keep", "1"]) == 0  # there is nothing to ask


def ask_for_approval(here, *resolutions):
    """Write the journal of a run that has asked for something."""
    asked = ApprovalRequested(
        approval_id="1",
        request=ApprovalRequest(action=CommandAction(argv=("make",), cwd="/"), cause="rule"),
        reviewer="person",
    )
    here.journal.mkdir(exist_ok=True)
    lines = [
        encode_record(Record(seq=seq, ts=1.0, agent="/root", body=body)).decode()
        for seq, body in enumerate((asked, *resolutions), 1)
    ]
    (here.journal / "run.jsonl").write_text("\n".join(lines) + "\n")


def resolved(by, outcome):
    return ApprovalResolved(approval_id="1", by=by, outcome=outcome)


def test_prune_leaves_what_has_a_name_or_an_unanswered_question_and_names_it(home, capfd):
    add_run(home, "01-aaaaaaaa")
    write_label(add_run(home, "02-bbbbbbbb"), RunLabel(name="parser"))
    ask_for_approval(add_run(home, "03-cccccccc"))
    ask_for_approval(add_run(home, "04-dddddddd"), resolved("nobody", "aborted"))
    ask_for_approval(add_run(home, "05-eeeeeeee"), resolved("person", "denied"))
    words = ["prune", "--keep", "0", "--yes", "--force"]
    assert run_cli([*words, "--dry-run"]) == 0
    assert len(list_runs(home)) == 5
    capfd.readouterr()
    assert run_cli(words) == 0
    said = capfd.readouterr()
    assert said.out.split() == ["deleted", "eeeeeeee", "deleted", "aaaaaaaa"]
    assert "run bbbbbbbb stays: it has the name 'parser'; swarm rm bbbbbbbb deletes" in said.err
    assert "run cccccccc stays: it has a question that nobody has answered" in said.err
    assert "run dddddddd stays" in said.err
    assert "2 runs" in said.err


def test_a_resumed_run_has_no_question_of_its_earlier_part(home):
    here = add_run(home, "01-aaaaaaaa")
    ask_for_approval(here, resolved("nobody", "aborted"))
    assert has_open_question(here)
    again = RunStarted(run_id="r", task="t", title="T", cwd="/", version="1")
    ask_for_approval(here, resolved("nobody", "aborted"), again)
    assert not has_open_question(here)


@pytest.mark.parametrize("wanted", ["bbbb", "parser"])
def test_rm_takes_a_run_with_a_name_only_by_its_id(home, capfd, wanted):
    here = add_run(home, "02-bbbbbbbb")
    write_label(here, RunLabel(name="parser"))
    assert run_cli(["rm", wanted, "--yes"]) == 2
    assert "give its id: swarm rm bbbbbbbb" in capfd.readouterr().err
    assert run_cli(["rm", "bbbbbbbb", "--dry-run"]) == 0
    assert here.folder.exists()
    assert run_cli(["rm", "bbbbbbbb"]) == 0
    assert not here.folder.exists()


def test_nothing_is_deleted_if_one_of_several_must_stay(home):
    first = add_run(home, "01-aaaaaaaa")
    write_label(add_run(home, "02-bbbbbbbb"), RunLabel(name="parser"))
    assert run_cli(["rm", "aaaaaaaa", "parser"]) == 2
    assert first.folder.exists()


@pytest.mark.parametrize("words", [["rm", "aaaaaaaa"], ["prune", "--keep", "0"]])
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_a_terminal_is_shown_the_list_and_asked(home, words, answer, code):
    add_run(home, "01-aaaaaaaa")
    said, ended = on_terminal(words, f"{answer}\n")
    assert "aaaaaaaa completed" in said
    assert "title of 01-aaaaaaaa" in said
    assert "Delete this run" in said
    assert ended == code
    assert len(list_runs(home)) == code
    if code:
        assert "nothing was changed" in said
        assert on_terminal([*words, "--yes"], "")[1] == 0
        assert list_runs(home) == ()


def on_terminal(words, typed):
    """Run the command on a pseudo-terminal: what it says there, and its exit code."""
    ours, theirs = pty.openpty()
    program = "from swarm.supervisor.clients.cli.entry import main; main()"
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", program, *words], stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment,
    )  # fmt: skip
    os.close(theirs)
    os.write(ours, typed.encode())
    said = b""
    with contextlib.suppress(OSError):  # the end of a pseudo-terminal
        while piece := os.read(ours, 1 << 16):
            said += piece
    os.close(ours)
    return said.decode(), child.wait(30)


def test_a_dead_run_says_what_to_do_instead(home, capfd):
    add_run(home, "01-aaaaaaaa")
    for words in (
        ["send", "aaaaaaaa", "root", "x"],
        ["kill", "aaaaaaaa"],
        ["interrupt", "aaaaaaaa"],
    ):
        assert run_cli(words) == 2
        assert "is not alive; `swarm show aaaaaaaa`" in capfd.readouterr().err


def test_config_shows_values_with_their_origin_and_hides_secrets(home, capfd):
    home.config.mkdir(exist_ok=True)
    (home.config / "config.toml").write_text(
        "model = 'm'\n[model_providers.x]\nname = 'x'\nbase_url = 'http://x'\n"
        "experimental_bearer_token = 'sk-secret'\nhttp_headers = {auth = 'sk-other'}\n"
    )
    assert run_cli(["config", "list", "--json"]) == 0
    out = capfd.readouterr().out
    assert "sk-" not in out
    rows = {row["key"]: row for row in map(json.loads, out.splitlines())}
    assert rows["model"]["origin"].startswith("user")
    assert rows["sandbox_mode"] == {
        "key": "sandbox_mode", "value": "workspace-write", "origin": "built-in",
        "layer": "built-in", "file": None, "line": None,
    }  # fmt: skip
    assert (rows["model"]["layer"], rows["model"]["line"]) == ("user", 1)
    assert run_cli(["config", "get", "model", "-c", "model=o"]) == 0
    assert capfd.readouterr().out == "o\n"


def test_roles_explain_shows_what_is_narrowed(home, capfd):
    assert run_cli(["roles", "explain", "explorer", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["limits"]["sandbox"] == {"type": "read-only"}
    assert run_cli(["roles", "explain", "explorer"]) == 0
    assert "read-only (narrowed from workspace-write)" in capfd.readouterr().out


def test_the_size_of_a_run_counts_nothing_behind_a_folder_that_became_a_link(tmp_path):
    run, outside = tmp_path / "run", tmp_path / "outside"
    for folder, size in ((run / "tmp", 10), (outside, 1_000)):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(size))
    (run / "first").write_bytes(bytes(1))
    sizes = file_sizes(run)
    assert next(sizes) == 1  # `tmp` was seen as a folder and waits
    (run / "tmp").rename(run / "moved")
    (run / "tmp").symlink_to(outside)
    assert list(sizes) == []


def make_deep(folder):
    here = os.open(folder, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("deep", dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_run_whose_tree_is_too_deep_to_be_named_is_counted_and_removed(home):
    here = add_run(home, "deep-run")
    before = folder_size(here.folder)
    private = here.folder / "tmp/agent"
    private.mkdir(parents=True)
    make_deep(private)
    assert folder_size(here.folder) == before
    remove_run(home, "deep-run")
    assert not here.folder.exists()
