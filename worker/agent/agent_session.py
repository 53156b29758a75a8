"""One agent's state, in memory only: history, inbox, usage, and the turn that runs.

Rule guarded: the history and what the supervisor was told of it are changed in one step, without
an await between them. The agent owns no files; the supervisor's journal is the memory.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec
import trio

from swarm.mailbox.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.errors import MessageTooLarge
from swarm.mailbox.fragments import MAX_MESSAGE_BYTES
from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.events import ContextReplaced, ItemCompleted, Warned, encode_event
from swarm.mailbox.protocol.items import (
    AnyItem,
    AnyOutput,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    Message,
    decode_item,
    encode_item,
    text_message,
)
from swarm.mailbox.protocol.ops import Mail, Notice, UndoCompaction, UserInput
from swarm.mailbox.protocol.rules import RuleSet
from swarm.mailbox.protocol.sampling import ModelInfo, ToolSpec
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.roles.login_shell import find_shell, shell_name

from ..tools.orchestrator import Orchestrator
from ..tools.team_client import TeamClient
from .context import context_blocks
from .context.context_limits import with_configured_window
from .context.conversation_history import ConversationHistory
from .context.history_repair import repair_history, without_latest_images
from .context.prompt_context import ToldContext, context_items, find_told_context, instructions_for
from .context.token_meter import TokenMeter, estimate_item, estimate_tokens
from .context.truncate import truncate_output
from .reporter import PendingEvent, Reporter
from .sampler import OpenMailbox, Sampler
from .time_zone import local_timezone
from .turn.guidance_watch import GuidanceWatch
from .turn.history_compaction import HistoryCompactor
from .turn.inbox import Inbox
from .turn.pause import PauseState
from .turn.turn_loop import run_turn
from .turn.turn_state import AbortReason, PendingCall, Turn

Source = Literal["context", "user", "mail", "model", "tool", "note"]


class AgentSession:
    """State and the steps that change it. `drive` owns the turns; one runs at a time."""

    def __init__(
        self,
        spec: AgentSpec,
        reporter: Reporter,
        dial: OpenMailbox,
        chances: EntropySources = SYSTEM_ENTROPY,
    ) -> None:
        self.spec, self.reporter = spec, reporter
        self._entropy = chances
        self.new_id, self.noise = self._entropy.new_id, self._entropy.noise
        self.inbox = Inbox()
        self.team = TeamClient(spec, reporter, self.inbox)
        self.meter = TokenMeter(spec.total_usage)
        self.turn: Turn | None = None
        self.output_schema = spec.output_schema  # of the last turn; one without words keeps to it
        self.told_context = ToldContext()
        self.compactor = HistoryCompactor(self)
        self._guidance = GuidanceWatch(spec, ())
        self._guidance_text = spec.user_instructions
        self._is_first_context = spec.epoch == 1  # the chain was read for this very beginning
        self._closing = False
        self._item_count = 0
        self._last_output_event: PendingEvent | None = (
            None  # the last one that was said, perhaps not written yet
        )
        self._tools: tuple[str, tuple[ToolSpec, ...]] | None = None
        self._timezone = local_timezone(spec.environment)
        self.sampling_started = trio.Event()  # the first turn is about to sample
        self._work_arrived = trio.Event()
        self._idle = trio.Event()
        self.wanted_settings: AgentSettings | None = None  # from the next turn on
        self.on_settings_applied: Callable[[AgentSpec], None] = lambda spec: None  # tools are told
        self.on_rules_changed: Callable[[RuleSet], None] = lambda rules: None  # likewise
        self.pause = PauseState(reporter, paused=spec.paused)
        self.end_commands_requested = trio.Event()  # set: what commands still run are to end now
        self.tells_commands_ended = False  # and no turn's end tells the model so
        self.history = self._restore()
        self.sampler = Sampler(spec, self.history, dial)
        self.sampler.before_sample = self.wait_outputs_journaled
        self._orchestrator: Orchestrator | None = None

    @property
    def orchestrator(self) -> Orchestrator:
        """Who performs calls; set once, before the first turn."""
        if self._orchestrator is None:
            raise RuntimeError("the session was given no tools")
        return self._orchestrator

    def set_orchestrator(self, orchestrator: Orchestrator) -> None:
        """Give the session its tools."""
        self._orchestrator = orchestrator

    def tool_specs(self, model: ModelInfo) -> tuple[ToolSpec, ...]:
        """What this model is told of the tools; made once a model."""
        if self._tools is None or self._tools[0] != model.slug:
            self._tools = model.slug, self.orchestrator.registry.specs(model)
        return self._tools[1]

    async def wait_model(self) -> ModelInfo:
        """The model, with the window that the configuration says. Raises SampleTrouble."""
        return with_configured_window(await self.sampler.wait_model(), self.spec.context)

    def apply_wanted_settings(self) -> None:
        """Between two turns: work as was last wanted."""
        wanted, self.wanted_settings = self.wanted_settings, None
        if wanted is None:
            return
        has_other_model = wanted.model != self.spec.model
        self.spec = self.team.spec = msgspec.structs.replace(
            self.spec,
            model=wanted.model,
            effort=wanted.effort,
            summary=wanted.summary,
            verbosity=wanted.verbosity,
            limits=wanted.limits,
            cwd=wanted.cwd or self.spec.cwd,
        )
        self._tools = None
        self.on_settings_applied(self.spec)
        if has_other_model:
            self.sampler.change_model(self.spec)

    def add_rule(self, prefix: tuple[str, ...]) -> None:
        """What is judged from here on knows it, in the running turn too."""
        rules = self.spec.rules.allowing(prefix)
        self.spec = self.team.spec = msgspec.structs.replace(self.spec, rules=rules)
        self.on_rules_changed(rules)

    def begin_sampling(self, model: ModelInfo) -> None:
        """A turn is about to sample this model."""
        head = len(instructions_for(self.spec, model).encode())
        for tool in self.tool_specs(model):
            head += len(tool.name) + len(tool.description) + len(tool.parameters)
        self.meter.head_tokens = estimate_tokens(head)
        self.sampling_started.set()

    async def run_turns(self) -> None:
        """Run turns one after another, as the inbox calls for them; for ever."""
        while True:
            opening = self.inbox.next_opening()
            if opening is not None and not self._closing:
                self._idle = trio.Event()
                await run_turn(self, opening)
                continue
            if self.compactor.is_requested and not self._closing:
                self._idle = trio.Event()
                await self.compactor.run_while_idle()
                continue
            self._idle.set()
            self._work_arrived = trio.Event()
            await self._work_arrived.wait()

    def admit_input(self, words: UserInput) -> None:
        """A person's words: they steer the running turn, or start one."""
        running = self.turn is not None and self.turn.is_open
        if self.inbox.add_input(words, running=running):
            self._work_arrived.set()

    def deliver_mail(self, mail: Mail) -> None:
        """A letter: it joins the running turn, or the next one, or starts one."""
        if self.inbox.add_mail(mail):
            self._work_arrived.set()

    def add_notice(self, text: str) -> None:
        """Something to be told before the next request."""
        self.inbox.add_notice(Notice(notice_id=self.new_id(), text=text))

    def interrupt(self, reason: AbortReason, *, keep_commands: bool = False) -> None:
        """Abort the running turn, if its end is not decided yet. What comes later starts anew.

        Its commands end with it, those of an idle agent too, unless they are to be kept.
        """
        aborted = self._abort_turn(reason, commands_ended=not keep_commands)
        self.compactor.interrupt()
        if not keep_commands:
            self.tells_commands_ended = not aborted
            self.end_commands_requested.set()

    def _abort_turn(self, reason: AbortReason, *, commands_ended: bool) -> bool:
        if self.turn is None or not self.turn.is_open:
            return False
        self.turn.commands_ended = commands_ended
        self.turn.abort(reason, unread=self.inbox.drain_inputs())
        return True

    def request_compaction(self, undo: UndoCompaction | None) -> None:
        """A person wants the history shortened, or what it was before: before the next request."""
        if undo is None:
            self.compactor.request()
        else:
            self.compactor.request_undo(undo)
        self._work_arrived.set()

    async def close(self) -> None:
        """Abort the turn, start no other, return at rest; the caller sets the deadline.

        Its commands are the caller's to end.
        """
        self._closing = True
        self._abort_turn("interrupted", commands_ended=True)
        self.compactor.interrupt()
        await self._idle.wait()

    def new_item_id(self) -> str:
        """An item id, unique in the run: agent, life, count."""
        self._item_count += 1
        return f"{self.spec.agent_id[-8:]}-{self.spec.epoch}-{self._item_count}"

    def record(
        self, turn_id: str, item: AnyItem, *, source: Source, item_id: str | None = None
    ) -> None:
        """Add an item to the history and say so, in one step. It is encoded here, once."""
        raw = self.history.append(item)
        self.meter.add_item(estimate_item(item, encoded_bytes=len(bytes(raw))))
        told = ItemCompleted(
            turn_id=turn_id, item=raw, item_id=item_id or self.new_item_id(), source=source
        )
        if source == "tool":
            self._last_output_event = self.reporter.emit_tracked(told)
        else:
            self.reporter.emit(told)

    async def wait_outputs_journaled(self) -> None:
        """Return once every output so far is on disk: only then may a model read it. Else what it
        does next could follow from something that no later life knows of.
        """
        if self._last_output_event is not None:
            await self.reporter.wait_journaled(self._last_output_event)
            self._last_output_event = None

    def record_context(self, turn: Turn, model: ModelInfo) -> None:
        """Add what the model must know first, or what of it has changed."""
        if self._guidance.is_enabled and not self._is_first_context:
            self._guidance_text = self._guidance.read_chain()
        self._is_first_context = False
        items, self.told_context = self.build_context(model)
        for item in items:
            self.record(turn.turn_id, item, source="context")

    def build_context(
        self, model: ModelInfo, *, anew: bool = False
    ) -> tuple[tuple[Message, ...], ToldContext]:
        """What the model must be told that it was not; `anew`: as if nothing had been told."""
        today = datetime.fromtimestamp(self._entropy.unix_s()).astimezone()
        place = context_blocks.EnvironmentFacts(
            cwd=self.spec.cwd,
            date=f"{today:%Y-%m-%d}",
            timezone=self._timezone,
            shell=shell_name(find_shell(self.spec.environment)),
            subagents=self.team.list_children(newest=context_blocks.MAX_SUBAGENTS),
            older_subagents=max(0, len(self.team.children) - context_blocks.MAX_SUBAGENTS),
        )
        told = ToldContext() if anew else self.told_context
        spec = msgspec.structs.replace(self.spec, user_instructions=self._guidance_text)
        return context_items(spec, place=place, model=model, told=told)

    def agent_labels(self) -> tuple[str, ...]:
        """The agents below this one, as its model is told of them."""
        return tuple(
            f"{name} ({nick})" if nick else name for name, nick in self.team.list_children()
        )

    def decoded_history(self) -> tuple[AnyItem, ...]:
        """Every item, opened; takes as long as the history is."""
        return tuple(decode_item(bytes(raw)) for raw in self.history.all_items())

    def replace_history(
        self,
        turn_id: str,
        items: Sequence[AnyItem],
        *,
        shortened: CompactionInfo | None = None,
        undoes: str = "",
        rolled_back: int = 0,
    ) -> None:
        """Go on with other items, and say so, in one step.

        Raises MessageTooLarge: they are too many to be told; nothing was changed.
        """
        raws = tuple(msgspec.Raw(encode_item(item)) for item in items)
        told = ContextReplaced(
            turn_id=turn_id,
            items=raws,
            shortened=shortened,
            undoes=undoes,
            rolled_back=rolled_back,
        )
        if (size := len(encode_event(told))) > MAX_MESSAGE_BYTES:
            raise MessageTooLarge(size_bytes=size, limit_bytes=MAX_MESSAGE_BYTES)
        self.history.replace(raws)
        self.reporter.emit(told)

    def record_pending(self, turn: Turn) -> None:
        """Add what waits in the inbox and may be read now."""
        for notice in self.inbox.drain_notices():
            self.record(turn.turn_id, text_message("developer", notice.text), source="note")
        for entry in self.inbox.drain():
            match entry:
                case UserInput():
                    self.record_input(turn, entry)
                case Mail():
                    letter = context_blocks.mail_message(
                        entry, known=self.team.was_result_shown(entry)
                    )
                    self.record(turn.turn_id, letter, source="mail", item_id=entry.mail_id)

    def record_input(self, turn: Turn, words: UserInput) -> None:
        """Add a person's words; a schema that they carry holds for the rest of the turn."""
        turn.output_schema = words.output_schema or turn.output_schema
        message = context_blocks.user_message(words.parts)
        self.record(turn.turn_id, message, source="user", item_id=words.input_id)

    def record_outputs(self, turn: Turn) -> None:
        """Add the outputs of the response's calls, in call order; an aborted one says so."""
        limit = 10_000 if turn.model is None else turn.model.output_limit_tokens
        turn.check_repetition()
        for pending in turn.pending:
            turn.declined |= pending.outcome is not None and pending.outcome.status == "declined"
            self.record(turn.turn_id, _output_item(pending, limit), source="tool")
        turn.pending.clear()
        self._record_folder_guidance(turn)

    def _record_folder_guidance(self, turn: Turn) -> None:
        """Add the AGENTS.md files of folders below where these calls have worked, each once."""
        if turn.model is None or turn.model.short_prompt:
            return
        for one in self._guidance.find_new_guidance(self.orchestrator.drain_details()):
            block = context_blocks.guidance_text(one.text, cwd=one.folder)
            self.record(turn.turn_id, text_message("user", block), source="context")
        for warning in self._guidance.warnings:
            self.reporter.emit(Warned(message=warning))
        self._guidance.warnings.clear()

    def remove_latest_images(self, turn: Turn) -> bool:
        """Replace the images of the latest output that has any; False if none has."""
        items = without_latest_images(self.decoded_history())
        if items is None:
            return False
        try:
            self.replace_history(turn.turn_id, items)
        except MessageTooLarge:
            return False
        return True

    def _restore(self) -> ConversationHistory:
        """The history of former lives, made whole; outputs added for that are said."""
        if not self.spec.history:
            return ConversationHistory()
        items = tuple(decode_item(bytes(raw)) for raw in self.spec.history)
        ended = {call.call_id: call for call in self.spec.ended_calls}
        repaired = repair_history(items, interrupted=self.spec.interrupted_calls, ended=ended)
        self.told_context = find_told_context(items, cwd=self.spec.cwd)
        self._guidance = GuidanceWatch(self.spec, items)
        kept = repaired.items[: len(repaired.items) - len(repaired.added)]
        history = ConversationHistory()
        for item in kept:
            raw = history.append(item)
            self.meter.add_item(estimate_item(item, encoded_bytes=len(bytes(raw))))
        self.history = history
        for output in repaired.added:
            self.record("", output, source="tool")
        return history


def _output_item(pending: PendingCall, limit_tokens: int) -> AnyOutput:
    kind = CustomToolCallOutput if isinstance(pending.call, CustomToolCall) else FunctionCallOutput
    outcome = pending.outcome
    if outcome is None:
        elapsed_s = max(0.1, trio.current_time() - pending.started)
        text = pending.aborted_text.replace("{seconds}", f"{elapsed_s:.1f}")
        return kind(call_id=pending.call.call_id, output=text, success=False)
    content = truncate_output(outcome.content, limit_tokens=limit_tokens)
    done = outcome.status == "completed"
    return kind(call_id=pending.call.call_id, output=content, success=done)
