"""The goal of a live run: checks it whenever all work has ended, and says whether the run goes on.

Whatever is decided is journaled first, in one record for each check: the round that it ends, what
it leads to, and the mail that begins the next one. So a resume after any crash goes on at the same
place: a check that has not ended is run anew, and a mail that was not written is written then.
"""

from functools import partial
from typing import Literal

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.parts.goals.goal_messages import (
    GetGoal,
    Goal,
    GoalChecked,
    GoalChecking,
    GoalCleared,
    GoalPaused,
    GoalRecord,
    GoalReported,
    GoalSet,
    GoalShown,
    GoalTold,
    SteerGoal,
    UpdateGoal,
)
from swarm.mailbox.protocol.control import Refused
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import Mail
from swarm.mailbox.protocol.records import MailPosted, RunCompleted
from swarm.roles.parts.goals.goal_table import check_goal

from ....agents.agent_phases import AgentEvent
from ....agents.agent_record import Agent
from ....base.safe_text import clean_block, clean_line
from ....journal.journal_reader import read_records
from ....part_access.part_host import Fate, PartHost, PartTeam
from ....part_access.work_end import WorkEnd
from ....runs.run_status import ANSWERED
from ..goal_state import GoalCell, GoalState, decide_after_check, describe_changed, summarize
from ..goal_texts import failed_check_text, new_goal_text, told_goal
from .goal_check import Checked, GoalCheck

_AUTHOR = "goal"  # of mail: no path of an agent
_WHY_CHARS = 1_000
_PAUSED = "the goal is paused, so nothing was checked; `swarm goal continue` checks again"
_GOES_ON = "A person wants the goal to be reached after all. It has all its rounds again."
Cut = Literal["", "work", "paused", "ended"]


class GoalService:
    """One per run."""

    def __init__(
        self, host: PartHost, team: PartTeam, goal: GoalCell, nursery: trio.Nursery
    ) -> None:
        self._host = host
        self._team = team
        self._goal = goal
        self._check = GoalCheck(host, team, nursery)
        self._scope: trio.CancelScope | None = None  # of the check that runs
        self._cut: Cut = ""
        self._fate: Fate = "later"
        self._is_resumed = host.request.resumes

    @property
    def state(self) -> GoalState:
        return self._goal.state

    # --- the end of the run's work -------------------------------------------------------------

    async def at_end(self, completed: RunCompleted) -> WorkEnd:
        """Check the goal, if there is one to check; see `PartServices.at_end`."""
        if self.state.status != "active" or not self._is_due(completed):
            return WorkEnd(self._as_it_stands(completed))
        if self._is_resumed and await self._send_lost_mail():
            return WorkEnd(completed, goes_on=True)
        checked = await self._run_check()
        if checked is None:
            return self._after_cut(completed)
        if self._settle(checked) == "next":
            return WorkEnd(completed, goes_on=True)
        return WorkEnd(self._as_it_stands(completed), has_worked=True)

    def _is_due(self, completed: RunCompleted) -> bool:
        """Another end (a failure, a limit, Ctrl-C) stays what it is: a resume goes on."""
        is_answered = completed.status in ANSWERED or completed.status == "truncated"
        return is_answered and not self._team.manager.run_life.is_ending

    def _as_it_stands(self, completed: RunCompleted) -> RunCompleted:
        """How the run ends with the goal as it is."""
        if completed.status not in ANSWERED:
            return completed
        match self.state.status:
            case "none" | "active":
                return completed
            case "achieved":
                message = describe_changed(self.state.changed_checks)
                message = f"the goal is achieved; {message}" if self.state.changed_checks else ""
                return msgspec.structs.replace(completed, status="completed", message=message)
            case "unmet":
                why = f"the goal is not met: {self.state.why};\n{summarize(self.state)}"
                return msgspec.structs.replace(completed, status="unmet", message=clean_block(why))
            case "paused":
                if self._host.request.lifetime.keep_open:
                    return completed
                return msgspec.structs.replace(completed, status="unmet", message=_PAUSED)

    async def _run_check(self) -> Checked | None:
        """None: it was cut off, and counts as no round."""
        goal = self.state.goal
        self._cut = ""
        checked: Checked | None = None
        with trio.CancelScope() as scope:
            self._scope = scope
            try:
                began = GoalChecking(round=self.state.round, rounds=goal.rounds)
                self._apply(began)
                await self._host.journal.flush()
                checked = await self._check.run(self.state, self._check.root_answer)
            finally:
                self._scope = None
        return None if self._cut else checked

    def _settle(self, checked: Checked) -> str:
        """Journal what the check leads to, and the mail of the next round; returns the first."""
        outcome, goal = checked.outcome, self.state.goal
        redact = self._host.journal.redactor.redact
        body = GoalChecked(
            round=self.state.round,
            rounds=goal.rounds,
            passed=outcome.passed,
            command=outcome.command,
            exit_code=outcome.exit_code,
            tail=redact(outcome.tail),
            failure="" if outcome.passed else outcome.failure,
            tree_before=checked.before,
            tree=checked.after,
            changed_checks=checked.changed_checks,
        )
        after = decide_after_check(self.state, body)
        mail_id = self._host.entropy.new_id() if after.leads_to == "next" else ""
        body = msgspec.structs.replace(
            body, leads_to=after.leads_to, why=after.why, mail_id=mail_id
        )
        self._apply(body)
        if mail_id:
            self._send_failure(body)
        elif body.passed and body.changed_checks:
            told = f"the goal is achieved; {describe_changed(body.changed_checks)}"
            self._host.note(Warned(message=clean_line(told, limit=2_000)))
        return body.leads_to

    def _send_failure(self, checked: GoalChecked) -> None:
        text = failed_check_text(self.state.goal, checked)
        self._send(text, mail_id=checked.mail_id)

    async def _send_lost_mail(self) -> bool:
        """The mail of the present round, if a crash came between the check and its writing."""
        self._is_resumed = False
        last = self.state.checks[-1] if self.state.checks else None
        root = self._host.agents.find(ROOT_PATH)
        if last is None or not last.mail_id or root is None:
            return False
        find = partial(_has_mail, self._host, root.plan.agent_id, last.mail_id)
        if await trio.to_thread.run_sync(find):
            return False
        self._send_failure(last)
        return True

    def _send(self, text: str, *, mail_id: str = "", author: str = _AUTHOR) -> None:
        root = self._host.agents.find(ROOT_PATH)
        if root is None:
            return
        mail = self._team.mail.make_mail(author, ROOT_PATH, text, wakes=True)
        self._team.mail.send(root, _with_id(mail, mail_id))

    def _after_cut(self, completed: RunCompleted) -> WorkEnd:
        match self._cut:
            case "ended":
                why = "the check of the goal was cut off; `swarm resume` runs it again"
                ended = msgspec.structs.replace(completed, status="interrupted", message=why)
                return WorkEnd(ended)
            case "paused":
                return WorkEnd(self._as_it_stands(completed))
            case "" | "work":
                return WorkEnd(completed, goes_on=True)

    # --- what happens meanwhile ----------------------------------------------------------------

    def on_agent_event(self, agent: Agent, event: AgentEvent) -> None:
        """Somebody works again while the check runs: it is run when that has ended."""
        if event is AgentEvent.TURN_STARTED and agent.plan.reports:
            self._cut_off("work")

    def set_fate(self, fate: Fate) -> None:
        """What follows if the check is cut off next; see `PartServices.set_fate`."""
        self._fate = fate

    def cut_off(self) -> None:
        """All work is interrupted: in a run that stays, the goal waits for a person's word."""
        if self._scope is None:
            return
        if self._fate == "cancelled":
            self._cut_off("paused")
            self._apply(GoalPaused(paused=True))
        else:
            self._cut_off("ended")

    def _cut_off(self, why: Cut) -> None:
        if self._scope is not None and not self._cut:
            self._cut = why
            self._scope.cancel()

    def restore(self) -> None:
        """The run is resumed: a paused goal is active again, and new words give an unmet one all
        its rounds.
        """
        has_words = self._host.request.next_input.prompt is not None
        if self.state.status == "paused":
            self._apply(GoalPaused(paused=False))
        elif self.state.status == "unmet" and has_words:
            goal, files = self.state.goal, self.state.check_files
            self._apply(GoalSet(goal=goal, by="resume", check_files=files))

    def _apply(self, body: GoalRecord) -> None:
        self._host.note(body, agent=ROOT_PATH)
        self._goal.apply(body)

    # --- the model ----------------------------------------------------------------------------

    def serve(self, question: GetGoal | UpdateGoal) -> GoalTold:
        """Answer the root's tools. What it says ends nothing."""
        if isinstance(question, GetGoal) or self.state.status == "none":
            return GoalTold(text=told_goal(self.state))
        why = clean_line(question.why, limit=_WHY_CHARS)
        self._apply(GoalReported(status=question.status, why=why))
        if question.status == "blocked":
            said = "Noted. If the check fails at the end of your turn, a person reads why."
        else:
            said = "Noted. The goal is reached when its check passes: end your turn, and it is run."
        return GoalTold(text=said)

    # --- people -------------------------------------------------------------------------------

    async def steer(self, request: SteerGoal) -> GoalShown | Refused:
        """Serve `swarm goal`."""
        match request.action:
            case "show":
                pass
            case "set":
                return await self._set(request.goal)
            case "pause" if self.state.status == "active":
                self._apply(GoalPaused(paused=True))
                self._cut_off("paused")
            case "continue" if self.state.status in {"paused", "unmet"}:
                self._go_on()
            case "clear" if self.state.status != "none":
                self._apply(GoalCleared())
                self._cut_off("paused")
            case _:
                return Refused(message=f"the goal is {_word(self.state)}: nothing to do")
        return self.state.shown()

    async def _set(self, goal: Goal) -> GoalShown | Refused:
        try:
            goal = check_goal(goal)
        except UsageError as error:
            return Refused(message=str(error), exit_code=2)
        if goal.judge and self._host.agents.registry.max_agents == 1:
            return Refused(message="a judge is an agent, and this run may have only one")
        files = await self._check.look(goal.verify)
        self._apply(GoalSet(goal=goal, check_files=files.checks))
        self._cut_off("work")
        self._send(new_goal_text(goal), author="person")
        return self.state.shown()

    def _go_on(self) -> None:
        if self.state.status == "paused":
            self._apply(GoalPaused(paused=False))
        else:
            self._apply(GoalSet(goal=self.state.goal, check_files=self.state.check_files))
        self._send(_GOES_ON, author="person")


def _word(state: GoalState) -> str:
    return "not set" if state.status == "none" else state.status


def _with_id(mail: Mail, mail_id: str) -> Mail:
    return msgspec.structs.replace(mail, mail_id=mail_id) if mail_id else mail


def _has_mail(host: PartHost, file: str, mail_id: str) -> bool:
    """True if the journal has this mail."""
    return any(
        isinstance(one.body, MailPosted) and one.body.mail.mail_id == mail_id
        for one in read_records(host.paths, file=file)
    )
