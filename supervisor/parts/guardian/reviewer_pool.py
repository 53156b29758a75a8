"""Chooses the process for a review: the main session if free, else a fork of its completed state.

A run has one main session, so that its prompt cache stays valid and it knows what it has read. A
process judges one action at a time. Parallel reviews never see each other. A process that failed,
did not stop or grew too long is not asked again.
"""

import trio

from swarm.mailbox.protocol.items import AnyItem

from ...agents.life.agent_manager import AgentManager
from ...context.run_context import RunContext
from .reviewer_session import ReviewerProfile, ReviewerSession, ReviewProgress

MAIN_SESSION_PATH = "/guardian"
MAX_FORKS = 4
MAX_REVIEWS = 20  # by one main session; then a new one starts with the whole transcript
MAX_CONTEXT_SHARE = 0.7  # of its context window


class ReviewerLease:
    """A session for one review. `fork`: the session ends with the review."""

    def __init__(self, session: ReviewerSession, *, fork: bool) -> None:
        self.session, self.fork = session, fork


class ReviewerPool:
    """Owns the reviewer processes of a run.

    Args:
        running: The run.
        agents: Starts and ends processes.
        nursery: Ends and interrupts processes in the background.
        alone: Every review gets a new process without history (for measuring).
    """

    def __init__(
        self,
        running: RunContext,
        agents: AgentManager,
        nursery: trio.Nursery,
        *,
        alone: bool = False,
    ) -> None:
        self._run, self._agents, self._nursery = running, agents, nursery
        self._alone = alone
        self._main_session: ReviewerSession | None = None
        self._forks = 0
        self.limiter = trio.CapacityLimiter(1 + MAX_FORKS)

    async def lease(self, profile: ReviewerProfile) -> ReviewerLease:
        """Return a process that is ready to be asked; the caller holds a token of `limiter`.

        Raises SpawnError. Return it with `release`, `release_failed` or `release_interrupted`.
        """
        main_session = self._main_session
        if main_session is not None and not main_session.is_alive:
            main_session = self._main_session = None
        if self._alone or (main_session is not None and main_session.busy):
            return await self._fork(profile)
        if main_session is not None and main_session.profile != profile:
            self._end_session(main_session)
            main_session = None
        if main_session is None:
            return await self._start_main_session(profile)
        main_session.busy = True
        return ReviewerLease(main_session, fork=False)

    async def _start_main_session(self, profile: ReviewerProfile) -> ReviewerLease:
        """Start the main session. It counts as busy from now on, so parallel reviews fork."""
        path = (
            MAIN_SESSION_PATH if MAIN_SESSION_PATH not in self._agents.agents else self._fork_path()
        )
        main_session = self._main_session = ReviewerSession(
            self._run, self._agents, profile=profile, path=path
        )
        main_session.busy = True
        try:
            await main_session.start()
        except BaseException:
            self._main_session = None
            raise
        return ReviewerLease(main_session, fork=False)

    async def _fork(self, profile: ReviewerProfile) -> ReviewerLease:
        main_session, history = self._main_session, tuple[AnyItem, ...]()
        after: ReviewProgress | None = None
        if main_session is not None and main_session.profile == profile and not self._alone:
            after = main_session.progress  # before its items: it may complete a review meanwhile
            history = await main_session.committed_items()
        fork = ReviewerSession(
            self._run,
            self._agents,
            profile=profile,
            path=self._fork_path(),
            after=after if history else None,
        )
        await fork.start(history)
        return ReviewerLease(fork, fork=True)

    def _fork_path(self) -> str:
        self._forks += 1
        return f"{MAIN_SESSION_PATH}/{self._forks}"

    # --- giving back ---------------------------------------------------------------------------

    def release(self, lease: ReviewerLease) -> None:
        """The review is complete."""
        session = lease.session
        worn = session.reviews >= MAX_REVIEWS or session.context_share > MAX_CONTEXT_SHARE
        if lease.fork or worn:
            self._end_session(session)
        session.busy = False

    def release_failed(self, lease: ReviewerLease) -> None:
        """The review failed: the process is ended, since its context is not trusted any more."""
        self._end_session(lease.session)

    def release_interrupted(self, lease: ReviewerLease) -> None:
        """The review was interrupted: stop it in the background, or end the process."""
        if lease.fork:
            self._end_session(lease.session)
        else:
            self._nursery.start_soon(self._interrupt, lease.session)

    async def _interrupt(self, session: ReviewerSession) -> None:
        if await session.interrupt():
            session.busy = False
        else:
            self._end_session(session)

    def _end_session(self, session: ReviewerSession) -> None:
        if self._main_session is session:
            self._main_session = None
        self._nursery.start_soon(session.end)
