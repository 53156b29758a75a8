"""Folders, ids of runs, the lock, and what a person is told when they do not fit."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.supervisor.request.run_request import RunRequest
from swarm.supervisor.request.saved_request import load_request, save_request
from swarm.supervisor.runs.paths import (
    RunPaths,
    close_state_folders,
    find_run,
    find_user_paths,
    make_private_folder,
    paths_of_run,
)
from swarm.supervisor.runs.run_metadata import (
    RunMetadata,
    is_run_alive,
    lock_run,
    network_filesystem_of,
    read_metadata,
    write_metadata,
)

RUN = "01a1fc24-7204-710f-b302-2343189d0946"
OTHER = "01a1fc24-7205-710f-b302-2343189dffff"


def about(run_id=RUN, **changes):
    fields = {
        "schema_version": 1,
        "run_id": run_id,
        "title": "t",
        "task": "-",
        "cwd": "/",
        "pid": 1,
        "started": 1.0,
        "version": "1",
    }
    return RunMetadata(**(fields | changes))


@pytest.fixture
def places(tmp_path):
    return find_user_paths({"SWARM_HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("environment", "state"),
    [
        ({"SWARM_HOME": "/h"}, "/h/state"),
        ({"HOME": "/u"}, "/u/.local/state/swarm"),
        ({"HOME": "/u", "XDG_STATE_HOME": "/s"}, "/s/swarm"),
        ({"HOME": "/u", "XDG_STATE_HOME": "relative"}, "/u/.local/state/swarm"),
    ],
)
def test_the_state_folder_follows_the_environment(environment, state):
    assert str(find_user_paths(environment).state) == state


def test_a_run_is_found_by_head_tail_or_as_the_newest(places):
    for run in (RUN, OTHER):
        folder = places.runs / run
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    assert find_run(places, None) == OTHER
    assert find_run(places, "189d0946") == RUN
    assert find_run(places, RUN) == RUN
    with pytest.raises(UsageError, match="fits 2 runs"):
        find_run(places, "01a1fc24")
    with pytest.raises(UsageError, match="swarm ps"):
        find_run(places, "zzz")


def test_without_runs_a_person_learns_how_to_start_one(places):
    with pytest.raises(UsageError, match="swarm run"):
        find_run(places, None)


def test_a_second_holder_of_a_run_is_refused_and_the_first_is_named(places):
    here = paths_of_run(places, RUN)
    with lock_run(here):
        assert is_run_alive(here)
        with pytest.raises(UsageError, match=f"process {os.getpid()}"), lock_run(here):
            pass
    assert not is_run_alive(here)
    with lock_run(here):
        pass


def test_a_run_of_another_version_is_refused_by_number(places):
    here = paths_of_run(places, RUN)
    make_private_folder(here.folder)
    write_metadata(here, about(schema_version=0))
    with pytest.raises(UsageError, match="schema 0"):
        read_metadata(here)


def test_what_is_no_run_is_said_so(places):
    here = paths_of_run(places, RUN)
    with pytest.raises(UsageError, match="not a run"):
        read_metadata(here)
    make_private_folder(here.folder)
    here.metadata.write_text("nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        read_metadata(here)


def test_a_saved_request_holds_no_secret(places):
    here = paths_of_run(places, RUN)
    make_private_folder(here.folder)
    request = RunRequest(cwd="/", prompt="p", keys={"K": "s3cret"}, environment={"E": "env3"})
    save_request(here, request)
    saved = (here.folder / "request.json").read_text()
    assert "s3cret" not in saved
    assert "env3" not in saved
    assert load_request(here).prompt == "p"


def test_a_folder_open_to_others_is_closed(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir(mode=0o755)
    make_private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_is_shared_with_others_is_refused_and_keeps_its_mode(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(SwarmError, match="shared with others"):
        make_private_folder(shared)
    assert shared.stat().st_mode & 0o7777 == 0o1777


def test_a_link_in_place_of_a_private_folder_is_refused(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SwarmError, match="someone else"):
        make_private_folder(tmp_path / "link")


def test_a_folder_that_cannot_be_made_names_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SwarmError, match="SWARM_HOME"):
        make_private_folder(tmp_path / "file" / "run")


def test_a_local_folder_is_not_taken_for_a_network_disk(tmp_path):
    assert network_filesystem_of(tmp_path) is None


@pytest.mark.parametrize("variables", [{}, {"SWARM_HOME": "/h"}, {"XDG_CONFIG_HOME": "/c"}])
def test_the_machines_own_folder_is_read_first_whatever_the_environment_says(variables):
    assert find_user_paths(variables).system[0] == Path("/etc/swarm")


def test_only_folders_of_swarm_itself_are_closed_to_others(tmp_path):
    user = find_user_paths({"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    own, foreign = user.runs, tmp_path / "work/swarm/runs"  # by its name it could be swarm's
    of_own, of_foreign = (
        paths_of_run(user, "01900000-0000-7000-8000-000000000000"),
        RunPaths(folder=foreign / "r", sockets=tmp_path / "s"),
    )
    for folder, paths in ((own, of_own), (foreign, of_foreign)):
        folder.mkdir(parents=True)
        for one in (folder, folder.parent):
            one.chmod(0o777)
        close_state_folders(paths)
    assert [one.stat().st_mode & 0o777 for one in (own, own.parent)] == [0o700, 0o700]
    assert [one.stat().st_mode & 0o777 for one in (foreign, foreign.parent)] == [0o777, 0o777]
    own.parent.chmod(0o1777)  # shared, as /tmp is
    close_state_folders(of_own)
    assert own.parent.stat().st_mode & 0o7777 == 0o1777
