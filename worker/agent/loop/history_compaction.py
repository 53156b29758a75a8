"""Compaction of an agent's history: when, by which means, and how it is undone.

A compaction runs between two requests, when no call is open, and replaces the history and notifies
the supervisor in one step. It is bounded: one that freed too little is not repeated before the
history has grown, and a history that cannot be made to fit fails its turn with the reason.
"""

from typing import Literal

import trio

from swarm.mailbox.base.errors import MessageTooLarge
from swarm.mailbox.protocol.changes import CompactionInfo
from swarm.mailbox.protocol.events import Waiting, Warned
from swarm.mailbox.protocol.items import AnyItem, decode_item
from swarm.mailbox.protocol.ops import UndoCompaction
from swarm.mailbox.protocol.requests import ChangesReply, ListChanges
from swarm.mailbox.protocol.sampling import ModelInfo, SampleFailed, chain_digest

from ...base.token_meter import FULL_PERCENT, compaction_limit, measure_item, usable_window
from ..context.compacted_history import (
    build_compacted_history,
    compaction_budget,
    provider_ending,
    summary_message,
)
from ..context.context_blocks import harness_text
from ..context.history_trimming import trim_history
from ..context.pinned_state import PinnedState, collect_state
from ..context.prompt_context import find_known_context
from ..state.agent_state import AgentState
from ..state.sampler import SamplingError
from ..turn.turn_state import Turn
from .compaction_hooks import is_held_back, tell_hooks
from .history_summary import request_provider_compaction, request_summary

Trigger = Literal["limit", "overflow", "person"]
Means = Literal["model", "provider", "cut"]
# Share of the refused size to trim to, at the second and third overflow in a row.
CUT_SHARES = (0.5, 0.2)
_MIN_GROWTH_TOKENS = 256  # growth before a compaction that freed little is tried again
# For the supervisor's ListChanges reply; without it only the patches' changes are known.
_CHANGES_LIMIT_S = 5.0
_MIN_LEARNED_SHARE = 0.25  # lower bound of the learned window, as a share of the declared one


class HistoryCompactor:
    """Compacts one agent's history; lives as long as the agent."""

    def __init__(self, state: AgentState) -> None:
        self._state = state
        self._compaction_requested = False
        self._undo_requested: UndoCompaction | None = None
        self._scope: trio.CancelScope | None = None  # of work while no turn runs
        self._count = 0
        self._items_after_last = 0  # items of the history when it was last compacted
        self._retry_above_tokens = 0  # set when the last compaction stayed over the limit
        self._waits_for_full_window = False  # after an undo: compact when the window is full
        self._learned_window: int | None = None  # from a refusal: smaller than the declared one
        self._overflows = 0  # in a row
        self._remote_failed = False
        self._changes: ChangesReply | None = None  # changed files, by the supervisor's latest reply

    # --- requests ----------------------------------------------------------------------------

    @property
    def is_requested(self) -> bool:
        """True if a person requested a compaction or an undo that is still to be done."""
        return self._compaction_requested or self._undo_requested is not None

    @property
    def is_running(self) -> bool:
        """True while a compaction or undo runs between two turns."""
        return self._scope is not None

    def request(self) -> None:
        """Request a compaction, for a person."""
        self._compaction_requested = True

    def request_undo(self, op: UndoCompaction) -> None:
        """Request the undo of a compaction, for a person."""
        self._undo_requested = op

    async def run_while_idle(self) -> None:
        """Perform the requested work while no turn runs."""
        state = self._state
        with trio.CancelScope() as self._scope:
            try:
                model = await state.wait_model()
                state.begin_sampling(model)
                await self.compact_if_needed(None, model)
            except SamplingError as trouble:
                self._compaction_requested, self._undo_requested = False, None
                self._warn(f"the history was not compacted: {trouble.failed.message}")
        if self._scope.cancelled_caught:
            self._compaction_requested, self._undo_requested = False, None
            self._warn("the compaction was interrupted; the history is as it was")
        self._scope = None

    def interrupt(self) -> None:
        """Cancel work that runs between turns; a turn's own compaction ends with the turn."""
        if self._scope is not None:
            self._scope.cancel()

    # --- triggers ----------------------------------------------------------------------------

    async def compact_if_needed(self, turn: Turn | None, model: ModelInfo) -> None:
        """Between two requests, do what a person requested or what the window requires.

        Raises SamplingError if the history must become shorter and cannot.
        """
        turn_id = "" if turn is None else turn.turn_id
        if self._undo_requested is not None:
            op, self._undo_requested = self._undo_requested, None
            self._undo_compaction(op, turn_id, model)
        if self._compaction_requested:
            self._compaction_requested = False
            await self._compact_for_person(turn_id, model)
        elif self._is_due(model):
            await self._compact(turn_id, model, "limit")

    async def handle_overflow(self, turn: Turn, model: ModelInfo, failed: SampleFailed) -> bool:
        """Shorten a history that a provider refused as too long. True if it is shorter now.

        A refusal that only may mean this shortens it once. Raises SamplingError like
        `compact_if_needed`.
        """
        self._overflows += 1
        tokens, is_known = self._state.meter.context_tokens, not failed.may_be_too_long
        if self._overflows == 1:
            if is_known:
                self._learn_window(tokens, model, failed.window_tokens)
            return await self._compact(turn.turn_id, model, "overflow")
        if self._overflows - 2 >= len(CUT_SHARES) or not is_known:
            return False
        await self._request_changes()
        room = int(tokens * CUT_SHARES[self._overflows - 2])
        return self._trim(turn.turn_id, model, "overflow", room_tokens=room)

    def note_response(self) -> None:
        """Note that a response came, so the request did fit."""
        self._overflows = 0

    def _is_due(self, model: ModelInfo) -> bool:
        state, limit = self._state, self._limit(model)
        if limit is None or len(state.history) <= self._items_after_last:
            return False
        coming = state.meter.calibrated(state.inbox.waiting_tokens)
        return state.meter.context_tokens + coming >= max(limit, self._retry_above_tokens)

    def _limit(self, model: ModelInfo) -> int | None:
        limit = compaction_limit(model, self._state.spec.inherited.context)
        if self._waits_for_full_window:
            limit = usable_window(model)
        if limit is None or self._learned_window is None:
            return limit
        return min(limit, self._learned_window)

    def _learn_window(self, tokens: int, model: ModelInfo, named_tokens: int | None) -> None:
        window = usable_window(model)
        if named_tokens is not None and (window is None or named_tokens < window):
            self._learned_window = named_tokens * FULL_PERCENT // 100
            refused = f"the provider says that its window has {named_tokens:,} tokens"
        elif window is None or tokens >= window:
            return
        else:
            self._learned_window = int(max(tokens * 0.9, window * _MIN_LEARNED_SHARE))
            refused = f"the provider refused about {tokens:,} tokens"
        said = "no number" if window is None else f"{window:,}"
        self._warn(
            f"{refused}, though {model.slug} is said to take {said}; from now on the history is "
            f"compacted at {self._learned_window:,} (set `model_context_window` to say what is "
            "right)"
        )

    async def _compact_for_person(self, turn_id: str, model: ModelInfo) -> None:
        """Compact because a person requested it; a failure does not end the turn."""
        if len(self._state.history) <= self._items_after_last:
            self._warn("there is nothing to compact")
            return
        try:
            await self._compact(turn_id, model, "person")
        except SamplingError as trouble:
            self._warn(f"the history was not compacted: {trouble.failed.message}")

    # --- compaction --------------------------------------------------------------------------

    async def _compact(self, turn_id: str, model: ModelInfo, trigger: Trigger) -> bool:
        """Compact by the provider, else the model, else by trimming. True if it is shorter now."""
        state = self._state
        tokens = state.meter.context_tokens
        if await is_held_back(state, turn_id, trigger):
            self._retry_above_tokens = tokens + max(tokens // 10, _MIN_GROWTH_TOKENS)
            return False
        state.reporter.emit_transient(
            Waiting(reason=f"compacting its history of {tokens:,} tokens")
        )
        await self._request_changes()
        items = state.decoded_history()
        room = compaction_budget(self._limit(model))
        ending = await self._provider_ending(turn_id, model, trigger)
        means: Means = "provider"
        summary = ""
        if not ending:
            means = "model"
            asked = await request_summary(state, turn_id, model, items, whole=trigger != "overflow")
            if asked.text:
                pinned = self._pinned_state(items)
                intro, summary = harness_text("summary_intro"), asked.text
                ending = (summary_message(intro, summary, pinned, room),)
            elif _is_out_of_budget(asked.failed) and trigger != "overflow":
                return False  # the next sample gets the same refusal, and the turn handles it
            else:
                return self._trim_without_model(turn_id, model, trigger, asked.failed)
        context, known = state.build_context(model, from_scratch=True)
        rebuilt = build_compacted_history(
            items, context=context, ending=ending, room=room, measure=measure_item
        )
        rebuilt = self._trim_to_limit(rebuilt, model)
        self._replace(turn_id, rebuilt, trigger, means)
        state.known_context = known
        is_shorter = self._finish(model)
        await tell_hooks(state, turn_id, trigger, summary)
        return is_shorter

    async def _provider_ending(
        self, turn_id: str, model: ModelInfo, trigger: Trigger
    ) -> tuple[AnyItem, ...]:
        if not model.remote_compaction or self._remote_failed or trigger == "overflow":
            return ()
        state = self._state
        output = await request_provider_compaction(state, turn_id, model)
        if not isinstance(output, SampleFailed):
            pinned = self._pinned_state(state.decoded_history())
            if ending := provider_ending(output, pinned):
                return ending
        why = output.message if isinstance(output, SampleFailed) else "it sealed nothing"
        self._remote_failed = True
        self._warn(f"the provider's own compaction failed ({why}); the model is asked from now on")
        return ()

    def _trim_to_limit(self, rebuilt: tuple[AnyItem, ...], model: ModelInfo) -> tuple[AnyItem, ...]:
        """Trim a rebuilt history that is still over the limit, if trimming helps."""
        meter, limit = self._state.meter, self._limit(model)
        size = sum(map(measure_item, rebuilt))
        if limit is None or meter.calibrated(size + meter.head_tokens) < limit:
            return rebuilt
        return self._trim_items(rebuilt, room_tokens=limit) or rebuilt

    def _trim_without_model(
        self, turn_id: str, model: ModelInfo, trigger: Trigger, failed: SampleFailed | None
    ) -> bool:
        tokens = self._state.meter.context_tokens
        limit = min(self._limit(model) or tokens, tokens)
        if not self._trim(turn_id, model, trigger, room_tokens=limit // 2):
            return False
        why = "the model gave no summary" if failed is None else failed.message
        self._warn(f"the history was cut and not summarized: {why}")
        return True

    def _trim(self, turn_id: str, model: ModelInfo, trigger: Trigger, *, room_tokens: int) -> bool:
        items = self._state.decoded_history()
        shorter = self._trim_items(items, room_tokens=room_tokens)
        if shorter is None and (limit := self._limit(model)) is not None:
            shorter = self._trim_items(items, room_tokens=limit)
        if shorter is None:
            return False
        self._replace(turn_id, shorter, trigger, "cut")
        return self._finish(model)

    def _trim_items(
        self, items: tuple[AnyItem, ...], *, room_tokens: int
    ) -> tuple[AnyItem, ...] | None:
        """Trim; `room_tokens` is the size of a whole request, as the server counts."""
        state = self._state
        return trim_history(
            items,
            room_tokens=state.meter.uncalibrated(room_tokens) - state.meter.head_tokens,
            note=harness_text("cut_note"),
            state=self._pinned_state(items),
            measure=measure_item,
        )

    async def _request_changes(self) -> None:
        with trio.move_on_after(_CHANGES_LIMIT_S):
            reply = await self._state.reporter.request(ListChanges())
            self._changes = reply if isinstance(reply, ChangesReply) else self._changes

    def _pinned_state(self, items: tuple[AnyItem, ...]) -> PinnedState:
        state = self._state
        return collect_state(
            items, agents=state.agent_labels(), seen=self._changes, cwd=state.spec.cwd
        )

    def _replace(
        self, turn_id: str, items: tuple[AnyItem, ...], trigger: Trigger, means: Means
    ) -> None:
        state = self._state
        meter, size = state.meter, sum(map(measure_item, items))
        self._count += 1
        shortened = CompactionInfo(
            compaction_id=f"{state.spec.agent_id[-8:]}-{state.spec.epoch}-c{self._count}",
            trigger=trigger,
            means=means,
            before_tokens=meter.context_tokens,
            after_tokens=meter.calibrated(meter.head_tokens + size),
            before_items=len(state.history),
        )
        try:
            state.replace_history(turn_id, items, shortened=shortened)
        except MessageTooLarge as error:
            raise _trouble(f"even compacted it cannot be told: {error}") from error
        meter.start_over(size)
        self._waits_for_full_window, self._items_after_last = False, len(items)

    def _finish(self, model: ModelInfo) -> bool:
        """Emit the token count and delay the next compaction if this one freed too little.

        Raises SamplingError if what must stay does not fit the window.
        """
        state, limit, window = self._state, self._limit(model), usable_window(model)
        tokens = state.meter.context_tokens
        self._emit_token_count(model)
        self._retry_above_tokens = 0
        if window is not None and tokens > window:
            raise _too_long_error(tokens, window)
        if limit is not None and tokens >= limit:
            self._retry_above_tokens = tokens + max(limit // 10, _MIN_GROWTH_TOKENS)
            self._warn(
                f"the compacted history still holds about {tokens:,} tokens, over the limit of "
                f"{limit:,}: instructions, tools and the task take that much; raise "
                "`model_auto_compact_token_limit`"
            )
        return True

    # --- undo --------------------------------------------------------------------------------

    def _undo_compaction(self, op: UndoCompaction, turn_id: str, model: ModelInfo) -> None:
        state = self._state
        raws = state.history.all_items()
        digest = b""
        for raw in raws[: op.base_count]:
            digest = chain_digest(digest, bytes(raw))
        if len(raws) < op.base_count or digest != op.base_digest:
            self._warn("the compaction was not taken back: the history was replaced since")
            return
        restored = (*op.items, *raws[op.base_count :])
        items = tuple(decode_item(bytes(raw)) for raw in restored)
        size, window = sum(map(measure_item, items)), usable_window(model)
        tokens = state.meter.calibrated(size + state.meter.head_tokens)
        if window is not None and tokens >= window:
            self._warn(
                f"the compaction was not taken back: the history would hold about {tokens:,} "
                f"tokens, and {model.slug} takes {window:,}"
            )
            return
        try:
            state.replace_history(turn_id, items, undoes=op.compaction_id)
        except MessageTooLarge as error:
            self._warn(f"the compaction was not taken back: {error}")
            return
        state.known_context = find_known_context(items, cwd=state.spec.cwd)
        state.meter.start_over(size)
        self._waits_for_full_window, self._items_after_last, self._retry_above_tokens = True, 0, 0
        self._emit_token_count(model)

    # --- reports -----------------------------------------------------------------------------

    def _emit_token_count(self, model: ModelInfo) -> None:
        state = self._state
        turn_id = "" if state.turn is None else state.turn.turn_id
        state.reporter.emit(state.meter.take_count(turn_id, model))

    def _warn(self, message: str) -> None:
        self._state.reporter.emit(Warned(message=message))


def _is_out_of_budget(failed: SampleFailed | None) -> bool:
    return failed is not None and failed.kind == "refused_budget"


def _too_long_error(tokens: int, window: int) -> SamplingError:
    return _trouble(
        f"even compacted it holds about {tokens:,} tokens of {window:,}: instructions, AGENTS.md "
        "and the task alone are too long"
    )


def _trouble(message: str) -> SamplingError:
    return SamplingError(
        SampleFailed(request_id=0, kind="context_window_exceeded", message=message)
    )
