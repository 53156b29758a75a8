"""Runs the hooks of an event: all that match, side by side, and combines what they want.

Each end is an event for the journal. Without a matching hook nothing happens and nothing waits.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.protocol.events import HookRan, Warned
from swarm.mailbox.protocol.hooks import Hook, HookDecision, HookEvent
from swarm.roles.parts.hooks.hook_combination import HookVerdict, combine, matching_hooks
from swarm.roles.parts.hooks.hook_input import HookSession, encode_input
from swarm.roles.parts.hooks.hook_output import HookEnd, HookOpinion, read_opinion
from swarm.roles.parts.hooks.hook_scripts import missing_script

from ...base.current_spec import CurrentSpec
from ...base.reporter import Reporter
from .background_hooks import BackgroundHooks
from .hook_places import hook_places
from .hook_runner import RunHook

Fields = Mapping[str, object]
Inputs = Callable[[Hook], Sequence[Fields]]  # one run of the hook for each of them
NO_VERDICT = HookVerdict()
NOT_SAID = "its table does not say `may_allow = true`"
_SHOWN_CHARS = 2_000
_COMMAND_CHARS = 200
_SIDE_BY_SIDE = 8
_SHOW_AFTER_S = 0.5

# What happens instead while a hook of these events cannot be asked.
_GUARDS: Mapping[HookEvent, str] = {
    "PreToolUse": "Until it can be, each call that it guards is asked about",
    "PermissionRequest": "Until it can be, no other hook allows what it guards",
    "UserPromptSubmit": "Until it can be, no input reaches the model",
    "PreCompact": "Until it can be, the history is compacted only when the provider refuses it",
    "Stop": "The agent is told that this check did not run",
    "SubagentStop": "The agent is told that this check did not run",
}


class _Moment(NamedTuple):
    """When hooks run: of which turn and call."""

    turn_id: str
    call_id: str


class HookDispatcher:
    """The hooks of one agent. `note` receives text that the model is told with its next request."""

    def __init__(
        self,
        current: CurrentSpec,
        reporter: Reporter,
        run: RunHook,
        note: Callable[[str], None],
        background: BackgroundHooks,
    ) -> None:
        self._current, self._reporter, self._run, self.note = current, reporter, run, note
        self._background = background
        self._ran_once: set[str] = set()
        self._warned: set[str] = set()

    @property
    def cwd(self) -> str:
        """Where the agent works."""
        return self._current.spec.cwd

    def concerned(
        self, event: HookEvent, names: Sequence[str] = (), *, without: str = ""
    ) -> tuple[Hook, ...]:
        """The hooks that this event concerns, but the one with the id `without`."""
        hooks = self._current.spec.inherited.hooks
        found = matching_hooks(hooks, event, names) if hooks else ()
        return tuple(
            hook for hook in found if hook.hook_id != without and hook.hook_id not in self._ran_once
        )

    async def ask(
        self, hooks: Sequence[Hook], inputs: Inputs, *, turn_id: str, call_id: str = ""
    ) -> HookVerdict:
        """Run these hooks of one event; return what they want together.

        Those that are to run in the background are started, and want nothing.
        """
        if not hooks:
            return NO_VERDICT
        self._ran_once |= {hook.hook_id for hook in hooks if hook.once}
        moment = _Moment(turn_id, call_id)
        waited = [hook for hook in hooks if not hook.background]
        for hook in hooks:
            if hook.background:
                self._start_in_background(hook, inputs, moment)
        if not waited:
            return NO_VERDICT
        opinions = await self._run_all(waited, inputs, moment)
        self._warn_of_unasked(opinions)
        verdict = combine(opinions)
        for context in verdict.contexts:
            self.note(context)
        return verdict

    def _warn_of_unasked(self, opinions: Sequence[tuple[Hook, HookOpinion]]) -> None:
        """Say aloud, once for each hook, that what it guards is not guarded by it."""
        for hook, opinion in opinions:
            if not opinion.unasked:
                continue
            self._ran_once.discard(hook.hook_id)
            if hook.hook_id in self._warned or hook.event not in _GUARDS:
                continue
            self._warned.add(hook.hook_id)
            why = f"{hook.line[:_COMMAND_CHARS]}: {opinion.message[:_SHOWN_CHARS]}"
            text = (
                f"the {hook.event} hook {hook.hook_id} could not be asked ({why}). "
                f"{_GUARDS[hook.event]}; fix it, or `swarm hooks disable {hook.hook_id}`"
            )
            self._reporter.emit(Warned(message=text))

    def announce(
        self, event: HookEvent, names: Sequence[str], fields: Fields, *, turn_id: str = ""
    ) -> None:
        """Run the hooks of an event that only tells something, in the background. Never waits."""
        hooks = self.concerned(event, names)
        self._ran_once |= {hook.hook_id for hook in hooks if hook.once}
        for hook in hooks:
            self._start_in_background(hook, lambda _: (fields,), _Moment(turn_id, ""))

    def _start_in_background(self, hook: Hook, inputs: Inputs, moment: _Moment) -> None:
        for given in inputs(hook):
            job = partial(self._run_alone, hook, given, moment)
            if not self._background.start(job):
                shown = hook.line[:_COMMAND_CHARS]
                text = f"hook: too many wait in the background; this one did not run: {shown}"
                self._reporter.emit(Warned(message=text))

    async def _run_alone(self, hook: Hook, given: Fields, moment: _Moment) -> None:
        """Nothing waits for it: what it says is for the next request, and decides nothing."""
        opinion = await self._run_one(hook, given, moment)
        if opinion.status != "failed" and opinion.context:
            self.note(opinion.context)

    async def _run_all(
        self, hooks: Sequence[Hook], inputs: Inputs, moment: _Moment
    ) -> list[tuple[Hook, HookOpinion]]:
        jobs = [(hook, given) for hook in hooks for given in inputs(hook)]
        opinions: list[tuple[Hook, HookOpinion] | None] = [None] * len(jobs)
        limiter = trio.CapacityLimiter(_SIDE_BY_SIDE)

        async def run_one(number: int, hook: Hook, given: Fields) -> None:
            async with limiter:
                opinions[number] = hook, await self._run_one(hook, given, moment)

        shown = f"hook: {hooks[0].line[:_COMMAND_CHARS]}"
        async with (
            self._reporter.shown_wait(shown, after_s=_SHOW_AFTER_S),
            trio.open_nursery() as nursery,
        ):
            for number, (hook, given) in enumerate(jobs):
                nursery.start_soon(run_one, number, hook, given)
        return [one for one in opinions if one is not None]

    async def _run_one(self, hook: Hook, given: Fields, moment: _Moment) -> HookOpinion:
        payload = encode_input(hook.event, self._session(), moment.turn_id, given)
        started = trio.current_time()
        unheld = self._why_not_held(hook) if hook.may_allow else NOT_SAID
        end = await self._run(hook, payload)
        end = self._checked(hook, end)
        opinion = read_opinion(hook.event, end, hook.form)
        if opinion.decision == "allow" and unheld:
            self._warn_of_allow(hook, unheld)
            decision: HookDecision = "rewrite" if opinion.updated_input is not None else ""
            opinion = msgspec.structs.replace(opinion, decision=decision, reason="")
        text = opinion.reason or opinion.context
        if opinion.status == "failed":
            text = opinion.message
        elif opinion.message:
            self._reporter.emit(Warned(message=f"hook: {opinion.message[:_SHOWN_CHARS]}"))
        self._reporter.emit(
            HookRan(
                turn_id=moment.turn_id,
                hook_id=hook.hook_id,
                event=hook.event,
                command=hook.line[:_COMMAND_CHARS],
                source=hook.source,
                status=opinion.status,
                decision=opinion.decision,
                text=text[:_SHOWN_CHARS],
                call_id=moment.call_id,
                duration_s=trio.current_time() - started,
            )
        )
        return opinion

    def _why_not_held(self, hook: Hook) -> str:
        """Why the hook may not allow: agents could change what it starts."""
        from .hook_hold import why_not_held  # few hooks allow anything

        spec = self._current.spec
        return why_not_held(hook, spec.cwd, spec.environment, hook_places(spec))

    def _warn_of_allow(self, hook: Hook, why: str) -> None:
        """Say once for each hook that its `allow` has no effect."""
        if hook.hook_id in self._warned:
            return
        self._warned.add(hook.hook_id)
        text = (
            f"the {hook.event} hook {hook.hook_id} ({hook.line[:_COMMAND_CHARS]}) allowed a call, "
            f"which does not count: {why}. It can deny and ask (docs/hooks.md)"
        )
        self._reporter.emit(Warned(message=text))

    def _checked(self, hook: Hook, end: HookEnd) -> HookEnd:
        """The end; of an interpreter that found no script it is one of a hook that did not run."""
        if end.fault or end.exit_code in (0, 2, None):
            return end
        missing = missing_script(hook, hook.folder or self.cwd)
        fault = f"hook did not start: there is no file {missing}" if missing else ""
        return msgspec.structs.replace(end, fault=fault)

    def _session(self) -> HookSession:
        spec = self._current.spec
        mode = "bypassPermissions" if spec.limits.approval == "never" else "default"
        return HookSession(
            session_id=spec.run_id,
            cwd=spec.cwd,
            model=spec.model_settings.model or "",
            permission_mode="plan" if spec.limits.planning else mode,
            agent_id=spec.agent_id,
            agent_path=spec.path,
            agent_type=spec.role.name,
            agent_depth=spec.depth,
        )
