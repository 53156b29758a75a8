"""One agent's state, in memory only: history, inbox, usage and the running turn.

The history changes and the supervisor is notified in one step, without an await between them. The
agent owns no files; the supervisor's journal is the durable copy.
"""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec
import trio

from swarm.mailbox.base.entropy import SYSTEM_ENTROPY, EntropySources
from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.delivery.envelope import MAX_MESSAGE_BYTES
from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.context_sizes import TextSize
from swarm.mailbox.protocol.events import (
    ContextReplaced,
    ItemCompleted,
    ProviderFallback,
    Warned,
    encode_event,
)
from swarm.mailbox.protocol.items import (
    AnyItem,
    Message,
    decode_item,
    encode_item,
    text_message,
    text_of,
)
from swarm.mailbox.protocol.ops import LearnRule, ListSkills, Mail, UserInput
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed, ToolSpec
from swarm.mailbox.protocol.settings import AgentSettings
from swarm.mailbox.protocol.spec import AgentSpec
from swarm.roles.base.guidance import Guidance
from swarm.roles.base.login_shell import find_shell, shell_name

from ...base.current_spec import CurrentSpec
from ...base.reporter import PendingEvent, Reporter
from ...base.token_meter import TokenMeter, estimate_item, estimate_tokens, with_configured_window
from ...parts.hooks.session_hooks import SessionHooks
from ...parts.turn_parts import TurnParts
from ...tools.interface.team_client import TeamClient
from ...tools.orchestrator import Orchestrator
from ..context import context_blocks
from ..context.conversation_history import ConversationHistory
from ..context.history_repair import repair_history, without_latest_images
from ..context.prompt_context import (
    KnownContext,
    context_items,
    find_known_context,
    instructions_for,
)
from ..turn.guidance_watch import GuidanceWatch
from ..turn.pause import PauseState
from ..turn.project_overview import ProjectOverview, latest_task
from ..turn.turn_state import AbortReason, Turn
from .provider_fallback import next_provider
from .sampler import OpenMailbox, Sampler

Source = Literal["context", "user", "mail", "model", "tool", "note"]


class AgentState:
    """State of an agent and the steps that change it. Turns and compactions work on it."""

    def __init__(
        self,
        current: CurrentSpec,
        reporter: Reporter,
        team: TeamClient,
        orchestrator: Orchestrator,
        *,
        hooks: SessionHooks,
        dial: OpenMailbox,
        entropy: EntropySources = SYSTEM_ENTROPY,
    ) -> None:
        self._current = current
        self.reporter = reporter
        self.team = team
        self.inbox = team.inbox
        self.parts = TurnParts()  # what they tell starts no turn
        self.orchestrator = orchestrator
        self.hooks = hooks
        spec = current.spec
        self._entropy = entropy
        self.new_id = entropy.new_id
        self.noise = entropy.noise
        self.meter = TokenMeter(spec.resumed.total_usage)
        self.turn: Turn | None = None
        self.output_schema = spec.resumed.output_schema  # kept by a turn without user input
        self.known_context = KnownContext()
        self._guidance = GuidanceWatch(current, ())
        self._overview = ProjectOverview(current)
        self._chain = Guidance(
            text=spec.inherited.user_instructions, files=spec.inherited.guidance_files
        )
        self._is_first_context = spec.epoch == 1  # the spec's AGENTS.md texts are current
        self._item_count = 0
        self._last_output_event: PendingEvent | None = None  # perhaps not posted yet
        self._tools: tuple[str, tuple[ToolSpec, ...]] | None = None
        self._timezone = _local_timezone(spec.environment)
        self.sampling_started = trio.Event()  # the first turn is about to sample
        self.wanted_settings: AgentSettings | None = None  # from the next turn on
        self.pause = PauseState(reporter, paused=spec.paused)
        self.end_commands_requested = trio.Event()  # set: end the running commands
        self.tells_commands_ended = False  # True: a notice reports it, as no abort note does
        self.history = self._restore()
        self.sampler = Sampler(
            current, self.history, dial, before_sample=self.wait_outputs_journaled
        )

    @property
    def spec(self) -> AgentSpec:
        """The agent's spec with the settings that hold now."""
        return self._current.spec

    @property
    def guidance_files(self) -> tuple[TextSize, ...]:
        """The files of the AGENTS.md text of the working directory, as it was told last."""
        return self._chain.files

    def tool_specs(self, model: ModelInfo) -> tuple[ToolSpec, ...]:
        """Return the tool specs for this model; computed once per model and list of tools."""
        name = f"{model.provider}:{model.slug}:{self.orchestrator.registry.version}"
        if self._tools is None or self._tools[0] != name:
            self._tools = name, self.orchestrator.registry.specs(model)
        return self._tools[1]

    async def wait_model(self) -> ModelInfo:
        """Return the model, with the configured context window. Raises SamplingError."""
        model = await self.sampler.wait_model()
        await self.orchestrator.registry.complete()
        return with_configured_window(model, self.spec.inherited.context)

    def apply_wanted_settings(self) -> None:
        """Apply the settings that were last received; called between two turns."""
        wanted, self.wanted_settings = self.wanted_settings, None
        if wanted is None:
            return
        spec = self.spec
        has_other_model = (wanted.model, wanted.provider) != (
            spec.model_settings.model,
            spec.model_settings.provider,
        )
        self._current.apply_settings(wanted)
        self._tools = None
        if has_other_model:
            self.sampler.reopen_conversation()

    def use_fallback(self, turn: Turn, failed: SampleFailed) -> bool:
        """After a provider's final failure: use the next one of the list, and say so.

        Returns False if the failure stands.
        """
        model = self.sampler.model
        chosen = next_provider(self.spec, model, failed)
        if chosen is None:
            return False
        event = ProviderFallback(
            turn_id=turn.turn_id,
            failed_provider=(model.provider if model else self.spec.model_settings.provider) or "",
            failed_model=(model.slug if model else self.spec.model_settings.model) or "",
            kind=failed.kind,
            message=failed.message,
            provider=chosen.reference.provider or "",
            model=chosen.reference.model,
            taken=chosen.taken,
        )
        self._current.use_fallback(chosen.reference, taken=chosen.taken)
        self.sampler.reopen_conversation()
        self.reporter.emit(event)
        return True

    def learn(self, op: LearnRule | ListSkills) -> None:
        """Take a rule that a person saved, or a new list of skills."""
        self._current.learn(op)

    def begin_sampling(self, model: ModelInfo) -> None:
        """Prepare for a turn that is about to sample this model."""
        head = len(instructions_for(self.spec, model).encode())
        for tool in self.tool_specs(model):
            head += len(tool.name) + len(tool.description) + len(tool.parameters)
        self.meter.head_tokens = estimate_tokens(head)
        turn_id = self.turn.turn_id if self.turn is not None else ""
        self.orchestrator.registry.note_model(turn_id, model)
        self.sampling_started.set()

    def interrupt(self, reason: AbortReason, *, keep_commands: bool = False) -> None:
        """Abort the running turn unless its end is already decided. Later input starts a new turn.

        The turn's commands end with it, and those of an idle agent too, unless `keep_commands`.
        """
        aborted = self.abort_turn(reason, commands_ended=not keep_commands)
        if not keep_commands:
            self.tells_commands_ended = not aborted
            self.end_commands_requested.set()

    def abort_turn(self, reason: AbortReason, *, commands_ended: bool) -> bool:
        """Abort the running turn; False if there is none or its end is decided."""
        if self.turn is None or not self.turn.is_open:
            return False
        self.turn.commands_ended = commands_ended
        self.turn.abort(reason, unread=self.inbox.drain_inputs())
        return True

    def new_item_id(self) -> str:
        """Return an item id that is unique in the run: agent, epoch, count."""
        self._item_count += 1
        return f"{self.spec.agent_id[-8:]}-{self.spec.epoch}-{self._item_count}"

    def record(
        self,
        turn_id: str,
        item: AnyItem,
        *,
        source: Source,
        item_id: str | None = None,
        is_output: bool = False,
    ) -> None:
        """Append an item to the history and emit it, in one step; encodes the item once.

        `is_output`: it holds what a call brought, so that the next request waits for the journal.
        """
        raw = self.history.append(item)
        self.meter.add_item(estimate_item(item, encoded_bytes=len(bytes(raw))))
        event = ItemCompleted(
            turn_id=turn_id, item=raw, item_id=item_id or self.new_item_id(), source=source
        )
        if source == "tool" or is_output:
            self._last_output_event = self.reporter.emit_tracked(event)
        else:
            self.reporter.emit(event)

    async def wait_outputs_journaled(self) -> None:
        """Return once every tool output so far is journaled; only then may a model read it.
        Otherwise the model could act on an output that is unknown after a restart.
        """
        if self._last_output_event is not None:
            await self.reporter.wait_journaled(self._last_output_event)
            self._last_output_event = None

    def record_context(self, turn: Turn, model: ModelInfo) -> None:
        """Record the context that the model does not know yet or that has changed."""
        if self._guidance.is_enabled and not self._is_first_context:
            self._chain = self._guidance.read_chain()
        self._is_first_context = False
        items, self.known_context = self.build_context(model)
        for item in items:
            self.record(turn.turn_id, item, source="context")

    def build_context(
        self, model: ModelInfo, *, from_scratch: bool = False
    ) -> tuple[tuple[Message, ...], KnownContext]:
        """Return the context that the model does not know; `from_scratch`: as if it knew none."""
        today = datetime.fromtimestamp(self._entropy.unix_s()).astimezone()
        place = context_blocks.EnvironmentFacts(
            cwd=self.spec.cwd,
            date=f"{today:%Y-%m-%d}",
            timezone=self._timezone,
            shell=shell_name(find_shell(self.spec.environment)),
            subagents=self.team.list_children(newest=context_blocks.MAX_SUBAGENTS),
            older_subagents=max(0, len(self.team.children) - context_blocks.MAX_SUBAGENTS),
        )
        known = KnownContext() if from_scratch else self.known_context
        inherited = msgspec.structs.replace(self.spec.inherited, user_instructions=self._chain.text)
        spec = msgspec.structs.replace(self.spec, inherited=inherited)
        return context_items(spec, place=place, model=model, known=known)

    def agent_labels(self) -> tuple[str, ...]:
        """Return the labels of this agent's children, as its model is told of them."""
        return tuple(
            f"{name} ({nick})" if nick else name for name, nick in self.team.list_children()
        )

    def decoded_history(self) -> tuple[AnyItem, ...]:
        """Decode every item; takes time in proportion to the history."""
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
        """Replace the history and notify the supervisor, in one step.

        Raises MessageTooLarge if the items do not fit into one message; then nothing has changed.
        """
        raws = tuple(msgspec.Raw(encode_item(item)) for item in items)
        event = ContextReplaced(
            turn_id=turn_id,
            items=raws,
            shortened=shortened,
            undoes=undoes,
            rolled_back=rolled_back,
        )
        if (size := len(encode_event(event))) > MAX_MESSAGE_BYTES:
            raise MessageTooLarge(size_bytes=size, limit_bytes=MAX_MESSAGE_BYTES)
        self.history.replace(raws)
        self.reporter.emit(event)

    def record_pending(self, turn: Turn) -> None:
        """Record the notices, what parts tell, input and mail that may be read now."""
        for note in (*self.inbox.drain_notices(), *self.parts.drain()):
            self.record(turn.turn_id, note, source="note")
        for entry in self.inbox.drain():
            match entry:
                case UserInput():
                    self.record_input(turn, entry)
                case Mail():
                    if entry.kind in ("new_task", "followup"):
                        self.orchestrator.registry.note_task(entry.content)
                    self._record_overview(turn, entry.content)
                    message = context_blocks.mail_message(
                        entry, known=self.team.was_result_shown(entry)
                    )
                    self.record(turn.turn_id, message, source="mail", item_id=entry.mail_id)

    def record_input(self, turn: Turn, user_input: UserInput) -> None:
        """Record a person's input; its output schema holds for the rest of the turn."""
        if not self.inbox.take_check(user_input) and self.hooks.checks_prompts:
            # The turn ended before the hooks saw it: they may have refused it.
            self.record(
                turn.turn_id,
                context_blocks.withheld_message("the turn ended before its hooks had seen it"),
                source="note",
                item_id=user_input.input_id,
            )
            return
        turn.output_schema = user_input.output_schema or turn.output_schema
        for skill in context_blocks.skill_messages(user_input.parts):
            self.record(turn.turn_id, skill, source="note")
        message = context_blocks.user_message(user_input.parts)
        task = text_of(message.content)
        self.orchestrator.registry.note_task(task)
        self._record_overview(turn, task)
        self.record(turn.turn_id, message, source="user", item_id=user_input.input_id)
        turn.note_commands(user_input)

    def _record_overview(self, turn: Turn, task: str) -> None:
        """Record what a small model is shown of the project beside a task."""
        is_small = turn.model is not None and turn.model.constrained_calls
        if not (is_small and self.spec.inherited.context.environment):
            return
        if text := self._overview.describe(task):
            self.record(turn.turn_id, text_message("user", text), source="context")

    def record_outputs(self, turn: Turn) -> None:
        """Record the outputs of the response's calls, in call order, those of aborted ones too."""
        limit = 10_000 if turn.model is None else turn.model.output_limit_tokens
        turn.check_repetition()
        for pending in turn.pending:
            turn.declined |= pending.outcome is not None and pending.outcome.status == "declined"
            self.record(turn.turn_id, pending.output_item(limit_tokens=limit), source="tool")
        turn.pending.clear()
        self._record_folder_guidance(turn)

    def _record_folder_guidance(self, turn: Turn) -> None:
        """Record the AGENTS.md files of folders where these calls have worked, each once."""
        if turn.model is None or (turn.model.short_prompt and self.spec.role.prompt != "full"):
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
        """Rebuild the history of earlier processes and repair it; added outputs are emitted."""
        if not self.spec.resumed.history:
            return ConversationHistory()
        items = tuple(decode_item(bytes(raw)) for raw in self.spec.resumed.history)
        ended = {call.call_id: call for call in self.spec.resumed.ended_calls}
        repaired = repair_history(
            items, interrupted=self.spec.resumed.interrupted_calls, ended=ended
        )
        self.known_context = find_known_context(items, cwd=self.spec.cwd)
        self.parts.note_history(items)
        self._guidance = GuidanceWatch(self._current, items)
        if task := latest_task(items):
            self.orchestrator.registry.note_task(task)
        kept = repaired.items[: len(repaired.items) - len(repaired.added)]
        history = ConversationHistory()
        for item in kept:
            raw = history.append(item)
            self.meter.add_item(estimate_item(item, encoded_bytes=len(bytes(raw))))
        self.history = history
        for output in repaired.added:
            self.record("", output, source="tool")
        return history


def _local_timezone(environment: dict[str, str]) -> str:
    """Return the IANA name of the local time zone; Etc/UTC if the system does not tell it."""
    named = environment.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        link = os.readlink("/etc/localtime")  # noqa: PTH115 — a Path would cost each agent 15 pages
    except OSError:
        return "Etc/UTC"
    _, found, zone = link.partition("zoneinfo/")
    return zone if found else "Etc/UTC"
