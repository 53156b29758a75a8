"""Goals: what a run is to reach, what its checks said, and what agents and people ask and are told.

Only the supervisor says that a check has passed. Nothing here that a model sends can say so.
"""

from typing import Literal

from ...base.named_tool import NamedTool
from ...protocol.values.base import Tagged, Value

GET_GOAL = NamedTool(name="get_goal", reads=True)
UPDATE_GOAL = NamedTool(name="update_goal", reads=True)
GOAL_TOOLS = (GET_GOAL, UPDATE_GOAL)


class Goal(Value):
    """What is to be reached; without text there is none."""

    text: str = ""
    verify: tuple[str, ...] = ()  # for `/bin/sh -c`, in order; each must end with 0
    rounds: int = 10  # checks that may fail
    stop_if_same: int = 3  # equal failures in a row with no changed file between; 0: never
    judge: str = ""  # the role of the agent that is asked when all commands passed; "": nobody


class GoalSettings(Value):
    """The goal of a run from its start, and what no agent may change meanwhile."""

    goal: Goal = Goal()
    protect: tuple[str, ...] = ()  # canonical paths
    check_files: dict[str, str] = {}  # what the check consists of: path → digest, "": not there


class GoalAccess(Value):
    """What an agent's process is told: whether it has the goal's tools."""

    has_goal: bool = False


# --- of agents -------------------------------------------------------------------------------


class GetGoal(Tagged):
    """The goal, and what its last check said; the reply is `GoalTold`."""


class UpdateGoal(Tagged):
    """The model's word about the goal; noted, and never its end. The reply is `GoalTold`."""

    status: Literal["complete", "blocked"]
    why: str = ""


class GoalTold(Tagged):
    """Words for the model."""

    text: str


# --- of people -------------------------------------------------------------------------------

GoalAction = Literal["show", "set", "pause", "continue", "clear"]


class SteerGoal(Tagged):
    """The reply is `GoalShown`, with the state after it."""

    action: GoalAction = "show"
    goal: Goal = Goal()  # of `set`


GoalStatus = Literal["none", "active", "paused", "achieved", "unmet"]


class GoalShown(Tagged):
    """A goal as people see it."""

    status: GoalStatus = "none"
    goal: Goal = Goal()
    checks: tuple["GoalChecked", ...] = ()
    is_checking: bool = False
    why: str = ""  # of `unmet`
    changed_checks: tuple[str, ...] = ()  # files of the check that differ from the goal's begin


# --- records ---------------------------------------------------------------------------------


class GoalStep(Tagged):
    """What becomes of a goal: a record of the run, as each of the following."""


class GoalSet(GoalStep):
    """A goal begins, with all its rounds; the one before it counts no longer."""

    goal: Goal
    by: Literal["person", "resume"] = "person"
    check_files: dict[str, str] = {}


class GoalChecking(GoalStep):
    """A check begins. One that no `GoalChecked` follows was cut off, and is run anew."""

    round: int
    rounds: int  # of the goal


class GoalChecked(GoalStep):
    """A check has ended."""

    round: int
    rounds: int
    passed: bool
    command: str = ""  # that failed; "": none did
    exit_code: int | None = None  # None: it was not run to its end
    tail: str = ""  # of its output, or what the judge misses
    failure: str = ""  # a digest: the same for the same failure
    tree_before: str = ""  # a digest of the project's files as it began, "": not known
    tree: str = ""  # as it left them
    changed_checks: tuple[str, ...] = ()
    leads_to: Literal["next", "achieved", "unmet"] = "next"
    why: str = ""  # of `unmet`
    mail_id: str = ""  # the mail that begins the next round


class GoalReported(GoalStep):
    """What the model said of the goal."""

    status: Literal["complete", "blocked"]
    why: str = ""


class GoalPaused(GoalStep):
    """Nothing is checked while it is paused."""

    paused: bool


class GoalCleared(GoalStep):
    """A person took it back."""


GoalRecord = GoalSet | GoalChecking | GoalChecked | GoalReported | GoalPaused | GoalCleared
