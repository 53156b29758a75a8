"""Hooks around an agent's session: its start and end, a person's input, turns, compactions."""

from typing import Literal

from swarm.mailbox.protocol.hooks import HookEvent
from swarm.mailbox.protocol.values.base import Value
from swarm.roles.parts.hooks.hook_combination import HookVerdict
from swarm.roles.parts.hooks.hook_input import IDLE_NOTIFICATION

from ...base.current_spec import CurrentSpec
from .hook_dispatch import NO_VERDICT, HookDispatcher

CompactionTrigger = Literal["manual", "auto"]
MAX_CONTINUATIONS = 20  # of one turn by Stop hooks
_UNCHECKED = "{}. Say in your answer that this check did not run."
_CONTINUE = '<hook_prompt hook_run_id="{id}">{text}</hook_prompt>'


class StopVerdict(Value):
    """Prompts with which a turn goes on; none: it ends."""

    prompts: tuple[str, ...] = ()
    asked: bool = False  # hooks ran, so time has passed


class SessionHooks:
    """The hooks of one agent that concern no call."""

    def __init__(self, dispatcher: HookDispatcher, current: CurrentSpec) -> None:
        self._dispatcher, self._current = dispatcher, current
        self._has_begun = False

    async def begin(self, turn_id: str) -> str | None:
        """Before the first turn of this process. Returns why the turn must not run, or None."""
        if self._has_begun:
            return None
        self._has_begun = True
        spec = self._current.spec
        if spec.depth:
            if spec.epoch != 1:
                return None  # a later process of an agent that has begun before
            fields: dict[str, object] = {"agent_id": spec.agent_id, "agent_type": spec.role.name}
            verdict = await self._ask("SubagentStart", fields, turn_id, name=spec.role.name)
        elif spec.session_source:
            source = spec.session_source
            verdict = await self._ask("SessionStart", {"source": source}, turn_id, name=source)
        else:
            return None
        return _stop_reason(verdict)

    @property
    def checks_prompts(self) -> bool:
        """True if hooks decide which input of a person the model reads."""
        return bool(self._dispatcher.concerned("UserPromptSubmit"))

    async def on_prompt(self, prompt: str, turn_id: str) -> str | None:
        """Ask about a person's input. Returns why the model does not get it, or None."""
        verdict = await self._ask("UserPromptSubmit", {"prompt": prompt}, turn_id)
        return _stop_reason(verdict)

    async def on_stop(self, answer: str | None, turn_id: str, *, continued: int) -> StopVerdict:
        """Ask whether a turn may end that hooks have continued this many times."""
        event: HookEvent = "SubagentStop" if self._current.spec.depth else "Stop"
        if continued >= MAX_CONTINUATIONS:
            return StopVerdict()
        fields: dict[str, object] = {
            "stop_hook_active": continued > 0,
            "last_assistant_message": answer,
        }
        if event == "SubagentStop":
            fields["agent_transcript_path"] = None
        role = self._current.spec.role.name
        asked = bool(self._dispatcher.concerned(event, (role,)))
        verdict = await self._ask(event, fields, turn_id, name=role)
        if verdict.stopped is not None:
            return StopVerdict(asked=asked)
        prompts = [_CONTINUE.format(id=one, text=text) for one, text in verdict.continuations]
        if not continued:  # once: the answer shall not look checked
            prompts += [
                _CONTINUE.format(id=one, text=_UNCHECKED.format(why))
                for one, why in verdict.unasked
            ]
        if verdict.denied is not None:  # a hook failed that closes: it could not say what is left
            prompts.append(verdict.denied)
        return StopVerdict(prompts=tuple(prompts), asked=asked)

    async def before_compaction(self, trigger: CompactionTrigger, turn_id: str) -> str | None:
        """Ask whether the history may be compacted now. Returns why not, or None."""
        fields: dict[str, object] = {"trigger": trigger, "custom_instructions": ""}
        return _stop_reason(await self._ask("PreCompact", fields, turn_id, name=trigger))

    async def after_compaction(
        self, trigger: CompactionTrigger, summary: str, turn_id: str
    ) -> None:
        """Tell hooks that the history was compacted; what they add is read with it.

        For the root a new session also starts: `SessionStart` with the source `compact`.
        """
        fields: dict[str, object] = {"trigger": trigger, "compact_summary": summary}
        await self._ask("PostCompact", fields, turn_id, name=trigger)
        if not self._current.spec.depth:
            await self._ask("SessionStart", {"source": "compact"}, turn_id, name="compact")

    def on_interrupt(self, turn_id: str) -> None:
        """Tell hooks that a person interrupted a turn of the root. Never waits."""
        if not self._current.spec.depth:
            self._dispatcher.announce("Interrupt", (), {}, turn_id=turn_id)

    @property
    def announces_idle(self) -> bool:
        """True if hooks want to know when the root waits for a person."""
        names = (IDLE_NOTIFICATION,)
        return not self._current.spec.depth and bool(
            self._dispatcher.concerned("Notification", names)
        )

    def on_idle(self) -> None:
        """Tell hooks that the root waits for a person's input. Never waits."""
        fields = {
            "message": "The agent waits for your input",
            "notification_type": IDLE_NOTIFICATION,
        }
        self._dispatcher.announce("Notification", (IDLE_NOTIFICATION,), fields)

    async def end(self) -> None:
        """Tell hooks that the session ends; only the root's does. The caller sets the deadline."""
        if not self._current.spec.depth:
            await self._ask("SessionEnd", {"reason": "other"}, "", name="other")

    async def _ask(
        self, event: HookEvent, fields: dict[str, object], turn_id: str, *, name: str = ""
    ) -> HookVerdict:
        hooks = self._dispatcher.concerned(event, (name,))
        if not hooks:
            return NO_VERDICT
        return await self._dispatcher.ask(hooks, lambda _: (fields,), turn_id=turn_id)


def _stop_reason(verdict: HookVerdict) -> str | None:
    if verdict.denied is not None:
        return verdict.denied
    if verdict.stopped is not None:
        return verdict.stopped or "a hook ended it"
    return None
