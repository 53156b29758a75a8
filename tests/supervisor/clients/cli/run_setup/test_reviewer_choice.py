"""Who answers a run: said, or found out from where it was started."""

import pytest

from swarm.roles.config.schema import Config
from swarm.supervisor.clients.cli.run_setup.reviewer_choice import (
    choose_reviewer,
    find_answer_location,
)


@pytest.mark.parametrize(
    ("said", "at", "reviewer", "warned"),
    [
        (None, "terminal", "person", False),
        (None, "elsewhere", "guardian", False),
        (None, "nowhere", "guardian", False),
        ("user", "terminal", "person", False),
        ("user", "elsewhere", "person", False),
        ("user", "nowhere", "nobody", True),
        ("auto_review", "terminal", "guardian", False),
        ("guardian_subagent", "nowhere", "guardian", False),
        ("nobody", "terminal", "nobody", False),
    ],
)
def test_the_reviewer_is_who_can_answer(said, at, reviewer, warned):
    warnings: list[str] = []
    assert choose_reviewer(Config(approvals_reviewer=said), warnings, at=at) == reviewer
    assert bool(warnings) == warned


def test_a_reviewer_that_would_never_be_asked_is_said():
    warnings: list[str] = []
    config = Config(approvals_reviewer="auto_review", approval_policy="untrusted")
    assert choose_reviewer(config, warnings, at="terminal") == "guardian"
    assert "--reviewer person" in warnings[0]


def test_ci_has_no_person_also_on_a_terminal():
    assert find_answer_location({"CI": "true"}, on_terminal=True) == "nowhere"
    assert find_answer_location({"CI": "0"}, on_terminal=True) == "terminal"
    assert find_answer_location({}, on_terminal=False) == "elsewhere"
