"""The task workload: the fan-out's items, then the root agent, then the result.

A resumed run continues what is not done: items without a completed answer, inputs that no turn took
up, a turn that was cut off, the next prompt.
"""

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import AgentHeld
from swarm.mailbox.protocol.events import Warned
from swarm.mailbox.protocol.ops import ImageInput, UserInput, UserInputPart
from swarm.mailbox.protocol.records import AgentEnded, InputPosted, RunCompleted, SettingsChanged
from swarm.mailbox.protocol.settings import AgentSettings

from ..agents.agent_record import Agent, AgentPlan
from ..agents.end_states import GOOD_ENDS, WorkEnded, decide_resume, last_end_state
from ..agents.life.agent_manager import AgentManager
from ..agents.life.resume_continuation import journal_continuation
from ..agents.rights_widening import RightsBound, begin_planning, plan_limits
from ..agents.run_providers import run_providers
from ..agents.settings_change import (
    changed_plan,
    check_requirements,
    settings_of,
    with_settings,
)
from ..context.run_context import RunContext
from ..context.run_life import StopStatus
from ..context.typed_input import first_parts
from ..control_requests.run_limits import item_limits, run_limits
from ..gateway.gateway_manager import GatewayManager
from ..journal.journal_reader import BadLine, read_records
from ..journal.replay import AgentMemory, RunPast, fold_agent, interrupted_end
from ..parts.fan_out.fan_out_runner import FanOutRunner, ItemAnswer, prompt_with_answers
from ..parts.review.review_mode import enter_review, exit_review
from ..processes.process_types import SpawnError
from ..runs.image_blobs import store_image
from ..runs.run_status import as_interrupted, run_result, with_failed_items
from ..team.team_service import TeamService
from .idle_wait import IdleWait
from .run_shutdown import RunShutdown

NOTHING_TO_DO = (
    "nothing was left to do: the work of this run had ended before; `swarm resume RUN -p TEXT` "
    "gives it more"
)


class TaskWorkload:
    """One per run. `run` returns by itself, or soon after `ending.stop` or a lost gateway."""

    def __init__(  # noqa: PLR0917 - as `MakeWorkload` of supervisor/run.py
        self,
        running: RunContext,
        agents: AgentManager,
        team_service: TeamService,
        gateway: GatewayManager,
        shutdown: RunShutdown,
        past: RunPast,
    ) -> None:
        self._run, self._agents, self._gateway = running, agents, gateway
        self._team_service = team_service
        self._shutdown, self._past = shutdown, past
        self._idle_wait = IdleWait(running, agents, team_service)
        self._has_worked = False  # a part, at the end of the agents' work
        self._fan_out: FanOutRunner | None = None
        agent_past, plan = past.agents.get(ROOT_PATH), past.plan
        known = agent_past.spawned.agent_id if agent_past else plan.root_id if plan else ""
        self._root_id = known or running.entropy.new_id()

    async def run(self) -> RunCompleted:
        """Do the work; the caller fills in the totals of the result."""
        for path, agent_past in self._past.agents.items():
            self._run.agents.registry.restore_path(path, agent_id=agent_past.spawned.agent_id)
        found: list[RunCompleted] = []
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                found.append(await self._work())
                nursery.cancel_scope.cancel()

            async def stop_on(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(work)
            nursery.start_soon(stop_on, self._shutdown.stop)
            nursery.start_soon(stop_on, self._gateway.failed)
            if (seconds := self._run.request.deadline_s) is not None:
                paused_s = self._run.pauses.paused_s
                nursery.start_soon(self._shutdown.end_at_deadline, seconds, paused_s)
        completed = RunCompleted(status="provider", message=self._gateway.failure)
        if found:
            completed = found[0]
        elif self._shutdown.status is not None:
            completed = self._stopped(self._shutdown.status)
        return exit_review(self._run, completed)

    def _stopped(self, status: StopStatus) -> RunCompleted:
        """The result of a run stopped from outside, with what the root had answered before."""
        root = self._team_service.team.members.get(ROOT_PATH)
        outcome = root.outcome if root is not None and not root.is_active else None
        answered = outcome is not None and outcome.state in GOOD_ENDS
        result = outcome.message if outcome is not None and answered else None
        return RunCompleted(status=status, message=status, result=result)

    def close(self) -> None:
        """Called once every agent has ended: journal which items the run's end cut off."""
        if self._fan_out is not None:
            self._fan_out.close()

    async def _work(self) -> RunCompleted:
        try:
            body = await self._root_prompt()
            if self._agents.run_life.is_ending:  # the whole run was stopped or interrupted before
                return self._stopped(self._shutdown.status or "interrupted")
            await self._start_root(body)
        except SpawnError as error:
            return RunCompleted(status="failed", message=str(error))
        completed = await self._wait_end()
        request = self._run.request
        has_worked = self._has_worked or bool(self._agents.turns_started)
        if request.resumes and not has_worked and not request.lifetime.keep_open:
            self._run.note(Warned(message=NOTHING_TO_DO), agent=ROOT_PATH)
        return self._idle_wait.result(completed)

    async def _wait_end(self) -> RunCompleted:
        """Here it is decided that a run's work is over, and nowhere else.

        That is when no agent works, no part has more to do, and the run waits for no input. What
        stops it before (`RunLife.stop`, a lost gateway) cancels this.
        """
        while True:
            outcome = await self._team_service.wait_done(waits_for_all=self._idle_wait.applies_to)
            end = await self._team_service.parts.at_end(self._completed(outcome))
            if end.goes_on:
                continue
            self._has_worked = self._has_worked or end.has_worked
            if not self._idle_wait.applies_to(outcome):
                return end.completed
            if not await self._idle_wait.wait(outcome, end.completed):
                return end.completed

    def _completed(self, outcome: AgentEnded) -> RunCompleted:
        """How the run ends if it ends now."""
        # A review run's answer is parsed as a review, not by a schema.
        schema = None if self._run.request.review else self._run.request.output_schema
        end = self._team_service.team.members[ROOT_PATH].last_turn_end
        completed = run_result(
            outcome, end, schema=schema, accept_truncated=self._run.request.accept_truncated
        )
        if self._agents.run_life.cut_off_work:
            return as_interrupted(completed)
        if (fan_out := self._fan_out) is None:
            return completed
        run = short_id(self._run.run_id)
        failed = fan_out.failed_items
        return with_failed_items(completed, items=fan_out.items, failed=failed, run=run)

    async def _root_prompt(self) -> str:
        """The root's input: the task's body, with the items' answers when there is a fan-out.

        A root that had its input before gets only the new answers; "" when there are none.
        """
        request = self._run.request
        body = "\n\n".join(filter(None, (request.prompt, request.next_input.prompt)))
        if request.fan_out is None:
            return body
        items = item_limits(self._run, request.fan_out.agents)
        self._fan_out = FanOutRunner(
            self._run,
            self._agents,
            request.fan_out,
            plan_limits(items) if request.plan else items,
            root_id=self._root_id,
        )
        self._run.broadcast.show(ROOT_PATH, AgentHeld(state="queued", note="waits for the items"))
        cut_off = (one for one in self._past.agents.values() if one.is_unfinished)
        below = tuple(one.spawned.agent_id for one in cut_off if one.spawned.parent == ROOT_PATH)
        await self._fan_out.run(self._past.fan_ended, below)
        was_told = self._root_has_input()  # it has read the earlier answers
        answers = await self._fan_out.answers(only_fresh=was_told, past=self._past)
        if was_told:
            body = request.next_input.prompt or request.prompt
            if not answers:
                return ""
        return prompt_with_answers(body, answers, limit_bytes=self._answers_limit_bytes(answers))

    def _root_has_input(self) -> bool:
        """True if the root's file has an input: the root may have died before it got one."""
        if (agent_past := self._past.agents.get(ROOT_PATH)) is None:
            return False
        records = read_records(self._run.paths, file=agent_past.spawned.agent_id)
        return any(isinstance(record.body, InputPosted) for record in records)

    def _answers_limit_bytes(self, answers: list[ItemAnswer]) -> int:
        """How many bytes of answers fit beside the prompt: half the model's context window."""
        window = self._gateway.model.context_window if self._gateway.model else 32_000
        asked = len(self._run.request.prompt.encode())
        return max(512 + 64 * len(answers), min(256 * 1024, window * 2 - asked))

    async def _start_root(self, body: str) -> None:
        request = self._run.request
        agent_past = self._past.agents.get(ROOT_PATH)
        fresh_plan = AgentPlan(
            path=ROOT_PATH,
            agent_id=self._root_id,
            role=request.role,
            limits=run_limits(self._run),
            cwd=request.cwd,
            model_settings=msgspec.structs.replace(request.model_settings, provider=None),
        )
        settings = agent_past.settings if agent_past else None
        plan = self._with_settings(fresh_plan, settings)
        if request.next_input.settings is not None:
            bound = RightsBound(
                run_limits(self._run), sandbox_required=request.inherited.sandbox_required
            )
            plan = changed_plan(
                plan, request.next_input.settings, bound, providers=run_providers(request)
            )
            changed = SettingsChanged(agent_id=plan.agent_id, settings=settings_of(plan))
            await self._run.commit(changed, agent=ROOT_PATH)
        if self._root_has_input():
            fresh = body if request.fan_out is not None else ""
            await self._resume_root(plan, fresh or request.next_input.prompt)
            return
        enter_review(self._run)
        root = Agent(plan)
        if agent_past is not None:
            root.note_last_epoch(agent_past.spawned.epoch)
        await self._agents.spawn(root, memory=AgentMemory() if agent_past else None)
        if self._agents.run_life.is_ending:  # during its start
            self._agents.end_work(root, "interrupted", "the run ended before its work began")
        else:
            await self._agents.send_input(root, await self._first_input(body))

    def _with_settings(self, plan: AgentPlan, settings: AgentSettings | None) -> AgentPlan:
        """The root's plan with what a person changed before, as far as it is allowed today."""
        if settings is None:
            return begin_planning(plan) if self._run.request.plan else plan
        changed = with_settings(plan, settings)
        try:
            check_requirements(plan, changed, self._run.request.approvals.held)
        except UsageError as error:
            self._run.note(Warned(message=f"{error}; the wider rights of before are gone"))
            return with_settings(plan, msgspec.structs.replace(settings, widened=False))
        return changed

    async def _resume_root(self, plan: AgentPlan, text: str | None) -> None:
        """Restart the root from its journal file; then send it the next input, if there is one."""
        self._team_service.restore(self._past, plan)
        for member in tuple(self._team_service.team.members.values()):  # today's limits apply
            await self._agents.admit(member)
        memory = read_agent_memory(self._run, plan)
        verdict = self._prepare_continuation(plan, memory) if text is None else None
        root, past = self._run.agents.members[ROOT_PATH], self._past.agents.get(ROOT_PATH)
        if past is not None:
            root.note_last_epoch(past.spawned.epoch)
            root.pay(past.usd)
        await self._agents.spawn(root, memory=memory)
        if text is not None:
            images = await self._store_images(self._run.request.next_input.images)
            parts = (*images, *await first_parts(self._run, text))
            await self._agents.send_input(root, self._make_input(*parts))
        elif isinstance(verdict, WorkEnded) and not root.has_taken_work:
            # A person's words may have come while it started.
            self._agents.end_work(root, verdict.state, verdict.message)

    def _prepare_continuation(self, plan: AgentPlan, memory: AgentMemory) -> WorkEnded | None:
        """Make a root continue whose turn was ended from outside.

        Returns WorkEnded if nothing is left to do, else None.
        """
        if memory.open_turn is not None or memory.inputs:
            return None
        root_past = self._past.agents.get(ROOT_PATH)
        if self._run.request.lifetime.keep_open and self._past.idle_seq > memory.last_end_seq:
            state, message = last_end_state(root_past, memory)  # it waits for input, as before
            return WorkEnded(state=state, message=message)
        verdict = decide_resume(root_past, memory)
        if isinstance(verdict, WorkEnded):
            return verdict
        agent_names, schema = (plan.path, plan.agent_id), self._run.request.answer_schema
        note, posted = journal_continuation(self._run, agent_names, verdict.note, schema=schema)
        memory.items += [note.item] if note is not None else []
        memory.inputs[posted.input_id] = posted
        return None

    async def _first_input(self, body: str) -> UserInput:
        request = self._run.request
        images = await self._store_images(request.images)
        return self._make_input(*images, *await first_parts(self._run, body, spoken=request.prompt))

    async def _store_images(self, images: tuple[str, ...]) -> list[UserInputPart]:
        parts: list[UserInputPart] = []
        for image in images:
            url, name = await trio.to_thread.run_sync(store_image, self._run.paths.blobs, image)
            parts.append(ImageInput(image_url=url, name=name))
        return parts

    def _make_input(self, *parts: UserInputPart) -> UserInput:
        """An input for the root; without parts it means "continue"."""
        schema = self._run.request.answer_schema
        return UserInput(input_id=self._run.entropy.new_id(), parts=parts, output_schema=schema)


def read_agent_memory(running: RunContext, plan: AgentPlan) -> AgentMemory:
    """Fold the agent's file; journal calls that its process's death cut off as interrupted."""
    file = plan.agent_id

    def warn(bad: BadLine) -> None:
        running.note(Warned(message=str(bad)), agent=plan.path)

    memory = fold_agent(read_records(running.paths, file=file, on_bad_line=warn))
    for call in memory.open_calls.values():
        running.note(interrupted_end(call), agent=plan.path, file=file)
    return memory
