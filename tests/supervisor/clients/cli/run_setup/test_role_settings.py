"""A run's configuration and its roles choose tools, prompt and sampling together."""

import pytest

from swarm.mailbox.protocol.settings import SamplingSettings, ToolChoice
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.request_builder import build_request
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import parse_task

SCRIBE = """
name = "scribe"
description = "writes"
developer_instructions = "Write."
temperature = 0.9
tools = ["exec_command", "apply_patch"]
model_context_window = 50000
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "agents").mkdir(parents=True)
    (home / "agents" / "scribe.toml").write_text(SCRIBE)
    monkeypatch.chdir(tmp_path)

    def make(file="", **options):
        (home / "config.toml").write_text(file)
        task = parse_task("The task.", name="t.md", task="t.md")
        chosen = RunOptions(**options)
        everything = {"SWARM_HOME": str(home), "PATH": "/bin"}
        settings = load_settings(chosen, task, everything)
        prepared = build_request(chosen, settings, environment=everything, run_lines=lambda *_: "")
        return prepared.request

    return make


def test_the_configuration_holds_for_the_root_and_for_roles_that_say_nothing(build):
    request = build("temperature = 0.3\nprompt = 'short'\ntools.exclude = ['list_dir']")
    assert request.role.sampling == SamplingSettings(temperature=0.3)
    assert request.role.prompt == "short"
    assert request.role.tools == ToolChoice(exclude=("list_dir",))
    assert request.roles.known["worker"].sampling == SamplingSettings(temperature=0.3)
    assert request.roles.known["scribe"].sampling == SamplingSettings(temperature=0.9)


def test_the_roots_role_beats_the_configuration_and_a_word_of_the_run_beats_both(build):
    assert build("temperature = 0.3", role="scribe").role.sampling.temperature == 0.9
    words = build("temperature = 0.3", role="scribe", config=("temperature=0.1",))
    assert words.role.sampling.temperature == 0.1
    assert words.roles.known["scribe"].sampling.temperature == 0.9
    assert words.roles.known["worker"].sampling.temperature == 0.1


def test_the_roots_role_is_no_default_of_other_roles(build):
    request = build(role="scribe")
    assert request.roles.known["worker"].sampling == SamplingSettings()
    assert request.role.context.window_tokens == 50_000
    assert request.inherited.context.window_tokens is None


def test_no_word_of_a_run_gives_back_what_a_role_takes_away(build):
    request = build(role="scribe", config=("tools=['list_dir', 'apply_patch']",))
    assert request.role.tools.only == ("apply_patch",)
