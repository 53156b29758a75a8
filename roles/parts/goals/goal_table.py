"""A goal as a task file or a command line gives it, and its check. No I/O."""

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.parts.goals.goal_messages import Goal
from swarm.mailbox.protocol.values.base import Value

MAX_ROUNDS = 1_000
_MOST_COMMANDS, _COMMAND_CHARS, _TEXT_CHARS = 32, 8_000, 16_000


class GoalTable(Value, forbid_unknown_fields=True):
    """`goal: {text, verify, rounds, stop_if_same, judge}` of a task file."""

    text: str = ""
    verify: str | tuple[str, ...] = ()
    rounds: int = 10
    stop_if_same: int = 3
    judge: str = ""

    def goal(self, *, task: str) -> Goal:
        """The goal; without a text of its own it is the task's. Not checked yet."""
        verify = (self.verify,) if isinstance(self.verify, str) else self.verify
        return Goal(
            text=self.text.strip() or task.strip()[:_TEXT_CHARS],
            verify=verify,
            rounds=self.rounds,
            stop_if_same=self.stop_if_same,
            judge=self.judge,
        )


def check_goal(goal: Goal) -> Goal:
    """The same goal. Raises UsageError that names the key."""
    if not goal.text:
        raise UsageError("goal.text: say in words what is to be reached")
    if len(goal.text) > _TEXT_CHARS:
        raise UsageError(f"goal.text: more than {_TEXT_CHARS} characters")
    if not goal.verify and not goal.judge:
        raise UsageError(
            'goal: nothing can tell that it is reached; give a command (verify: ["pytest -q"]) or '
            "a judge (judge: explorer)"
        )
    if len(goal.verify) > _MOST_COMMANDS:
        raise UsageError(f"goal.verify: more than {_MOST_COMMANDS} commands")
    for command in goal.verify:
        if not command.strip() or len(command) > _COMMAND_CHARS or "\0" in command:
            raise UsageError(
                f"goal.verify: {command[:80]!r} is no command; write what /bin/sh is to run"
            )
    if not 1 <= goal.rounds <= MAX_ROUNDS:
        raise UsageError(f"goal.rounds: must be from 1 to {MAX_ROUNDS}")
    if not 0 <= goal.stop_if_same <= MAX_ROUNDS:
        raise UsageError(f"goal.stop_if_same: must be from 1 to {MAX_ROUNDS}, or 0 for never")
    return goal
