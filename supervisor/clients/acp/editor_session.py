"""One session of an editor: a run that stays, seen through its events and steered by requests.

A session's id is its run's id. The run starts with the first prompt; a later prompt is sent to it,
after it was resumed if it has ended meanwhile.
"""

import asyncio
import os
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import NamedTuple

from acp.helpers import update_agent_message_text, update_agent_thought_text

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.protocol.control import EndRun, Recorded
from swarm.mailbox.protocol.records import RunCompleted

from ...journal.journal_reader import last_seq
from ...runs.run_metadata import read_metadata
from ..client import Event, LiveRun, RunEnding, RunNotAlive, TurnResult
from ..client.open_run import run_arguments, start_with_warnings
from ..client.turn_tracking import TurnTracker
from .approval_questions import ApprovalQuestions
from .editor_client import EditorClient
from .editor_servers import server_options
from .session_settings import SessionSettings
from .session_updates import SessionUpdates

# A run waits so long for an editor that was killed.
_STAY = ("--keep-open", "--idle-timeout=30m")
_INTERRUPT_AGAIN_S = 0.5
_END_LIMIT_S = 60.0  # of a run that is ending already
_ENDED = TurnResult(status="failed", text="the run ended before the turn did")
_CANCELLED = TurnResult(status="interrupted", text="cancelled before it began")


class SessionPlace(NamedTuple):
    """Where a session's agents work, and the editor's MCP servers as a `.mcp.json`."""

    cwd: str  # absolute, as `add_dirs`
    add_dirs: tuple[str, ...] = ()
    servers: bytes = b""


class EditorSession:
    """Use from one event loop; `close` it."""

    def __init__(
        self, run: LiveRun, place: SessionPlace, settings: SessionSettings, editor: EditorClient
    ) -> None:
        self.run, self._settings = run, settings
        self.has_started_run = False  # this session started or resumed it
        self._place, self._editor = place, editor
        self._applied = settings  # what the run was told
        self._updates = SessionUpdates(place.cwd)
        self._seq = 0  # of the last record that was shown
        self._waiting: dict[asyncio.Future[TurnResult], TurnTracker] = {}
        self._follower: asyncio.Task[None] | None = None
        self._questions = ApprovalQuestions(run, editor)
        self._sending = asyncio.Lock()  # held while the run is being started, or sent a prompt
        self._terminals: list[str] = []  # in the editor
        self._is_cancelled = self._is_prompting = self._is_closed = False

    @property
    def session_id(self) -> str:
        return self.run.run_id

    @property
    def settings(self) -> SessionSettings:
        return self._settings

    @property
    def cwd(self) -> str:
        return self._place.cwd

    # --- prompts -----------------------------------------------------------------------------

    async def prompt(self, text: str, images: Sequence[Path]) -> TurnResult:
        """Send a prompt and wait for the end of its turn. One at a time. Raises SwarmError."""
        if self._is_prompting:
            raise SwarmError("a prompt of this session is still being worked on; cancel it first")
        self._is_prompting, self._is_cancelled = True, False
        result: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        try:
            async with self._sending:
                if self._is_closed:
                    raise SwarmError("the session is closed")
                if self.run.paths.folder.exists():
                    await self._send(text, images, result)
                else:
                    await self._start(text, images, result)
            return await self._wait_turn(result)
        finally:
            self._waiting.pop(result, None)
            self._is_prompting = False

    async def _start(
        self, text: str, images: Sequence[Path], result: asyncio.Future[TurnResult]
    ) -> None:
        if self._is_cancelled:
            result.set_result(_CANCELLED)
            return
        options = self._settings.run_options()
        options["cwd"], options["images"] = self._place.cwd, images
        options["add_dirs"] = self._place.add_dirs
        self._waiting[result] = TurnTracker()  # of the run's own first input
        self._updates.hide_input()
        with server_options(self._place.servers) as for_servers:
            options["options"] = (*_STAY, f"--run-id={self.session_id}", *for_servers)
            await self._start_process(run_arguments(options), text)
        self.has_started_run, self._applied = True, self._settings
        self.follow()

    async def _send(
        self, text: str, images: Sequence[Path], result: asyncio.Future[TurnResult]
    ) -> None:
        input_id = new_uuid7()
        self._updates.hide_input(input_id)
        self._waiting[result] = TurnTracker(input_id)
        for is_last in (False, True):
            if not self.run.is_alive:
                await self._resume()
            self.follow()
            try:
                await self._apply_settings()
                await self.run.send(text, images=images, input_id=input_id)
            except (RunNotAlive, RunEnding):  # it ends in this moment
                if is_last:
                    raise
                await self._wait_end()
            else:
                return

    async def _wait_turn(self, result: asyncio.Future[TurnResult]) -> TurnResult:
        """Wait for the end of the turn; until then the run's events are followed."""
        while not result.done():
            self.follow()
            assert self._follower is not None
            if self._is_cancelled:
                await self._interrupt()
            pause_s = _INTERRUPT_AGAIN_S if self._is_cancelled else None
            await asyncio.wait(
                (result, self._follower), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED
            )
            if self._follower.done() and not self.run.is_alive:
                self._end_waiting(_ENDED)
        return result.result()

    async def _wait_end(self) -> None:
        """Wait until nobody holds a run that is ending. Raises SwarmError if it does not end."""
        try:
            async with asyncio.timeout(_END_LIMIT_S):
                await self.run.wait_ended()
        except TimeoutError:
            raise SwarmError("the run is ending; say it again when it has ended") from None

    async def _resume(self) -> None:
        if self._follower is not None:
            await asyncio.wait((self._follower,))  # it ends with the run that has ended
        with server_options(self._place.servers) as for_servers:
            line = ["resume", self.session_id, "--detach", *_STAY, *self._moved(), *for_servers]
            await self._start_process(line, "")
        self.has_started_run = True

    def _moved(self) -> tuple[str, ...]:
        """The option for a run whose folder is gone: the editor's own is where its project is."""
        worked_in = read_metadata(self.run.paths).cwd
        return () if Path(worked_in).is_dir() else (f"--cd={self._place.cwd}",)

    async def _start_process(self, arguments: Sequence[str], text: str) -> None:
        """Start or continue the run, and show what it warns of."""
        started = await start_with_warnings(arguments, text, os.environ)
        for warning in started.warnings:
            shown = update_agent_thought_text(f"Warning: {warning}\n\n")
            await self._editor.show(self.session_id, shown)

    async def change_settings(self, wanted: SessionSettings) -> None:
        """Work with these from the next turn on. Raises SwarmError, and keeps the present ones."""
        before, self._settings = self._settings, wanted
        try:
            await self._apply_settings()
        except SwarmError:
            self._settings = before
            raise

    async def _apply_settings(self) -> None:
        """Tell a live run what the person chose since."""
        if not self.run.paths.folder.exists():
            return  # it starts with them
        change = self._settings.change_from(self._applied)
        if change is not None and self.run.is_alive:
            with suppress(RunNotAlive):  # it ends in this moment; the next prompt continues it
                await self.run.request(change)
                self._applied = self._settings

    async def cancel(self) -> None:
        """Stop what runs; the session stays. May come at any time, any number of times."""
        self._is_cancelled = True
        self._questions.cancel()
        await self._interrupt()
        for result in tuple(self._waiting):
            await self._interrupt_until(result)

    def keep_terminal(self, terminal_id: str) -> None:
        """Close this terminal of the editor with the session."""
        self._terminals.append(terminal_id)

    async def say(self, text: str) -> None:
        """Show words of the program's own."""
        await self._editor.show(self.session_id, update_agent_message_text(text))

    async def _interrupt(self) -> None:
        with suppress(SwarmError):  # nothing runs
            await self.run.interrupt()

    async def _interrupt_until(self, result: asyncio.Future[TurnResult]) -> None:
        """Interrupt again until the turn has ended: an input starts its turn a moment later."""
        while not result.done():
            await self._interrupt()
            await asyncio.wait((result,), timeout=_INTERRUPT_AGAIN_S)

    # --- events ------------------------------------------------------------------------------

    async def replay(self) -> None:
        """Show everything that happened so far."""
        is_followed = self._follower is not None and not self._follower.done()
        newest = self._seq
        if not is_followed:
            newest = await asyncio.to_thread(last_seq, self.run.paths)
        past = SessionUpdates(self._place.cwd)
        async with aclosing(self.run.events(after=0)) as events:
            async for event in events:
                if not isinstance(event, Recorded):
                    continue
                if event.record.seq > newest:
                    break
                for update in past.apply(event):
                    await self._editor.show(self.session_id, update)
                if event.record.seq == newest:
                    break
        if not is_followed:
            self._seq, self._updates = newest, past

    async def skip_replay(self) -> None:
        """What happened so far is not shown."""
        self._seq = await asyncio.to_thread(last_seq, self.run.paths)

    async def join(self) -> None:
        """Show what a live run does, and ask what it waits for; nothing if it has ended."""
        if self.run.is_alive:
            self.follow()
            with suppress(RunNotAlive):
                await self._questions.ask_pending()

    def follow(self) -> None:
        """Show the run's events from now on, unless that happens already."""
        if self._follower is None or self._follower.done():
            self._follower = asyncio.create_task(self._follow_run())

    async def _follow_run(self) -> None:
        """Show the run's events until it ends, or the editor has gone."""
        try:
            async with aclosing(self.run.events(after=self._seq)) as events:
                async for event in events:
                    await self._show(event)
                    self._track(event)
                    if isinstance(event, Recorded):
                        self._questions.watch(event.record)
                    if isinstance(event, Recorded) and isinstance(event.record.body, RunCompleted):
                        break
        except (SwarmError, ConnectionError) as error:
            self._end_waiting(TurnResult(status="failed", text=str(error)))
        except Exception as error:  # no prompt may wait for ever, whatever the fault was
            words = f"the run could not be followed any more: {type(error).__name__}: {error}"
            self._end_waiting(TurnResult(status="failed", text=words))
            raise
        else:
            self._end_waiting(_ENDED, only_posted=True)

    async def _show(self, event: Event) -> None:
        if isinstance(event, Recorded):
            self._seq = event.record.seq
        for update in self._updates.apply(event):
            await self._editor.show(self.session_id, update)

    def _track(self, event: Event) -> None:
        for result, tracker in tuple(self._waiting.items()):
            tracker.apply(event)
            if tracker.turn is not None and not result.done():
                result.set_result(tracker.turn)

    def _end_waiting(self, how: TurnResult, *, only_posted: bool = False) -> None:
        """End the prompts that wait. A prompt that is not posted yet may be sent to a next run."""
        for result, tracker in self._waiting.items():
            if not result.done() and (tracker.ends_with_run or not only_posted):
                result.set_result(how)

    # --- end ---------------------------------------------------------------------------------

    async def close(self, *, end_run: bool) -> None:
        """Stop the prompt that runs; with `end_run` end the run as well.

        A run that is just being started is waited for: nobody else knows of it. `swarm resume` and
        `session/load` go on with an ended run.
        """
        self._is_closed = self._is_cancelled = True
        self._questions.cancel()
        for terminal in self._terminals:
            await self._editor.close_terminal(self.session_id, terminal)
        async with self._sending:
            if self._follower is not None:
                self._follower.cancel()
            is_working = bool(self._waiting)
            self._end_waiting(_CANCELLED)
            if end_run or self.has_started_run or is_working:
                await self._interrupt()
            if end_run or self.has_started_run:
                with suppress(SwarmError):
                    await self.run.request(EndRun())
