"""Runs the hooks of an event: all that match, side by side, and combines what they want.

Each end is an event for the journal. Without a matching hook nothing happens and nothing waits.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import trio

from swarm.mailbox.protocol.events import HookRan, Warned
from swarm.mailbox.protocol.hooks import Hook, HookEvent
from swarm.roles.hooks.hook_combination import HookVerdict, combine, matching_hooks
from swarm.roles.hooks.hook_input import HookSession, encode_input
from swarm.roles.hooks.hook_output import HookEnd, HookOpinion, read_opinion

from ..agent.reporter import Reporter
from ..current_spec import CurrentSpec

RunHook = Callable[[Hook, bytes], Awaitable[HookEnd]]
Inputs = Callable[[Hook], Sequence[Mapping[str, object]]]  # one process for each of them
NO_VERDICT = HookVerdict()
_SHOWN_CHARS = 2_000
_COMMAND_CHARS = 200
_SIDE_BY_SIDE = 8
_SHOW_AFTER_S = 0.5


class HookDispatcher:
    """The hooks of one agent. `note` receives text that the model is told with its next request."""

    def __init__(
        self,
        current: CurrentSpec,
        reporter: Reporter,
        run: RunHook,
        note: Callable[[str], None],
    ) -> None:
        self._current, self._reporter, self._run, self.note = current, reporter, run, note

    def concerned(
        self, event: HookEvent, names: Sequence[str] = (), *, without: str = ""
    ) -> tuple[Hook, ...]:
        """The hooks that this event concerns, but the one with the id `without`."""
        hooks = self._current.spec.hooks
        found = matching_hooks(hooks, event, names) if hooks else ()
        return tuple(hook for hook in found if hook.hook_id != without)

    async def ask(
        self, hooks: Sequence[Hook], inputs: Inputs, *, turn_id: str, call_id: str = ""
    ) -> HookVerdict:
        """Run these hooks of one event; return what they want together."""
        if not hooks:
            return NO_VERDICT
        jobs = [(hook, given) for hook in hooks for given in inputs(hook)]
        opinions: list[tuple[Hook, HookOpinion] | None] = [None] * len(jobs)
        limiter = trio.CapacityLimiter(_SIDE_BY_SIDE)

        async def run_one(number: int, hook: Hook, given: Mapping[str, object]) -> None:
            async with limiter:
                opinion = await self._run_one(hook, given, turn_id=turn_id, call_id=call_id)
                opinions[number] = hook, opinion

        shown = f"hook: {hooks[0].command[:_COMMAND_CHARS]}"
        async with (
            self._reporter.shown_wait(shown, after_s=_SHOW_AFTER_S),
            trio.open_nursery() as nursery,
        ):
            for number, (hook, given) in enumerate(jobs):
                nursery.start_soon(run_one, number, hook, given)
        verdict = combine([one for one in opinions if one is not None])
        for context in verdict.contexts:
            self.note(context)
        return verdict

    async def _run_one(
        self, hook: Hook, given: Mapping[str, object], *, turn_id: str, call_id: str
    ) -> HookOpinion:
        payload = encode_input(hook.event, self._session(), turn_id, given)
        started = trio.current_time()
        end = await self._run(hook, payload)
        opinion = read_opinion(hook.event, end, hook.form)
        text = opinion.reason or opinion.context
        if opinion.status == "failed":
            text = opinion.message
        elif opinion.message:
            self._reporter.emit(Warned(message=f"hook: {opinion.message[:_SHOWN_CHARS]}"))
        self._reporter.emit(
            HookRan(
                turn_id=turn_id,
                hook_id=hook.hook_id,
                event=hook.event,
                command=hook.command[:_COMMAND_CHARS],
                source=hook.source,
                status=opinion.status,
                decision=opinion.decision,
                text=text[:_SHOWN_CHARS],
                call_id=call_id,
                duration_s=trio.current_time() - started,
            )
        )
        return opinion

    def _session(self) -> HookSession:
        spec = self._current.spec
        mode = "bypassPermissions" if spec.limits.approval == "never" else "default"
        return HookSession(
            session_id=spec.run_id,
            cwd=spec.cwd,
            model=spec.model or "",
            permission_mode="plan" if spec.limits.planning else mode,
            agent_id=spec.agent_id,
            agent_path=spec.path,
            agent_type=spec.role.name,
            agent_depth=spec.depth,
        )
