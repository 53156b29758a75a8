"""One check of a goal: its commands, then its judge, and what they did to the project's files."""

import os
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import trio

from swarm.mailbox.base.ids import ROOT_PATH

from ....part_access.part_host import PartHost, PartTeam
from ..check_command import CheckOutcome, run_commands
from ..check_words import is_part_of_check, patterns_for
from ..goal_state import GoalState
from ..project_files import ProjectFiles, changed_files, look_at_project
from .check_place import CheckImpossible, OpenPlace, open_place
from .goal_judge import GoalJudge


class Checked(NamedTuple):
    """What a check found; `before` and `after` are digests of all files, "": not known."""

    outcome: CheckOutcome
    before: str
    after: str
    changed_checks: tuple[str, ...]


class GoalCheck:
    """Carries out checks. Cancelled: nothing of one is left running."""

    def __init__(self, host: PartHost, team: PartTeam, nursery: trio.Nursery) -> None:
        self._host = host
        self._team = team
        self._judge = GoalJudge(host, team, nursery)

    async def look(self, commands: tuple[str, ...]) -> ProjectFiles:
        """The project's files now."""
        request = self._host.request
        look = partial(
            look_at_project,
            request.cwd,
            commands,
            request.parts.goals.protect,
            search=request.environment.get("PATH", ""),
        )
        return await trio.to_thread.run_sync(look, abandon_on_cancel=True)

    async def run(self, state: GoalState, answer: str) -> Checked:
        """`answer`: what the root said last."""
        commands = state.goal.verify
        before = await self.look(commands)
        try:
            async with open_place(self._host, self._team.spawner.hidden_paths) as found:
                outcome = await run_commands(found.place, commands)
        except CheckImpossible as error:
            found, outcome = None, CheckOutcome(passed=False, tail=str(error))
        if outcome.passed and state.goal.judge:
            outcome = await self._judge.ask(state.goal, answer, state.round)
        after = await self.look(commands)
        unmerged = "" if found is None else found.unmerged
        changed = {
            *changed_files(state.check_files, before.checks),
            *changed_files(state.check_files, after.checks),
            *self._changed_in_copies(found, state),
        }
        return Checked(
            outcome=outcome,
            before=f"{before.tree} {unmerged}" if before.tree else "",
            after=f"{after.tree} {unmerged}" if after.tree else "",
            changed_checks=tuple(sorted(changed)),
        )

    def _changed_in_copies(self, found: OpenPlace | None, state: GoalState) -> Iterable[str]:
        """Files of the check that agents in copies have changed."""
        if found is None or not found.changed:
            return
        root = os.path.realpath(self._host.request.cwd)
        patterns = patterns_for(state.goal.verify)
        for path in found.changed:
            name = os.path.relpath(path, root)
            if name in state.check_files or is_part_of_check(path.rpartition("/")[2], patterns):
                yield name

    @property
    def root_answer(self) -> str:
        """What the root said last."""
        root = self._host.agents.find(ROOT_PATH)
        return "" if root is None or root.outcome is None else root.outcome.message
