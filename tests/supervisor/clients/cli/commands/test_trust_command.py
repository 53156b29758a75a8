"""`swarm trust` and `swarm config` in a project, as a person or a script types them."""

import json
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import make_rules
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    WorkspaceWrite,
)
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.project_config import project_layers, read_project_folders
from swarm.roles.role_loader import load_roles
from swarm.supervisor.clients.cli.main import run_cli
from swarm.supervisor.clients.cli.run_setup.config_layers import writable_config_warning
from swarm.supervisor.clients.cli.run_setup.trust_summary import describe_projects


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("SWARM_HOME", str(folder))
    return folder


@pytest.fixture
def repo(home, tmp_path, monkeypatch):
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / ".swarm").mkdir()
    (folder / ".swarm" / "config.toml").write_text('model = "team"\napproval_policy = "never"\n')
    monkeypatch.chdir(folder)
    return folder


def effective(capfd, key, *words):
    capfd.readouterr()
    run_cli(["config", "list", "--json", *words])
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    return next(row for row in rows if row["key"] == key)


def test_a_project_counts_after_the_person_trusted_it_and_until_it_changes(repo, home, capfd):
    assert effective(capfd, "model")["value"] is None
    assert run_cli(["trust", "--yes"]) == 0
    said = capfd.readouterr().out
    assert '! approval_policy = "never"   <- nothing is ever asked' in said
    assert "trusted: 1 file in 1 folder" in said
    file = str(repo / ".swarm" / "config.toml")
    assert effective(capfd, "model") == {
        "key": "model", "value": "team", "origin": f"project ({file})",
        "layer": "project", "file": file, "line": 1,
    }  # fmt: skip
    assert stat.S_IMODE((home / "trusted.json").stat().st_mode) == 0o600
    with (repo / ".swarm" / "config.toml").open("a") as config:
        config.write("# more\n")
    assert effective(capfd, "model")["value"] is None


def test_trust_is_taken_back(repo, capfd):
    run_cli(["trust", "--yes"])
    assert run_cli(["trust", "--list"]) == 0
    assert str(repo) in capfd.readouterr().out
    assert run_cli(["trust", str(repo), "--revoke"]) == 0
    assert capfd.readouterr().out == f"forgotten: {repo}\n"
    assert effective(capfd, "model")["value"] is None
    assert run_cli(["trust", "--revoke"]) == 0
    assert "nothing was said about it" in capfd.readouterr().err


def test_without_a_terminal_nobody_is_asked_and_nothing_is_trusted(repo, home, capfd):
    assert run_cli(["trust"]) == 2
    assert "nobody can be asked here" in capfd.readouterr().err
    assert not (home / "trusted.json").exists()


def test_what_there_is_nothing_of_is_said(home, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run_cli(["trust", "--yes"]) == 0
    assert "nothing to trust" in capfd.readouterr().err


def test_what_cannot_be_read_cannot_be_trusted(repo, capfd):
    (repo / ".swarm" / "config.toml").unlink()
    os.mkfifo(repo / ".swarm" / "config.toml")
    assert run_cli(["trust", "--yes"]) == 2
    assert "cannot be trusted" in capfd.readouterr().err


def test_options_that_exclude_each_other_are_refused(repo, capfd):
    assert run_cli(["trust", "--yes", "--revoke"]) == 2
    assert "give one of" in capfd.readouterr().err


def test_a_configuration_that_marks_the_project_untrusted_wins_over_a_yes(repo, home, capfd):
    run_cli(["trust", "--yes"])
    (home / "config.toml").write_text(f'[projects."{repo}"]\ntrust_level = "untrusted"\n')
    assert effective(capfd, "model")["value"] is None
    run_cli(["config", "layers"])
    assert "marks the project as untrusted" in capfd.readouterr().out


def test_a_broken_file_stops_a_run_but_neither_config_nor_doctor(repo, home, capfd):
    (home / "config.toml").write_text('model = "mine"\nsandbox_mode = \n')
    where = f"{home}/config.toml, line 2, column 16: not valid TOML"
    assert run_cli(["run", "-p", "x"]) == 2
    assert where in capfd.readouterr().err
    for words in (["config", "list"], ["config", "get", "sandbox_mode"], ["config", "layers"]):
        assert run_cli(words) == 2
        said = capfd.readouterr()
        assert where in said.err
        assert said.out
    assert run_cli(["doctor", "--json"]) == 1
    checks = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    (found,) = [c for c in checks if c["name"] == "configuration" and c["state"] == "fail"]
    assert where in found["detail"]


def test_a_value_that_cannot_be_is_left_out_of_what_config_shows(home, capfd, tmp_path):
    (home / "config.toml").write_text('model = "mine"\nsandbox_mode = "none"\n')
    assert effective(capfd, "model")["value"] is None
    assert effective(capfd, "sandbox_mode")["value"] == "workspace-write"


def test_an_override_without_a_value_is_refused_everywhere(home, capfd):
    for words in (["config", "list"], ["run", "-p", "x"]):
        assert run_cli([*words, "-c", "foo"]) == 2
        assert "Invalid override (missing '='): foo" in capfd.readouterr().err


def test_a_profile_is_shown_with_its_file(home, capfd):
    (home / "fast.config.toml").write_text("\n\nmodel = 'small'\n")
    row = effective(capfd, "model", "--profile", "fast")
    assert (row["layer"], row["file"], row["line"]) == ("profile", f"{home}/fast.config.toml", 3)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda home: home.chmod(0o777), "everybody may write in"),
        (lambda home: (home.rename(home.with_name("real")),
                       home.symlink_to(home.with_name("real"))), "is a symbolic link to"),
    ],
)  # fmt: skip
def test_a_folder_that_others_can_steer_is_warned_of(home, capfd, prepare, words):
    (home / "config.toml").write_text("model = 'm'\n")
    prepare(home)
    assert run_cli(["config", "list"]) == 0
    assert words in capfd.readouterr().err


@pytest.mark.parametrize(
    ("sandbox", "cwd", "told"),
    [
        (WorkspaceWrite(), "{}", True),
        (WorkspaceWrite(), "{}/home", True),
        (WorkspaceWrite(), "{}/link", True),
        (WorkspaceWrite(), "{}/home/inner", False),
        (WorkspaceWrite(), "{}/work", False),
        (WorkspaceWrite(writable_roots=("/x", "{}")), "{}/work", True),
        (ReadOnly(), "{}", False),
        (DangerFullAccess(), "{}/work", True),
        (("", "write"), "{}/work", True),
        (("/home/rules", "write"), "{}/work", True),
        (("", "read"), "{}", False),
    ],
)
def test_agents_that_may_write_the_persons_own_configuration_are_told_of(
    tmp_path, sandbox, cwd, told
):
    (tmp_path / "link").symlink_to(tmp_path)
    if isinstance(sandbox, WorkspaceWrite):
        roots = tuple(root.format(tmp_path) for root in sandbox.writable_roots)
        sandbox = WorkspaceWrite(writable_roots=roots)
    if isinstance(sandbox, tuple):  # a profile with this one rule
        below, access = sandbox
        sandbox = ProfilePolicy(name="p", rules=make_rules([(f"{tmp_path}{below}", access)]))
    said = writable_config_warning(str(tmp_path / "home"), sandbox, cwd.format(tmp_path))
    assert (said is not None) is told


HOSTILE = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=80).map(str.encode),
    st.sampled_from(
        [
            b"[agents]\nx = 3\n", b"agents = 3", b"[agents.x]\nconfig_file = '/dev/zero'",
            b'model_instructions_file = "\\u0000"', b"x = [[[[[", b"[projects]\n'/' = 1",
            b"[agents.x]\nconfig_file = 'config.toml'", b"model_instructions_file = 'config.toml'",
            b"network = { domains = 1 }", b"a.b.c = 1\na.b = 2", b"d = 2026-02-31",
        ]
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(config=HOSTILE, role=HOSTILE, rules=HOSTILE)
def test_whatever_a_project_holds_it_is_described_and_read_or_refused(config, role, rules):
    with tempfile.TemporaryDirectory() as name:
        inner = Path(name, ".swarm")
        for path, data in (
            ("config.toml", config),
            ("agents/x.toml", role),
            ("rules/x.rules", rules),
        ):
            (inner / path).parent.mkdir(parents=True, exist_ok=True)
            (inner / path).write_bytes(data)
        found = read_project_folders(Path(name), [], config_folder=Path(name, "none"))
        assert all("\x1b" not in line for line in describe_projects(found))
        layers = project_layers(
            Path(name), {}, config_folder=Path(name, "none"), decide=lambda all_: [""] * len(all_)
        )
        with suppress(UsageError):
            load_config(layers)
        load_config(layers, lenient=True)
        load_roles(layers)


def test_what_is_dangerous_is_shown_first_however_long_the_file_is(tmp_path):
    filler = "\n".join(f"x{number} = 1" for number in range(500))
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.toml").write_text(
        f'{filler}\nsandbox_mode = "danger-full-access"\n'
    )
    lines = describe_projects(read_project_folders(tmp_path, [], config_folder=tmp_path / "none"))
    assert lines[2].strip() == (
        '! sandbox_mode = "danger-full-access"   <- commands run WITHOUT a sandbox'
    )
    assert [line.strip() for line in lines[3:]] == filler.splitlines(), "all of it is shown"


def test_servers_and_hooks_are_shown_with_the_programs_that_they_start(tmp_path):
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.toml").write_text('[mcp_servers.docs]\ncommand = "run-me"\n')
    (tmp_path / ".swarm" / "check.sh").write_text("echo checked\n")
    (tmp_path / ".swarm" / "hooks.json").write_text(
        '{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"command": "sh .swarm/check.sh", '
        '"network": true}]}], "SessionEnd": []}}'
    )
    lines = describe_projects(read_project_folders(tmp_path, [], config_folder=tmp_path / "none"))
    assert [line.strip() for line in lines if "!" in line] == [
        '! mcp_servers.docs.command = "run-me"   <- names programs that are started, '
        "in the sandbox, with these rights",
        "! hook, PreToolUse Bash, WITH network, can only deny, runs: sh .swarm/check.sh",
    ]


def test_a_project_cannot_draw_on_the_terminal(tmp_path):
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.toml").write_text(
        'model = "a\\u001b[2J\\u0007b"\n"\\u001b[1m"=1\n'
    )
    (tmp_path / ".swarm" / "hooks.json").write_text("\x1b[2J{}")
    text = "\n".join(
        describe_projects(read_project_folders(tmp_path, [], config_folder=tmp_path / "none"))
    )
    assert "\x1b" not in text
    assert "\x07" not in text


def test_a_book_that_cannot_be_read_is_named_and_not_replaced(repo, home, capfd):
    (home / "trusted.json").write_text("{")
    os.chmod(home / "trusted.json", 0o600)
    assert run_cli(["trust", "--yes"]) == 1
    assert "delete it and trust again" in capfd.readouterr().err
    assert (home / "trusted.json").read_text() == "{"
