"""A goal without anything that can tell it reached is an error before the run starts."""

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.goals.goal_table import GoalTable, check_goal


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (GoalTable(text="x"), "nothing can tell"),
        (GoalTable(verify="true"), "goal.text"),
        (GoalTable(text="x", verify=" "), "is no command"),
        (GoalTable(text="x", verify=("true", "a\0b")), "is no command"),
        (GoalTable(text="x", verify="true", rounds=0), "goal.rounds"),
        (GoalTable(text="x", verify="true", stop_if_same=-1), "goal.stop_if_same"),
        (GoalTable(text="x", verify=("true",) * 33), "more than 32"),
        (GoalTable(text="x" * 16_001, verify="true"), "more than 16000"),
    ],
)
def test_what_is_wrong_with_a_goal_is_said(table, words):
    with pytest.raises(UsageError, match=words):
        check_goal(table.goal(task=""))


def test_without_a_text_the_task_is_the_goal_and_one_command_needs_no_list():
    goal = check_goal(GoalTable(verify="pytest -q").goal(task="Mend it.\n"))
    assert (goal.text, goal.verify) == ("Mend it.", ("pytest -q",))


def test_a_judge_alone_is_enough():
    assert check_goal(GoalTable(text="x", judge="explorer").goal(task="")).judge == "explorer"
