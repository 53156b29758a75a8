"""The conversation: what typed words, keys and commands do, and when the screen is drawn.

It is a client of the run's control socket and event feed: it may end at any moment, and the run
does not notice. Two conversations may be attached to one run at once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

from rich.text import Text

from swarm.mailbox.base.errors import SwarmError, UsageError

from ...base.prompt_call import parse_prompt_call
from ...base.safe_text import clean_line
from ..client.live_run import LiveRun
from ..console.theme import BAD
from .agent_page import AgentPage
from .chat_commands import ChatCommands
from .chat_frame import FrameFacts, live_content, screen_content
from .chat_screen import ChatScreen
from .chat_transcript import TranscriptPart
from .confirmation_panel import ConfirmationPanel
from .current_run import CurrentRun
from .live_region import TreeSize, render_live_region
from .own_commands import read_own_commands
from .run_launch import RunLauncher
from .screen_events import Answered, Gesture, Gestured, Submitted
from .slash_commands import OwnCommand, SlashCall, parse_shell, parse_slash
from .transcript_printer import TranscriptPrinter
from .words_to_send import is_busy

_FRAME_S, _AGES_S = 0.1, 1.0
_SIZES: tuple[TreeSize, ...] = ("small", "large", "transcript")
Ending = Literal["detached", "ended"]


class ChatSession:
    """One conversation on one screen. `talk` runs until the person leaves.

    Args:
        screen: Drawn already; its application runs beside this.
        launcher: Starts and continues runs.
        environment: Of the `swarm …` commands.
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
        self._screen, self._printer, self._find_run = screen, printer, find_run
        self._changed = asyncio.Event()
        self._parts: list[TranscriptPart] = []
        self._current = CurrentRun(
            launcher, cwd, print_parts=self._add_parts, say=self._say, changed=self._changed.set
        )
        self._confirmation = ConfirmationPanel(self._changed.set)
        self._commands = ChatCommands(
            self._current,
            print_parts=self._add_parts,
            confirmation=self._confirmation,
            environment=environment,
            width=lambda: screen.room()[0],
            own=lambda: self._own,
            pick=screen.pick,
        )
        self._environment, self._own = environment, tuple[OwnCommand, ...]()
        self._page = AgentPage()
        self._size: TreeSize = "small"
        self._may_leave = False  # Ctrl-C was the last that was typed
        self._left: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def run_id(self) -> str:
        """The id of the run that is talked to; "" before the first words."""
        attached = self._current.attached
        return "" if attached is None else attached.run.run_id

    @property
    def unsent(self) -> tuple[str, ...]:
        """Words that still waited in the queue."""
        return self._current.queued

    async def talk(self, run: LiveRun | None, *, words: str = "", planning: bool = False) -> Ending:
        """Talk until the person leaves.

        Args:
            run: The run to open first; None: the first words start one.
            words: Sent at once, unless empty.
            planning: The first run begins in plan mode.
        """
        self._current.plan_first(on=planning)
        if run is not None:
            self._current.attach(run)
        if words.strip():
            self._begin(self._submit(words))
        self._begin(self._read_own())
        tasks = [asyncio.create_task(self._take_events()), asyncio.create_task(self._draw())]
        for task in tasks:
            task.add_done_callback(self._pass_failure)
        try:
            return await self._left
        finally:
            self._current.close()
            everything = [*tasks, *self._jobs]
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
                case Answered(key=key) if self._confirmation.is_open:
                    self._confirmation.press(key)
                case Answered(key=key):
                    self._begin(self._current.question.press(key))
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
            case "stop" if self._confirmation.is_open:
                self._confirmation.close()
            case "stop":
                self._begin(self._current.stop())
            case "leave":
                self._leave_or_ask()
            case "cycle_tree":
                self._size = _SIZES[(_SIZES.index(self._size) + 1) % len(_SIZES)]
            case "select_up" | "select_down":
                self._current.select(-1 if gesture == "select_up" else 1)
            case "toggle_mode":
                self._current.toggle_mode()
            case "toggle_answering":
                self._current.question.postpone_or_reopen()
            case "resized" | "pasted":
                pass  # the next frame shows what it means

    async def _submit(self, text: str) -> None:
        if (command := parse_shell(text)) is not None:
            await self._commands.run_shell(command)
            return
        try:
            call = parse_slash(text, self._own_names())
        except UsageError:  # a file may have come meanwhile
            await self._read_own()
            prompt = parse_prompt_call(text)
            if prompt is not None and prompt.name not in self._own_names():
                await self._commands.send_prompt(prompt)
                return
            call = parse_slash(text, self._own_names())
        if call is not None:
            await self._command(call)
        else:
            await self._current.send(text.strip())

    def _own_names(self) -> frozenset[str]:
        return frozenset(one.name for one in self._own)

    async def _read_own(self) -> None:
        self._own = await read_own_commands(self._environment)
        self._changed.set()

    async def _command(self, call: SlashCall) -> None:
        match call.name:
            case "detach":
                self._leave("detached")
            case "quit":
                await self._current.end()
                self._leave("ended")
            case "new":
                self._current.detach()
            case "resume" if call.words:
                found = self._find_run(call.words[0])
                self._current.detach()
                self._current.attach(found)
            case _:
                await self._commands.run(call)

    def _leave_or_ask(self) -> None:
        if self._may_leave:
            self._leave("detached")
        self._may_leave = True

    def _leave(self, ending: Ending) -> None:
        if not self._left.done():
            self._left.set_result(ending)

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
            if (words := self._current.take_queued()) is not None:
                self._begin(self._current.send(words))
            self._show()
            await asyncio.sleep(_FRAME_S)
            try:
                await asyncio.wait_for(self._changed.wait(), self._longest_wait_s())
            except TimeoutError:
                continue

    def _longest_wait_s(self) -> float | None:
        """How long the picture stays true if nothing happens; None: for ever."""
        if not self._current.question.is_ready:
            return _FRAME_S
        return _AGES_S if self._is_moving() else None

    def _is_moving(self) -> bool:
        live = self._current.live
        return bool(self._current.starting) or (
            live is not None and any(is_busy(one) for one in live.view().agents)
        )

    def _show(self) -> None:
        width, height = self._screen.room()
        if (live := self._current.live) is not None:
            waiting = live.view().approvals
            self._current.question.update(waiting, selected=self._current.selected)
            if missing := self._current.question.missing_whole():
                self._begin(self._current.fetch_question(missing))
        facts = self._facts()
        content = live_content(self._current, facts, width=width, height=height)
        region = render_live_region(content, width=width, height=height, now=time.time())
        parts, self._parts = self._parts, []
        self._screen.show(
            screen_content(self._current, region, facts, width=width),
            above=self._printer.render(parts, width=width) if parts else "",
        )

    def _facts(self) -> FrameFacts:
        live = self._current.live
        self._may_leave = self._may_leave and not self._screen.has_text
        leaving = "Ctrl-C again leaves" + ("; the run goes on" if live is not None else "")
        notices = (self._screen.notice, leaving if self._may_leave else "")
        page: tuple[str, ...] = ()
        if self._size == "transcript" and live is not None:
            page = self._page.lines(live.run.paths, self._current.selected, live.view().seq)
        panel, foot = self._confirmation.lines()
        return FrameFacts(
            size=self._size,
            panel=panel,
            panel_foot=foot,
            transcript=page,
            notices=tuple(text for text in notices if text),
            has_text=self._screen.has_text,
            own=self._own,
        )
