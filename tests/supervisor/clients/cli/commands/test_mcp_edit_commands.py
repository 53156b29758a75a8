"""`swarm mcp add|remove|enable|disable`: what the user's file holds afterwards."""

import tomllib

import pytest

from swarm.supervisor.clients.cli.main import run_cli


@pytest.fixture
def home(tmp_path, monkeypatch):
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("SWARM_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def servers(home):
    return tomllib.loads((home / "config.toml").read_text()).get("mcp_servers", {})


@pytest.mark.parametrize(
    ("words", "table"),
    [
        (["--", "server", "a", "-b"], {"command": "server", "args": ["a", "-b"]}),
        (["--env", "A=1=2", "-e", "B=", "--", "s"], {"command": "s", "env": {"A": "1=2", "B": ""}}),
        (["--url", "http://h/m"], {"url": "http://h/m"}),
        (["http://h/m"], {"url": "http://h/m"}),
        (["--transport", "http", "http://h/m"], {"url": "http://h/m"}),
        (["-t", "stdio", "http://h/m"], {"command": "http://h/m"}),
        (
            ["--url", "http://h/m", "--bearer-token-env-var", "T"],
            {"url": "http://h/m", "bearer_token_env_var": "T"},
        ),
        (["http://h/m", "-H", "X: a:b"], {"url": "http://h/m", "http_headers": {"X": "a:b"}}),
        (["-s", "user", "--network", "--", "s"], {"command": "s", "network": True}),
        (["--env-var", "A", "--", "s"], {"command": "s", "env_vars": ["A"]}),
    ],
)
def test_add_takes_the_words_of_other_agents(home, words, table):
    assert run_cli(["mcp", "add", "x", *words]) == 0
    assert servers(home) == {"x": table}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["x"], "invalid transport"),
        (["x y", "--", "s"], "invalid server name 'x y'"),
        (["x", "--url", "http://h", "--", "s"], "not supported"),
        (["x", "--env", "A", "--", "s"], "write NAME=VALUE"),
        (["x", "-t", "http"], "needs one address"),
        (["x", "-t", "http", "http://h", "more"], "needs one address"),
        (["x", "-H", "A: b", "--", "s"], "not supported for stdio"),
    ],
)
def test_what_is_no_server_is_refused_and_nothing_is_written(home, capsys, words, reason):
    assert run_cli(["mcp", "add", *words]) == 2
    assert reason in capsys.readouterr().err
    assert not (home / "config.toml").exists()


def test_a_server_that_is_replaced_and_a_program_that_is_missing_are_named(home, capsys):
    assert run_cli(["mcp", "add", "x", "-e", "TOKEN=hunter2", "--", "/none/there", "--fast"]) == 0
    assert "there is no program `/none/there` here; install it" in capsys.readouterr().err
    assert run_cli(["mcp", "add", "x", "--", "sh"]) == 0
    err = capsys.readouterr().err
    assert "it replaced the server `x` that was there: /none/there, with args, env" in err
    assert "hunter2" not in err
    assert run_cli(["mcp", "add", "x", "--", "sh"]) == 0
    assert capsys.readouterr().err == ""


def test_others_and_comments_stay_when_one_is_removed(home):
    (home / "config.toml").write_text(
        '# mine\n[mcp_servers.a]\ncommand = "a"\n\n[mcp_servers.b]\ncommand = "b"  # the second\n'
    )
    assert run_cli(["mcp", "remove", "a"]) == 0
    assert servers(home) == {"b": {"command": "b"}}
    assert "# the second" in (home / "config.toml").read_text()
    assert run_cli(["mcp", "remove", "b"]) == 0
    assert servers(home) == {}


def test_a_server_of_a_project_is_switched_in_its_own_file_only(home, capsys, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"docs": {"command": "docs"}}}')
    assert run_cli(["trust", "--yes"]) == 0
    capsys.readouterr()
    assert run_cli(["mcp", "disable", "docs"]) == 2
    assert "not in your own configuration file" in capsys.readouterr().err
    assert run_cli(["mcp", "disable", "absent"]) == 2
    assert "No MCP server named 'absent' found." in capsys.readouterr().err
