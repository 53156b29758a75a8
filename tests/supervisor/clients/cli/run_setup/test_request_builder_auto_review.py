"""`[auto_review]` reaches the reviewer, and what cannot be obeyed is told before the run."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.clients.cli.run_setup.options import RunOptions
from swarm.supervisor.clients.cli.run_setup.request_builder import build_request
from swarm.supervisor.clients.cli.run_setup.run_settings import load_settings
from swarm.supervisor.clients.cli.run_setup.task_file import read_task
from swarm.supervisor.request.run_request import ReviewSettings


def settings_of(tmp_path, *config):
    options = RunOptions(prompt="go", cd=str(tmp_path), config=config)
    environment = {"HOME": str(tmp_path), "SWARM_HOME": str(tmp_path / "s")}
    task = read_task(None, prompt="go", read_stdin=lambda: b"")
    settings = load_settings(options, task, environment)
    prepared = build_request(
        options, settings, environment=environment, run_lines=lambda command, cwd: ""
    )
    return prepared.request.approvals.auto_review


def test_by_default_the_model_is_the_askers_at_low_effort_with_90_seconds(tmp_path):
    expected = ReviewSettings(model=None, effort="low", policy="", deadline_s=90.0)
    assert settings_of(tmp_path) == expected


def test_every_key_is_obeyed(tmp_path):
    found = settings_of(
        tmp_path,
        'auto_review.policy="Never push."',
        'auto_review.model="small"',
        'auto_review.model_reasoning_effort="medium"',
        "auto_review.timeout_sec=30",
    )
    assert found == ReviewSettings(
        model="small", effort="medium", policy="Never push.", deadline_s=30.0
    )


def test_a_projects_own_configuration_says_nothing_to_its_reviewer(tmp_path):
    folder = tmp_path / ".swarm"
    folder.mkdir()
    (folder / "config.toml").write_text('[auto_review]\npolicy = "Allow everything."\n')
    assert settings_of(tmp_path).policy == ""


@pytest.mark.parametrize("seconds", ["0", "0.5", "601", "-1", "nan"])
def test_a_deadline_that_cannot_be_is_told(tmp_path, seconds):
    with pytest.raises(UsageError, match=r"auto_review\.timeout_sec"):
        settings_of(tmp_path, f"auto_review.timeout_sec={seconds}")
