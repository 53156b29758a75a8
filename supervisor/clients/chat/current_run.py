"""The run that is talked to now: attaching to it, words to its agents, their queue, its questions.

Nothing here knows the screen.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import (
    AgentView,
    Done,
    EndRun,
    InterruptAgent,
    KillAgent,
    ResolveApproval,
)

from ...views.row_selection import paths_in_order
from ..client.live_run import LiveRun
from .attached_run import AttachedRun
from .chat_transcript import TranscriptPart
from .image_mentions import find_images
from .question import OpenQuestion
from .run_launch import RunLauncher
from .words_to_send import BusyMode, decide_delivery, is_busy, next_queued


class CurrentRun:
    """At most one run at a time. `close` ends what follows it; the run itself goes on.

    Args:
        launcher: Starts and continues runs.
        cwd: Where the names of pictures are found.
        print_parts: Takes what is to be printed, in order.
        say: Takes words about what went wrong.
        changed: Called when there is something new to show; cheap.
    """

    def __init__(
        self,
        launcher: RunLauncher,
        cwd: Path,
        *,
        print_parts: Callable[[list[TranscriptPart]], None],
        say: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._launcher, self._cwd = launcher, cwd
        self._print, self._say, self._changed = print_parts, say, changed
        self._follower: asyncio.Task[None] | None = None
        self._queue: list[str] = []
        self.attached: AttachedRun | None = None
        self.question = OpenQuestion(self._resolve)
        self.selected: str = ROOT_PATH
        self.mode: BusyMode = "steer"
        self.starting = ""  # what is being done to have a run
        self.plans_first = False  # the next run begins in plan mode

    @property
    def queued(self) -> tuple[str, ...]:
        """Words that wait for the end of a turn."""
        return tuple(self._queue)

    @property
    def live(self) -> AttachedRun | None:
        """The run, if it has not ended."""
        attached = self.attached
        return None if attached is None or attached.has_ended else attached

    @property
    def agent(self) -> AgentView | None:
        """The selected agent; None if the run has none of this path."""
        return None if self.attached is None else self.attached.agent(self.selected)

    # --- which run ---------------------------------------------------------------------------

    def attach(self, run: LiveRun, *, shown_seq: int = 0) -> None:
        """Follow this run from now on. Records up to `shown_seq` were printed before."""
        attached = AttachedRun(run, print_parts=self._print, changed=self._changed)
        self.close()
        self.attached, self.selected = attached, ROOT_PATH
        self.question = OpenQuestion(self._resolve)
        self._follower = asyncio.create_task(self._follow(attached, shown_seq=shown_seq))

    def detach(self) -> None:
        """Follow no run any more."""
        self.close()
        if (live := self.live) is not None:
            self._say(f"run {live.short} goes on; /resume {live.short}")
        self.attached = None
        self._queue.clear()

    def close(self) -> None:
        """Stop following."""
        if self._follower is not None:
            self._follower.cancel()
        self._follower = None

    async def _follow(self, attached: AttachedRun, *, shown_seq: int) -> None:
        try:
            await attached.follow(shown_seq=shown_seq)
        except SwarmError as error:
            attached.lose()
            self._say(str(error))
        if attached.completed is None:
            self._say(f"run {attached.short} stopped without an end; your next words continue it")
        self._changed()

    # --- words -------------------------------------------------------------------------------

    async def send(self, words: str) -> None:
        """Words for the selected agent; they start or continue a run where none is alive."""
        self._follow_again()
        attached = self.attached
        delivery = decide_delivery(
            has_run=attached is not None,
            is_alive=self.live is not None,
            target=self.agent,
            busy_mode=self.mode,
        )
        images = find_images(words, self._cwd)
        if attached is None or delivery == "start":
            started = self._launcher.start(words, images, planning=self.plans_first)
            await self._launch("starting", started)
            self.plans_first = False
        elif delivery == "resume":
            resumed = self._launcher.resume(attached.run.run_id, words, images)
            await self._launch("continuing", resumed, shown_seq=attached.view().seq)
        elif delivery == "queue":
            self._queue.append(words)
        else:
            await attached.run.send(words, agent=self.selected, images=images)

    def _follow_again(self) -> None:
        """Follow the run that has ended here, if somebody else has resumed it meanwhile."""
        attached = self.attached
        if attached is not None and attached.has_ended and attached.run.is_alive:
            self._say(f"run {attached.short} goes on in another terminal; it is followed again")
            self.attach(attached.run, shown_seq=attached.view().seq)

    async def _launch(self, what: str, run: Awaitable[LiveRun], *, shown_seq: int = 0) -> None:
        if self.starting:
            raise UsageError("a run is being started; send this when it has begun")
        self.starting = what
        self._changed()
        try:
            self.attach(await run, shown_seq=shown_seq)
        finally:
            self.starting = ""

    def take_queued(self) -> str | None:
        """The queued words that may go out now, taken out of the queue."""
        if self.live is None or next_queued(self.queued, self.agent) is None:
            return None
        return self._queue.pop(0)

    def choose_model(self, name: str) -> None:
        """The model of the next run, or of this one when words continue it."""
        self._launcher.choose_model(name)

    def plan_first(self, *, on: bool) -> None:
        """Whether the next run that is started begins in plan mode."""
        self.plans_first = on

    def toggle_mode(self) -> None:
        """Words that are sent while the agent works: steer it, or wait."""
        self.mode = "queue" if self.mode == "steer" else "steer"

    # --- its agents --------------------------------------------------------------------------

    def select(self, step: int) -> None:
        """Select the agent that stands so many lines further down in the tree."""
        if self.attached is None:
            return
        paths = paths_in_order(self.attached.view().agents, sort="tree")
        at = paths.index(self.selected) if self.selected in paths else 0
        if paths:
            self.selected = paths[max(0, min(at + step, len(paths) - 1))]
            self.attached.select(self.selected)

    async def stop(self) -> None:
        """Stop the turn of the selected agent; without one go back to the root."""
        live = self.live
        if live is None:
            return
        if is_busy(self.agent):
            await live.run.request(InterruptAgent(agent=self.selected))
        else:
            self.selected = ROOT_PATH
            live.select(ROOT_PATH)

    async def end(self) -> None:
        """End the run: one that waits completes with its last answer, one at work is cut off."""
        live = self.live
        if live is not None:
            waits = live.view().status == "idle"
            await live.run.request(EndRun() if waits else KillAgent())

    async def fetch_question(self, approval_id: str) -> None:
        """Get all of a question of which the view has a part. Raises SwarmError."""
        if self.attached is None:
            return
        for whole in await self.attached.run.approvals(approval_id):
            self.question.take_whole(whole)

    async def _resolve(self, answer: ResolveApproval) -> str:
        if self.attached is None:
            return ""
        reply = await self.attached.run.request(answer)
        return reply.message if isinstance(reply, Done) else ""
