"""Which run a command means when it is given none: one of this project, and it says so."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION
from swarm.supervisor.clients.cli.base.run_choice import (
    RunWanted,
    choose_live_run,
    choose_run,
    split_agent,
)
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.runs.client_errors import RunNotAlive
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run
from swarm.supervisor.runs.project_runs import project_of
from swarm.supervisor.runs.run_metadata import RunMetadata, write_metadata


@pytest.fixture
def projects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects, and the present folder below the first one."""
    monkeypatch.setenv("SWARM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    for name in ("one", "two"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "src").mkdir()
    monkeypatch.chdir(tmp_path / "one" / "src")
    return tmp_path


MOMENTS = count(time.time_ns() // 1_000_000)


def make_run(cwd: Path) -> str:
    run_id = new_uuid7(unix_ms=next(MOMENTS))  # two of one millisecond are in no order
    run_paths = paths_of_run(find_user_paths(dict(os.environ)), run_id)
    run_paths.folder.mkdir(parents=True)
    about = RunMetadata(
        schema_version=SCHEMA_VERSION, run_id=run_id, title="t", task="-", cwd=str(cwd), pid=1,
        started=1.0, version="0", status="completed",
    )  # fmt: skip
    write_metadata(run_paths, about)
    return run_id


@contextmanager
def alive(run_id: str) -> Iterator[None]:
    run_paths = paths_of_run(find_user_paths(dict(os.environ)), run_id)
    with run_paths.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def chosen(run: str | None = None, *, all_projects: bool = False) -> str:
    return choose_run(RunWanted(run=run, all_projects=all_projects)).folder.name


def test_the_newest_run_of_this_project_is_meant_and_named(
    projects: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(projects / "one")
    ours, theirs = make_run(projects / "one" / "src"), make_run(projects / "two")
    assert chosen() == ours
    assert ours[-8:] in capsys.readouterr().err
    assert chosen(all_projects=True) == theirs
    assert chosen(theirs) == theirs


def test_a_project_without_a_run_names_the_way_to_the_others(projects: Path) -> None:
    make_run(projects / "two")
    with pytest.raises(UsageError, match="--all-projects"):
        chosen()


def test_the_run_that_is_alive_is_steered(projects: Path) -> None:
    first, _newest = make_run(projects / "one"), make_run(projects / "one")
    with pytest.raises(RunNotAlive):
        choose_live_run(RunWanted())
    with alive(first):
        assert choose_live_run(RunWanted()).folder.name == first


def test_several_live_runs_are_listed_where_nobody_can_choose(projects: Path) -> None:
    runs = [make_run(projects / "one") for _ in range(2)]
    with alive(runs[0]), alive(runs[1]), pytest.raises(UsageError) as error:
        choose_live_run(RunWanted())
    assert all(run[-8:] in str(error.value) for run in runs)


def test_a_run_whose_folder_is_gone_still_belongs_to_its_project(projects: Path) -> None:
    run = make_run(projects / "one" / "gone")
    assert chosen() == run


def test_a_folder_outside_of_a_repository_is_a_project_of_its_own(tmp_path: Path) -> None:
    assert project_of(tmp_path) == tmp_path.resolve()


@pytest.mark.parametrize("words", ["show", "log", "result", "hooks log", "watch", "fork"])
def test_every_command_about_one_run_means_the_newest_when_it_gets_none(
    projects: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    make_run(projects / "two")
    ours = make_run(projects / "one")
    run_cli(words.split())  # that some cannot go on with a run that wrote nothing is no matter here
    assert f"swarm: run {ours[-8:]} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("/root/a", None), (None, "/root/a")),
        (("4f21", None), ("4f21", None)),
        (("4f21", "/root"), ("4f21", "/root")),
        ((None, None), (None, None)),
    ],
)
def test_a_single_word_that_is_a_path_is_an_agent(
    given: tuple[str | None, str | None], expected: tuple[str | None, str | None]
) -> None:
    assert split_agent(*given) == expected
