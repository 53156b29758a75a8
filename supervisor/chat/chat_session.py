"""The conversation: what typed words, keys and commands do to the run, and what the screen shows.

It is a client of the run's control socket and event feed: it may end at any moment, and the run
does not notice. Two conversations may be attached to one run at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from rich.text import Text

from swarm.mailbox.errors import SwarmError, UsageError
from swarm.mailbox.ids import ROOT_PATH, short_id
from swarm.mailbox.protocol.control import (
    Done,
    EndRun,
    InterruptAgent,
    KillAgent,
    ResolveApproval,
)

from ..client.live_run import LiveRun
from ..console.columns import Line
from ..console.row_selection import paths_in_order
from ..console.safe_text import clean_line
from ..console.theme import BAD
from .agent_page import AgentPage
from .attached_run import AttachedRun
from .chat_commands import ChatCommands
from .chat_screen import ChatScreen, ScreenContent
from .chat_transcript import TranscriptPart
from .fragments import to_fragments
from .image_mentions import find_images
from .live_region import LiveContent, TreeSize, render_live_region, status_line
from .question import OpenQuestion
from .run_launch import RunLauncher
from .screen_events import Answered, Gesture, Gestured, Submitted
from .slash_commands import SlashCall, parse_slash
from .transcript_printer import TranscriptPrinter
from .words_to_send import BusyMode, decide_delivery, is_busy, next_queued

_FRAME_S, _AGES_S = 0.1, 1.0
_SIZES: tuple[TreeSize, ...] = ("small", "large", "transcript")
Ending = Literal["detached", "ended"]


class ChatSession:
    """One conversation on one screen. `talk` runs until the person leaves.

    Args:
        screen: Drawn already; its application runs beside this.
        launcher: Starts and continues runs.
        commands_environment: Of the twins of commands.
        find_run: Resolves a run that a person names. Raises UsageError.
        printer: For the transcript.
        cwd: Where `@` names are found.
    """

    def __init__(
        self,
        screen: ChatScreen,
        *,
        launcher: RunLauncher,
        environment: dict[str, str],
        find_run: Callable[[str], LiveRun],
        printer: TranscriptPrinter,
        cwd: Path,
    ) -> None:
        self._screen, self._launcher, self._printer = screen, launcher, printer
        self._find_run, self._cwd = find_run, cwd
        self._commands = ChatCommands(
            print_parts=self._add_parts, environment=environment, width=lambda: screen.room()[0]
        )
        self._attached: AttachedRun | None = None
        self._follower: asyncio.Task[None] | None = None
        self._question = OpenQuestion(self._resolve)
        self._page = AgentPage()
        self._parts: list[TranscriptPart] = []
        self._queue: list[str] = []
        self._mode: BusyMode = "steer"
        self._size: TreeSize = "small"
        self._selected: str = ROOT_PATH
        self._starting = ""
        self._may_leave = False  # Ctrl-C was the last that was typed
        self._changed = asyncio.Event()
        self._left: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str:
        """The id of the run that is talked to; "" before the first words."""
        return "" if self._attached is None else self._attached.run.run_id

    @property
    def unsent(self) -> tuple[str, ...]:
        """Words that still waited in the queue."""
        return tuple(self._queue)

    async def talk(self, run: LiveRun | None, *, words: str = "") -> Ending:
        """Talk until the person leaves.

        Args:
            run: The run to open first; None: the first words start one.
            words: Sent at once, unless empty.
        """
        if run is not None:
            self._attach(run)
        if words.strip():
            self._begin(self._submit(words))
        tasks = [asyncio.create_task(self._take_events()), asyncio.create_task(self._draw())]
        for task in tasks:
            task.add_done_callback(self._pass_failure)
        try:
            return await self._left
        finally:
            everything = [*tasks, *self._jobs, *([self._follower] if self._follower else [])]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)

    def _pass_failure(self, task: asyncio.Task[None]) -> None:
        """What goes wrong in the conversation itself ends it."""
        if not task.cancelled() and (error := task.exception()) and not self._left.done():
            self._left.set_exception(error)

    # --- what was typed ----------------------------------------------------------------------

    async def _take_events(self) -> None:
        while True:
            event = await self._screen.events.get()
            self._may_leave = self._may_leave and event == Gestured("leave")
            match event:
                case Submitted(text=text):
                    self._begin(self._submit(text))
                case Answered(key=key):
                    self._begin(self._question.press(key))
                case Gestured(gesture=gesture):
                    self._act(gesture)
            self._changed.set()

    def _begin(self, job: Awaitable[None]) -> None:
        """Do it beside the keys; what goes wrong is said in the transcript."""

        async def run() -> None:
            try:
                await job
            except (SwarmError, OSError) as error:
                self._say(str(error))
            self._changed.set()

        task = asyncio.create_task(run())
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    def _act(self, gesture: Gesture) -> None:
        match gesture:
            case "stop":
                self._begin(self._stop())
            case "leave":
                self._leave_or_ask()
            case "cycle_tree":
                self._size = _SIZES[(_SIZES.index(self._size) + 1) % len(_SIZES)]
            case "select_up" | "select_down":
                self._select(-1 if gesture == "select_up" else 1)
            case "toggle_mode":
                self._mode = "queue" if self._mode == "steer" else "steer"
            case "toggle_answering":
                self._question.postpone_or_reopen()
            case "resized" | "pasted":
                pass  # the next frame shows what it means

    async def _submit(self, text: str) -> None:
        call = parse_slash(text)
        if call is not None:
            await self._command(call)
        else:
            await self._send(text.strip())

    async def _send(self, words: str) -> None:
        """Words for the selected agent; they start or continue a run where none is alive."""
        attached = self._attached
        delivery = decide_delivery(
            has_run=attached is not None,
            is_alive=attached is not None and not attached.has_ended,
            target=None if attached is None else attached.agent(self._selected),
            busy_mode=self._mode,
        )
        images = find_images(words, self._cwd)
        if attached is None or delivery == "start":
            await self._launch("starting", self._launcher.start(words, images))
        elif delivery == "resume":
            resumed = self._launcher.resume(attached.run.run_id, words)
            await self._launch("continuing", resumed, shown_seq=attached.view().seq)
        elif delivery == "queue":
            self._queue.append(words)
        else:
            await attached.run.send(words, agent=self._selected, images=images)

    async def _launch(self, what: str, run: Awaitable[LiveRun], *, shown_seq: int = 0) -> None:
        if self._starting:
            raise UsageError("a run is being started; send this when it has begun")
        self._starting = what
        self._changed.set()
        try:
            self._attach(await run, shown_seq=shown_seq)
        finally:
            self._starting = ""

    async def _command(self, call: SlashCall) -> None:
        match call.name:
            case "detach":
                self._leave("detached")
            case "quit":
                await self._quit()
            case "new":
                self._detach()
            case "resume" if call.words:
                self._detach()
                self._attach(self._find_run(call.words[0]))
            case _:
                attached = self._attached
                agent = None if attached is None else attached.agent(self._selected)
                run = None if attached is None else attached.run
                await self._commands.run(call, run, agent)

    async def _stop(self) -> None:
        """Esc: stop the turn of the selected agent; without one go back to the root."""
        attached = self._attached
        if attached is None or attached.has_ended:
            return
        if is_busy(attached.agent(self._selected)):
            await attached.run.request(InterruptAgent(agent=self._selected))
        else:
            self._selected = ROOT_PATH
            attached.select(ROOT_PATH)

    async def _resolve(self, answer: ResolveApproval) -> str:
        if self._attached is None:
            return ""
        reply = await self._attached.run.request(answer)
        return reply.message if isinstance(reply, Done) else ""

    # --- the run -----------------------------------------------------------------------------

    def _attach(self, run: LiveRun, *, shown_seq: int = 0) -> None:
        attached = AttachedRun(run, print_parts=self._add_parts, changed=self._changed.set)
        if self._follower is not None:
            self._follower.cancel()
        self._attached = attached
        self._selected = ROOT_PATH
        self._question = OpenQuestion(self._resolve)
        self._follower = asyncio.create_task(self._follow(attached, shown_seq=shown_seq))

    async def _follow(self, attached: AttachedRun, *, shown_seq: int) -> None:
        try:
            await attached.follow(shown_seq=shown_seq)
        except SwarmError as error:
            attached.lose()
            self._say(str(error))
        if attached.completed is None:
            self._say(f"run {attached.short} stopped without an end; your next words continue it")
        self._changed.set()

    def _detach(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
        if self._attached is not None and not self._attached.has_ended:
            self._say(f"run {self._attached.short} goes on; /resume {self._attached.short}")
        self._attached, self._follower = None, None
        self._queue.clear()

    async def _quit(self) -> None:
        """End the run: one that waits completes with its last answer, one at work is cut off."""
        if self._attached is not None and not self._attached.has_ended:
            waits = self._attached.view().status == "idle"
            await self._attached.run.request(EndRun() if waits else KillAgent())
        self._leave("ended")

    def _leave_or_ask(self) -> None:
        if self._may_leave:
            self._leave("detached")
        self._may_leave = True

    def _leave(self, ending: Ending) -> None:
        if not self._left.done():
            self._left.set_result(ending)

    def _select(self, step: int) -> None:
        if self._attached is None:
            return
        paths = paths_in_order(self._attached.view().agents, sort="tree")
        at = paths.index(self._selected) if self._selected in paths else 0
        if paths:
            self._selected = paths[max(0, min(at + step, len(paths) - 1))]
            self._attached.select(self._selected)

    # --- what is shown -----------------------------------------------------------------------

    def _add_parts(self, parts: list[TranscriptPart]) -> None:
        self._parts += parts
        self._changed.set()

    def _say(self, words: str) -> None:
        self._add_parts([Text(f"  {clean_line(words, limit=1_000)}", style=BAD)])

    async def _draw(self) -> None:
        """At most ten frames a second; ages are drawn again once a second while agents work."""
        while True:
            self._changed.clear()
            await self._send_queued()
            self._show()
            await asyncio.sleep(_FRAME_S)
            try:
                await asyncio.wait_for(self._changed.wait(), self._longest_wait_s())
            except TimeoutError:
                continue

    def _longest_wait_s(self) -> float | None:
        """How long the picture stays true if nothing happens; None: for ever."""
        if not self._question.is_ready:
            return _FRAME_S
        return _AGES_S if self._is_moving() else None

    def _is_moving(self) -> bool:
        attached = self._attached
        return bool(self._starting) or (
            attached is not None and any(is_busy(one) for one in attached.view().agents)
        )

    async def _send_queued(self) -> None:
        attached = self._attached
        if attached is None or attached.has_ended:
            return
        words = next_queued(tuple(self._queue), attached.agent(self._selected))
        if words is not None:
            del self._queue[0]
            self._begin(self._send(words))

    def _show(self) -> None:
        width, height = self._screen.room()
        content = self._content(width)
        region = render_live_region(content, width=width, height=height, now=time.time())
        parts, self._parts = self._parts, []
        self._screen.show(
            ScreenContent(
                region=tuple(to_fragments(line) for line in region),
                status=to_fragments(self._status(width)),
                prompt="› " if self._selected == ROOT_PATH else f"{clean_line(self._selected)} › ",
                answering=self._question.is_open,
                typing_answer=self._question.is_typing,
            ),
            above=self._printer.render(parts, width=width) if parts else "",
        )

    def _content(self, width: int) -> LiveContent:
        attached = self._attached
        goes_on = attached is not None and not attached.has_ended
        self._may_leave = self._may_leave and not self._screen.has_text
        leaving = "Ctrl-C again leaves" + ("; the run goes on" if goes_on else "")
        notices = tuple(
            text for text in (self._screen.notice, leaving if self._may_leave else "") if text
        )
        if attached is None or self._starting:
            return LiveContent(notices=notices, starting=self._starting, queued=tuple(self._queue))
        view = attached.view()
        if attached.has_ended:
            return LiveContent(notices=notices, queued=tuple(self._queue))
        self._question.update(view.approvals, selected=self._selected)
        panel, foot = self._question.lines(has_text=self._screen.has_text, width=width)
        page: tuple[str, ...] = ()
        if self._size == "transcript":
            page = self._page.lines(attached.run.paths, self._selected, view.seq)
        return LiveContent(
            view=view,
            selected=self._selected,
            size=self._size,
            arriving=tuple(attached.arriving.lines(8)),
            arriving_is_answer=attached.arriving.is_answer,
            queued=tuple(self._queue),
            panel=panel,
            panel_foot=foot,
            transcript=page,
            notices=notices,
        )

    def _status(self, width: int) -> Line:
        attached = self._attached
        if attached is None or attached.has_ended:
            return status_line(None, words="/help · Ctrl-C twice leaves", width=width)
        view = attached.view()
        words = short_id(attached.run.run_id)
        if is_busy(attached.agent(self._selected)):
            words = f"Esc stops · words {self._mode} (Tab)"
        return status_line(view, words=words, width=width, alone=len(view.agents) < 2)
