"""`swarm config set|unset|version|schema` as a person types them."""

import json
import subprocess
import sys
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


def test_a_key_is_set_read_and_unset(home, capsys):
    assert run_cli(["config", "set", "agents.max_depth", "2"]) == 0
    assert run_cli(["config", "get", "agents.max_depth", "--json"]) == 0
    assert capsys.readouterr().out == "2\n"
    assert run_cli(["config", "unset", "agents.max_depth"]) == 0
    assert "agents.max_depth unset in " in capsys.readouterr().err
    assert run_cli(["config", "unset", "agents.max_depth"]) == 0
    assert "agents.max_depth was not set in " in capsys.readouterr().err
    assert tomllib.loads((home / "config.toml").read_text()) == {"agents": {}}


@pytest.mark.parametrize("key", ["tui.theme", "history", "mcp_oauth_callback_url"])
def test_a_key_that_nothing_obeys_is_set_and_named_so(home, capsys, key):
    assert run_cli(["config", "set", key, "x"]) == 0
    assert "a key of Codex that has no effect here" in capsys.readouterr().err
    assert run_cli(["config", "set", "model", "x"]) == 0
    assert "no effect" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "idle"),
    [
        ("history", '{persistence = "none"}', True),
        ("agents", "{interrupt_message = false}", True),
        ("agents", "{interrupt_message = false, max_depth = 2}", False),
        ("agents.max_total", "5", False),
        ("network.proxy_url", '"http://x"', True),
        ("network", "{enabled = true}", False),
    ],
)
def test_only_an_edit_without_any_effect_is_called_so(home, capsys, key, value, idle):
    (home / "config.toml").write_text(
        "[agents]\ninterrupt_message = true\n[network]\nproxy_url = 'x'\n"
    )
    assert run_cli(["config", "set", key, value, "--merge", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["idle"] is idle


def test_a_number_of_thousands_of_digits_is_text_and_a_file_with_one_is_named(home, capsys):
    huge = "9" * 5000
    assert run_cli(["config", "set", "model", huge]) == 0
    assert tomllib.loads((home / "config.toml").read_text()) == {"model": huge}
    (home / "config.toml").write_text(f"model_context_window = {huge}\n")
    assert run_cli(["config", "set", "model", "m"]) == 2
    assert run_cli(["config", "version"]) == 2
    assert capsys.readouterr().err.count("config.toml: not valid TOML: Exceeds the limit") == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["set", "modl", "x"], "no such key: modl; did you mean model?"),
        (
            ["set", "sandbox_mode", "bogus"],
            "sandbox_mode: 'bogus' is not known; there are danger-full-access, read-only",
        ),
        (["set", "agents.max_depth", "deep"], "must be a whole number"),
        (["set", "model", "3"], "model: must be a text"),
        (["set", "profile", "x"], "no such key: profile"),
        (["set", "model_providers.openai.name", "x"], "cannot be redefined"),
        (["set", "", "x"], "must not be empty"),
        (["set", "a..b", "x"], "is not a key"),
        (["unset", "a..b"], "is not a key"),
    ],
)
def test_what_could_not_be_loaded_is_not_written(home, capsys, words, said):
    (home / "config.toml").write_text("model = 'a' # mine\n")
    assert run_cli(["config", *words]) == 2
    assert said in capsys.readouterr().err
    assert (home / "config.toml").read_text() == "model = 'a' # mine\n"


def test_a_file_with_a_mistake_can_be_mended_and_is_not_edited_otherwise(home, capsys):
    (home / "config.toml").write_text("model = 3\n")
    assert run_cli(["config", "set", "agents.max_depth", "2"]) == 2
    assert "config.toml, line 1, model: must be a text" in capsys.readouterr().err
    assert run_cli(["config", "set", "model", "m"]) == 0
    assert (home / "config.toml").read_text() == 'model = "m"\n'


def test_only_over_what_was_read(home, capsys):
    assert run_cli(["config", "version"]) == 0
    version = capsys.readouterr().out.strip()
    words = ["config", "set", "model", "m", "--if-version", version, "--json"]
    assert run_cli(words) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["status"] == "ok"
    assert outcome["file"] == str(home / "config.toml")
    assert run_cli(words) == 1
    assert "modified since it was read" in capsys.readouterr().err
    assert run_cli(["config", "version"]) == 0
    assert capsys.readouterr().out.strip() == outcome["version"]


def test_tables_are_merged_on_request(home):
    (home / "config.toml").write_text("[budget]\ntokens = 5 # few\n")
    assert run_cli(["config", "set", "budget", "{requests = 3}", "--merge"]) == 0
    assert (home / "config.toml").read_text() == "[budget]\ntokens = 5 # few\nrequests = 3\n"
    assert run_cli(["config", "set", "budget", "{requests = 4}"]) == 0
    assert tomllib.loads((home / "config.toml").read_text()) == {"budget": {"requests": 4}}


def test_two_writers_lose_nothing(home):
    program = "import sys; from swarm.supervisor.clients.cli.entry import main; main()"

    def start(key):
        words = [sys.executable, "-P", "-c", program, "config", "set", key, "7"]
        return subprocess.Popen(words, stderr=subprocess.DEVNULL)

    keys = ["agents.max_depth", "agents.max_total", "budget.tokens", "budget.requests"]
    assert [child.wait(timeout=60) for child in [start(key) for key in keys]] == [0] * 4
    written = tomllib.loads((home / "config.toml").read_text())
    assert written == {
        "agents": {"max_depth": 7, "max_total": 7}, "budget": {"tokens": 7, "requests": 7},
    }  # fmt: skip
    assert [path.name for path in home.iterdir()] == ["config.toml"]


def test_the_schema_is_printed_as_it_is_shipped(home, capsys):
    assert run_cli(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "swarm's config.toml"
