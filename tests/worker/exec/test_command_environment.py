"""A command's environment: the sheet's table with our default, and what never passes."""

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.proxy_environment import without_proxy_variables
from swarm.mailbox.protocol.spec import ShellEnvironmentPolicy
from swarm.worker.exec.command_plan import FORCED_VARIABLES, command_environment
from swarm.worker.exec.unattended_variables import (
    FOR_A_PERSON,
    UNATTENDED_VARIABLES,
    keep_unattended,
)

P = ShellEnvironmentPolicy


def names(*wanted):
    return {name: f"value of {name}" for name in wanted}


@pytest.mark.parametrize(
    ("base", "policy", "left"),
    [
        (names("PATH", "API_KEY"), P(), {"PATH"}),
        (names("PATH", "API_KEY"), P(ignore_default_excludes=True), {"PATH", "API_KEY"}),
        (names("PATH", "my_secret_2", "GitHub_Token", "MONKEY"), P(), {"PATH"}),
        (names("PATH", "MY_VAR", "HOME"), P(inherit="core"), {"PATH", "HOME"}),
        (names("PATH", "FOO_BAR"), P(exclude=("foo_*",)), {"PATH"}),
        (names("PATH", "FOO1", "FOO22"), P(exclude=("FOO?",)), {"PATH", "FOO22"}),
        (names("PATH"), P(inherit="none", set={"A": "1"}), {"A"}),
        (names("PATH", "HOME"), P(include_only=("PATH",), set={"A": "1"}), {"PATH"}),
        (names("A"), P(exclude=("B",), set={"B": "1"}), {"A", "B"}),
        (names("A.B", "AxB"), P(exclude=("A.B",)), {"AxB"}),
        (names("PATH"), P(inherit="everything"), set()),
    ],
)
def test_the_policy_table(base, policy, left):
    assert set(command_environment(base, policy, {})) == left


@pytest.mark.parametrize(
    "name",
    ["LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "SHELLOPTS",
     "BASH_FUNC_ls%%", "PROMPT_COMMAND", "PS4", "GCONV_PATH"],
)  # fmt: skip
def test_what_runs_code_before_the_command_is_not_inherited(name):
    assert command_environment(names(name, "PATH"), P(), {}).keys() == {"PATH"}
    assert name not in command_environment(names(name), P(ignore_default_excludes=True), {})


def test_a_person_may_still_write_such_a_name_out():
    found = command_environment({}, P(set={"LD_PRELOAD": "/opt/jemalloc.so"}), {})
    assert found == {"LD_PRELOAD": "/opt/jemalloc.so"}


def test_library_folders_stay():
    assert "LD_LIBRARY_PATH" in command_environment(names("LD_LIBRARY_PATH"), P(), {})


def test_our_marks_survive_every_rule():
    policy = P(inherit="none", include_only=("NOTHING",), set={"TERM": "xterm"})
    marks = {**FORCED_VARIABLES, "SWARM_THREAD_ID": "a"}
    assert command_environment(names("PATH"), policy, marks) == marks


def test_proxies_leave_with_the_network():
    assert without_proxy_variables(
        names("https_proxy", "HTTP_PROXY", "no_proxy", "PATH")
    ).keys() == {"PATH"}


@pytest.mark.parametrize("name", [*UNATTENDED_VARIABLES, *sorted(FOR_A_PERSON)])
def test_no_editor_and_no_pager_of_a_person_is_inherited(name):
    found = command_environment({name: "vim", "PATH": "/bin"}, P(), FORCED_VARIABLES)
    assert found.get(name) == FORCED_VARIABLES.get(name)
    assert "vim" not in found.values()


def test_a_person_may_name_one_for_commands():
    assert command_environment({}, P(set={"KUBE_EDITOR": "sed"}), {}) == {"KUBE_EDITOR": "sed"}


@pytest.mark.parametrize(
    ("argv", "is_changed"),
    [
        (("/bin/bash", "-c", "ls"), False),
        (("/bin/bash", "-lc", "ls"), True),
        (("/usr/bin/zsh", "-c", "ls"), True),
        (("zsh", "-lc", "ls"), True),
        (("/bin/bash", "-c"), False),
        (("git", "-c", "a=b", "log"), False),
        ((), False),
    ],
)
def test_after_start_up_files_of_a_shell_the_variables_are_set_once_more(argv, is_changed):
    kept = keep_unattended(argv)
    assert (kept != argv) is is_changed
    if is_changed:
        assert kept[:2] == argv[:2]
        assert kept[2].endswith("; ls")


@pytest.mark.parametrize("shell", ["bash", "sh", "zsh"])
@pytest.mark.parametrize("script", ["echo $GIT_EDITOR$EDITOR", "cat <<X\n$GIT_EDITOR$EDITOR\nX"])
def test_a_start_up_file_that_names_an_editor_does_not_count(tmp_path, shell, script):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    for name in (".profile", ".zshenv"):
        (tmp_path / name).write_text("export GIT_EDITOR=vim EDITOR=vim\n")
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = subprocess.check_output(
        keep_unattended((program, "-lc", script)), env=environment, text=True
    )
    assert said == ":true\n"


@given(
    base=st.dictionaries(st.text(max_size=12), st.text(max_size=12), max_size=8),
    patterns=st.lists(st.text(max_size=8), max_size=4),
)
def test_any_policy_gives_something_that_exec_accepts(base, patterns):
    found = command_environment(base, P(exclude=tuple(patterns), set=base), {})
    for name, value in found.items():
        assert name
        assert "=" not in name
        assert "\0" not in name + value
