"""An archive to hand on holds no secret; a run can be named, put away, and found by its name."""

import io
import json
import tarfile

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.records import Record, encode_record
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.runs.paths import find_run, find_user_paths, make_private_folder, paths_of_run
from swarm.supervisor.runs.run_export import export_run, secret_values
from swarm.supervisor.runs.run_list import choose_runs_to_prune, list_runs
from swarm.supervisor.runs.run_metadata import (
    RunLabel,
    RunMetadata,
    lock_run,
    read_label,
    write_metadata,
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return find_user_paths({"SWARM_HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path)})


def add_run(places, name):
    here = paths_of_run(places, name)
    make_private_folder(here.folder)
    make_private_folder(here.journal)
    about = RunMetadata(
        schema_version=SCHEMA_VERSION, run_id=name, title=f"title of {name}", task="t.md",
        cwd="/", pid=1, started=1000.0, version="0", status="completed", ended=1001.0,
    )  # fmt: skip
    write_metadata(here, about)
    return here


def line(seq, text):
    return encode_record(Record(seq=seq, ts=1.0, body=Warned(message=text))) + b"\n"


def members(path):
    with tarfile.open(path) as archive:
        return {one.name.partition("/")[2]: archive.extractfile(one).read() for one in archive}


def test_an_archive_holds_records_and_settings_and_no_secret(home, tmp_path):
    here = add_run(home, "01-aaaaaaaa")
    (here.folder / "request.json").write_text('{"cwd":"/","prompt":"use hunter22hunter"}')
    (here.journal / "run.jsonl").write_bytes(
        line(1, "the token is hunter22hunter") + line(2, "ghp_abcdefghijklmnopqrstuvwxyz0123")
        + line(3, "nothing") + b'{"seq":4,"ts"'
    )  # fmt: skip
    make_private_folder(here.file_copies)
    (here.file_copies / "copy").write_text("hunter22hunter")
    target = tmp_path / "out.tar.gz"
    redactor = Redactor(secret_values({"MY_TOKEN": "hunter22hunter", "KEY_FILE": "/etc/key"}))
    done = export_run(here, target, redactor=redactor, force=False)
    found = members(target)
    assert set(found) == {"run.json", "request.json", "journal/run.jsonl", "export.json"}
    assert b"hunter22" not in b"".join(found.values())
    assert b"ghp_" not in b"".join(found.values())
    records = [json.loads(one) for one in io.BytesIO(found["journal/run.jsonl"])]
    assert [one["seq"] for one in records] == [1, 2, 3]  # the half line of a living run stays out
    assert json.loads(found["export.json"])["lines_redacted"] == done.redacted == 3
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(UsageError, match="--force"):
        export_run(here, target, redactor=redactor, force=False)


def test_an_archive_that_cannot_be_written_leaves_nothing(home, tmp_path, capfd):
    add_run(home, "01-aaaaaaaa")
    assert run_cli(["export", "aaaaaaaa", str(tmp_path / "no" / "where.tar.gz")]) == 1
    assert "cannot write" in capfd.readouterr().err
    assert run_cli(["export", "aaaaaaaa", str(tmp_path / "x.tar.gz")]) == 0
    assert [one.name for one in tmp_path.iterdir()].count("x.tar.gz") == 1


def test_a_run_is_found_by_the_name_it_was_given_alive_or_not(home, capfd):
    with lock_run(add_run(home, "01-aaaaaaaa")):
        assert run_cli(["name", "aaaaaaaa", "parser  rewrite"]) == 0
    add_run(home, "02-bbbbbbbb")
    assert find_run(home, "parser rewrite") == "01-aaaaaaaa"
    assert run_cli(["ps"]) == 0
    assert "parser rewrite: title of 01-aaaaaaaa" in capfd.readouterr().out
    assert run_cli(["name", "parser rewrite"]) == 0
    with pytest.raises(UsageError, match="no run 'parser rewrite'"):
        find_run(home, "parser rewrite")


@pytest.mark.parametrize("name", ["x" * 81, "a\x1b[2Jb", "a\x00b"])
def test_a_name_that_would_steer_a_terminal_or_is_too_long_is_refused(home, name, capfd):
    here = add_run(home, "01-aaaaaaaa")
    assert run_cli(["name", "aaaaaaaa", name]) == 2
    assert read_label(here) == RunLabel()


def test_runs_put_away_are_left_out_of_lists_and_of_tidying(home, capfd):
    for number in range(1, 4):
        add_run(home, f"0{number}-aaaaaaa{number}")
    assert run_cli(["archive", "aaaaaaa2"]) == 0
    capfd.readouterr()
    assert run_cli(["ps", "--json"]) == 0
    assert [json.loads(one)["short_id"] for one in capfd.readouterr().out.splitlines()] == [
        "aaaaaaa3", "aaaaaaa1",
    ]  # fmt: skip
    assert run_cli(["ps", "--json", "--all"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 3
    old = choose_runs_to_prune(list_runs(home), older_s=None, keep=0, now=2000.0)
    assert [one.run_id for one in old] == ["03-aaaaaaa3", "01-aaaaaaa1"]
    assert run_cli(["archive", "aaaaaaa2", "--undo"]) == 0
    assert len(choose_runs_to_prune(list_runs(home), older_s=None, keep=0, now=2000.0)) == 3


def test_a_list_can_be_read_page_by_page(home, capfd):
    for number in range(1, 6):
        add_run(home, f"0{number}-aaaaaaa{number}")

    def page(*words):
        assert run_cli(["ps", "--json", *words]) == 0
        return [json.loads(one)["short_id"] for one in capfd.readouterr().out.splitlines()]

    assert page("--limit", "2") == ["aaaaaaa5", "aaaaaaa4"]
    assert page("--limit", "2", "--before", "aaaaaaa4") == ["aaaaaaa3", "aaaaaaa2"]
    assert page("--before", "aaaaaaa2") == ["aaaaaaa1"]


def test_a_label_that_cannot_be_read_is_none(home):
    here = add_run(home, "01-aaaaaaaa")
    (here.folder / "label.json").write_bytes(b"\xff nonsense")
    assert read_label(here) == RunLabel()
    assert [one.run_id for one in list_runs(home)] == ["01-aaaaaaaa"]
