"""Folders, ids of runs, the lock, and what a person is told when they do not fit."""

import os
from pathlib import Path

import pytest

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.supervisor.about import (
    About,
    hold_run,
    is_alive,
    load_request,
    on_network_disk,
    read_about,
    save_request,
    write_about,
)
from swarm.supervisor.places import find_places, find_run, make_private, run_places
from swarm.supervisor.request import RunRequest

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
    return About(**(fields | changes))


@pytest.fixture
def places(tmp_path):
    return find_places({"SWARM_HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path)})


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
    assert str(find_places(environment).state) == state


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
    here = run_places(places, RUN)
    with hold_run(here):
        assert is_alive(here)
        with pytest.raises(UsageError, match=f"process {os.getpid()}"), hold_run(here):
            pass
    assert not is_alive(here)
    with hold_run(here):
        pass


def test_a_run_of_another_version_is_refused_by_number(places):
    here = run_places(places, RUN)
    make_private(here.folder)
    write_about(here, about(schema_version=0))
    with pytest.raises(UsageError, match="schema 0"):
        read_about(here)


def test_what_is_no_run_is_said_so(places):
    here = run_places(places, RUN)
    with pytest.raises(UsageError, match="not a run"):
        read_about(here)
    make_private(here.folder)
    here.about.write_text("nonsense")
    with pytest.raises(UsageError, match="cannot be read"):
        read_about(here)


def test_a_saved_request_holds_no_secret(places):
    here = run_places(places, RUN)
    make_private(here.folder)
    request = RunRequest(cwd="/", prompt="p", keys={"K": "s3cret"}, environment={"E": "env3"})
    save_request(here, request)
    saved = (here.folder / "request.json").read_text()
    assert "s3cret" not in saved
    assert "env3" not in saved
    assert load_request(here).prompt == "p"


def test_a_folder_open_to_others_is_closed(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir(mode=0o755)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_a_private_folder_is_refused(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SwarmError, match="someone else"):
        make_private(tmp_path / "link")


def test_a_folder_that_cannot_be_made_names_the_way_out(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SwarmError, match="SWARM_HOME"):
        make_private(tmp_path / "file" / "run")


def test_a_local_folder_is_not_taken_for_a_network_disk(tmp_path):
    assert on_network_disk(tmp_path) is None


@pytest.mark.parametrize("variables", [{}, {"SWARM_HOME": "/h"}, {"XDG_CONFIG_HOME": "/c"}])
def test_the_machines_own_folder_is_read_first_whatever_the_environment_says(variables):
    assert find_places(variables).system[0] == Path("/etc/swarm")
