"""Start-up files add to the run's own environment and take nothing away from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.roles.base.login_shell import find_shell, join_environments, shell_name

FOLDERS = st.sampled_from(["/a", "/b", "/c", "", ".", "bin", "/venv/bin"])
PATHS = st.lists(FOLDERS, max_size=6).map(":".join)


@pytest.mark.parametrize(
    ("own", "login", "path"),
    [
        ("/venv/bin:/usr/bin", "/usr/bin:/bin", "/venv/bin:/usr/bin:/bin"),
        ("/b:/a", "/a:/b:/c", "/b:/a:/c"),
        ("/a", "/b::./x:.:bin:/b", "/a:/b"),
        ("", "/usr/bin:/bin", "/usr/bin:/bin"),
        ("/a:.:/b", "", "/a:.:/b"),
        ("/a", "/a", "/a"),
    ],
)
def test_the_runs_own_folders_come_first_and_only_absolute_ones_are_added(own, login, path):
    assert join_environments({"PATH": own}, {"PATH": login})["PATH"] == path


@given(PATHS, PATHS)
def test_the_runs_own_path_stands_unchanged_before_what_is_added(own, login):
    joined = join_environments({"PATH": own}, {"PATH": login})["PATH"]
    assert joined.startswith(own)
    added = joined[len(own) :].split(":")
    assert all(not one or one.startswith("/") for one in added)
    assert ("" in added[1:]) is False


def test_a_value_of_the_run_itself_wins_over_a_start_up_files():
    own = {"VIRTUAL_ENV": "/venv", "CARGO_HOME": "/c", "NVM_BIN": "/n", "PATH": "/venv/bin"}
    login = {"CARGO_HOME": "/other", "NVM_BIN": "/other", "FROM_PROFILE": "1", "PATH": "/usr/bin"}
    assert join_environments(own, login) == {
        **own, "FROM_PROFILE": "1", "PATH": "/venv/bin:/usr/bin",
    }  # fmt: skip


def test_without_any_path_none_is_made_up():
    assert join_environments({"A": "1"}, {}) == {"A": "1"}


def test_a_model_is_told_the_name_of_the_shell_that_runs():
    assert shell_name(find_shell({"SHELL": "/bin/sh"})) == "sh"
    assert shell_name(find_shell({"SHELL": "/nonexistent/fish"})) in ("bash", "sh")
