"""One reviewer process, asked one question at a time until it is interrupted or ended.

It is read-only, asks nobody and starts no agents. Nothing from the reviewed project reaches its
instructions: the built-in role is used whatever roles the run has, without AGENTS.md, and only a
person's configuration adds a policy.

An answer counts only if it ends the same turn that the question began; a process that ends and a
turn that fails or is interrupted give no answer.
"""

import math
from functools import cache
from typing import NamedTuple

import msgspec
import trio

from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.model_reference import ModelReference
from swarm.mailbox.protocol.events import TokenCount, TurnCompleted, TurnFailed, TurnStarted
from swarm.mailbox.protocol.items import AnyItem, TokenUsage
from swarm.mailbox.protocol.ops import Notice, TextInput, UserInput
from swarm.mailbox.protocol.records import ContextRecorded, Record
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.settings import ModelSettings
from swarm.mailbox.protocol.spec import RoleBrief
from swarm.mailbox.protocol.values.limits import Limits, ReadOnly
from swarm.roles.role_loader import built_in_role

from ...agents.agent_record import Agent, AgentPlan
from ...agents.life.agent_manager import AgentManager
from ...context.run_context import RunContext
from ...journal.journal_reader import read_records
from ...journal.replay import AgentMemory, fold_agent
from ...request.run_request import ReviewSettings
from .assessment import SCHEMA
from .review_prompt import ReadCursor
from .reviewed_history import JournalTail

INTERRUPT_TIMEOUT_S = 5.0  # for an interrupted turn to end
_END_GRACE_S = 1.0
_TRANSIENT = frozenset(
    {"overloaded", "connection_failed", "stream_disconnected", "idle_timeout", "other"}
)

ROLE = "guardian"
_POLICY, _ANSWER = "# Policy\n", "# Your answer\n"
# No network, no children, no approvals: a request for one is refused.
LIMITS = Limits(
    sandbox=ReadOnly(network_access=False), approval="never", reviewer="nobody", max_depth=0
)


class NoReviewAnswer(Exception):
    """No answer came. `is_retryable`: the same process may be asked once more."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.is_retryable = again


class ReviewerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """What two reviews must have in common to share a process."""

    model_settings: ModelSettings
    cwd: str
    policy: str = ""


class ReviewUsage(NamedTuple):
    """Usage since the last reading; `usd` None: the price is not known."""

    usage: TokenUsage = TokenUsage()
    usd: float | None = None


class ReviewProgress(NamedTuple):
    """What a session has been shown at one moment."""

    cursors: dict[str, ReadCursor]
    reviews: int


class ReviewerSession:
    """One process with the reviewer's role, and how far it has read each agent's history.

    `committed_turn` is the turn of its latest completed review; forks start from there.
    """

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        *,
        profile: ReviewerProfile,
        path: str,
        after: ReviewProgress | None = None,
    ) -> None:
        """`after`: what the history that it starts with has shown it."""
        self._run, self._agents = running, agents
        self.profile = profile
        # Reviewed agent → how far it was shown.
        self.cursors = dict[str, ReadCursor]() if after is None else after.cursors
        self.reviews = 0 if after is None else after.reviews
        self.committed_turn = ""
        self.busy = False
        self.context_share = 0.0  # of the window, at its latest response
        self._last_turn = ""
        self._model: ModelInfo | None = None
        plan = AgentPlan(
            path=path,
            agent_id=running.entropy.new_id(),
            role=brief_for(profile),
            limits=LIMITS,
            cwd=profile.cwd,
            model_settings=profile.model_settings,
            slotless=True,
        )
        self._agent = Agent(plan)
        self._tail = JournalTail(running.paths.journal / f"{plan.agent_id}.jsonl")

    @property
    def path(self) -> str:
        return self._agent.path

    @property
    def progress(self) -> ReviewProgress:
        """A copy of what it has been shown so far."""
        return ReviewProgress(dict(self.cursors), self.reviews)

    @property
    def is_alive(self) -> bool:
        return not self._agent.gone.is_set() and self._agent.wanted_end is None

    async def start(self, history: tuple[AnyItem, ...] = ()) -> None:
        """Start the process. Raises SpawnError; if cancelled, the session counts as ended."""
        memory = AgentMemory(items=list(history)) if history else None
        if memory is not None:
            self._run.note(
                ContextRecorded(turn_id="", items=history),
                agent=self.path,
                file=self._agent.plan.agent_id,
            )
        self._agent.renew_process()
        try:
            await self._agents.start_process(self._agent, memory)
        except BaseException:
            self._agent.gone.set()
            raise

    async def ask(self, parts: tuple[str, ...], *, note: str = "") -> str:
        """Ask one question and return the last message of the turn. Raises NoReviewAnswer.

        Args:
            parts: The user's message; empty to let a failed turn continue.
            note: A developer message sent before it.
        """
        agent = self._agent
        if note:
            try:
                await self._run.send(agent, Notice(notice_id=self._run.entropy.new_id(), text=note))
            except PeerGone:
                raise NoReviewAnswer("the reviewer's process has ended") from None
        turn_id = self._last_turn = self._run.entropy.new_id()
        question = UserInput(
            input_id=turn_id,
            parts=tuple(TextInput(text=text) for text in parts),
            output_schema=SCHEMA,
        )
        await self._agents.send_input(agent, question)
        if not agent.gone.is_set():
            await agent.done.wait()
        end = agent.last_turn_end
        if agent.gone.is_set() or end is None or end.turn_id != turn_id:
            raise NoReviewAnswer("the reviewer's process ended before it had answered")
        match end:
            case TurnCompleted(out_of_budget=True) | TurnFailed(kind="refused_budget"):
                raise NoReviewAnswer("the budget of the run is used up")
            case TurnCompleted(last_message=text):
                return text or ""
            case TurnFailed(kind=kind, message=message):
                raise NoReviewAnswer(f"{kind}: {message}", again=kind in _TRANSIENT)
            case _:
                raise NoReviewAnswer("the review was interrupted")

    def commit(self, agent: str, cursor: ReadCursor) -> None:
        """The review is complete: what it was shown need not be shown again."""
        self.cursors[agent] = cursor
        self.reviews += 1
        self.committed_turn = self._last_turn

    async def read_usage(self) -> ReviewUsage:
        """Usage since the last call, from its journal; also updates `context_share`."""
        await self._run.journal.flush()
        try:
            records = await trio.to_thread.run_sync(self._tail.read_more)
        except (OSError, msgspec.DecodeError):
            return ReviewUsage()
        usage, usd = TokenUsage(), 0.0
        for record in records:
            match record.body:
                case TurnStarted(model=model):
                    self._model = model
                case TokenCount() as count:
                    usage = usage.plus(count.last)
                    usd += price_of(self._model, count.last)
                    self.context_share = count.context_tokens / (count.context_window or math.inf)
                case _:
                    pass
        return ReviewUsage(usage, None if math.isnan(usd) else round(usd, 9))

    async def committed_items(self) -> tuple[AnyItem, ...]:
        """Its history at the end of its latest completed review; () if there is none."""
        if not self.committed_turn:
            return ()
        places, file, turn_id = self._run.paths, self._agent.plan.agent_id, self.committed_turn
        await self._run.journal.flush()
        return await trio.to_thread.run_sync(
            lambda: items_at_end_of(list(read_records(places, file=file)), turn_id)
        )

    async def interrupt(self) -> bool:
        """Interrupt its turn; True if the turn ended in time and the process can be asked again."""
        agent = self._agent
        with trio.move_on_after(INTERRUPT_TIMEOUT_S):
            await self._agents.interrupt([agent], "the review is over")
            await agent.done.wait()
            return self.is_alive
        return False

    async def end(self) -> None:
        """End the process; bounded in time."""
        if self._agent.process.child is not None:
            await self._agents.end(self._agent, grace_s=_END_GRACE_S)


def items_at_end_of(records: list[Record], turn_id: str) -> tuple[AnyItem, ...]:
    """The history when this turn was completed; () if it never was. No I/O."""
    for index, record in enumerate(records):
        if isinstance(record.body, TurnCompleted) and record.body.turn_id == turn_id:
            return tuple(fold_agent(records[: index + 1]).items)
    return ()


def price_of(model: ModelInfo | None, usage: TokenUsage) -> float:
    """Price of one response in US dollars, as the gateway computes it; NaN if unknown. No I/O."""
    if model is None:
        return math.nan
    cached = min(usage.cached_input_tokens, usage.input_tokens)
    fresh = usage.input_tokens - cached
    price_in, price_out = model.input_usd_per_million, model.output_usd_per_million
    if (price_in is None and usage.input_tokens) or (price_out is None and usage.output_tokens):
        return math.nan
    price_cached = model.cached_usd_per_million
    price_cached = price_in if price_cached is None else price_cached
    total = fresh * (price_in or 0.0) + cached * (price_cached or 0.0)
    return (total + usage.output_tokens * (price_out or 0.0)) / 1e6


def profile_for(
    settings: ReviewSettings,
    *,
    model: ModelReference,
    cwd: str,
    fallback: tuple[str, ...] = (),
) -> ReviewerProfile:
    """The profile to use; the model is the configured one of the run's own provider, else that of
    the requesting agent.
    """
    return ReviewerProfile(
        model_settings=ModelSettings(
            model=settings.model or model.model,
            provider=None if settings.model else model.provider,
            fallback=fallback,
            effort=settings.effort,
        ),
        cwd=cwd,
        policy=settings.policy.strip(),
    )


def brief_for(profile: ReviewerProfile) -> RoleBrief:
    """The reviewer's role, with the configured policy in place of the built-in one."""
    return RoleBrief(name=ROLE, base_instructions=instructions(profile.policy), locked=True)


def instructions(policy: str = "") -> str:
    """The reviewer's base instructions; a blank policy keeps the built-in one."""
    text = _built_in()
    if not policy.strip():
        return text
    before, _, rest = text.partition(_POLICY)
    _, _, answer = rest.partition(_ANSWER)
    return f"{before}{_POLICY}\n{policy.strip()}\n\n{_ANSWER}{answer}"


@cache
def _built_in() -> str:
    return built_in_role(ROLE).developer_instructions
