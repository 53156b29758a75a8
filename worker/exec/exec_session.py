"""One exec session: a running command, its output since the last result, and its end.

`run` is the only owner of the command. However it ends (exit, kill, cancellation), the whole
process tree is dead and every file closed when `finished` is set, unless the launcher died or the
kernel holds a process. Nothing polls: the end of the process and of its output are events.
"""

import codecs
import contextlib
from collections.abc import Callable, Iterator

import trio

from swarm.mailbox.errors import SwarmError

from .command_state import ExitStatus
from .exec_outcome import complete_utf8_length
from .launcher_protocol import Overrun
from .output_buffer import BufferedOutput, HeadTailBuffer
from .running_command import CommandRequest, RunningCommand

OnOutput = Callable[[str], None]

_TRAILING_OUTPUT_S = 0.05  # for output that a child left behind still prints into the pipe
_KILL_LIMIT_S = 5.0
_PIECE_BYTES, _MOST_PIECES = 8192 - 3, 10_000
_YIELD_AFTER_BYTES = 1024 * 1024


class ExecSession:
    """A command that may outlive the call that started it."""

    def __init__(self, session_id: int, command: RunningCommand, asked: CommandRequest) -> None:
        self.id, self.command, self.request = session_id, command, asked
        self.finished = trio.Event()
        self.status: ExitStatus | None = None
        self.moved_aside: tuple[str, ...] = ()
        self.last_used = self.awaited = 0  # `awaited`: how many calls wait for it now
        self._buffer = HeadTailBuffer()
        self._partial_character = b""  # the first bytes of a character whose rest has not arrived
        self._output_ended = trio.Event()
        self._listener: OnOutput | None = None
        self._pieces_left = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def has_ended(self) -> bool:
        """True when no process of it lives."""
        return self.finished.is_set()

    @property
    def overrun(self) -> Overrun | None:
        """The limit at which it was killed."""
        return self.status.overrun if self.status else None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; 128 + n for signal n."""
        if self.status is None or not self.finished.is_set():
            return None
        if self.status.exit_code is not None:
            return self.status.exit_code
        return 128 + (self.status.signal or 0)

    async def run(self) -> None:
        """Run the session from its start to its end."""
        is_whole_tree_dead = False
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_output)
                self.status = await self.command.wait()
                with trio.move_on_after(_TRAILING_OUTPUT_S):
                    await self._output_ended.wait()
                nursery.cancel_scope.cancel()
            if self.status.leftovers:  # in bwrap they are dying; wait until they are dead
                await self.command.kill_tree()
            is_whole_tree_dead = True
            self._drain()
        except SwarmError:
            is_whole_tree_dead = True  # or unkillable: the launcher died, or the kernel holds it
        finally:
            if not is_whole_tree_dead:
                await self._kill()
            self.status = self.status or ExitStatus(signal=9)
            self.moved_aside = self.command.close()
            self.finished.set()

    async def _kill(self) -> None:
        """Kill the tree, also while being cancelled: shielded, with a time limit."""
        deadline = trio.current_time() + _KILL_LIMIT_S
        with trio.CancelScope(shield=True, deadline=deadline), contextlib.suppress(SwarmError):
            await self.command.kill_tree()

    async def _read_output(self) -> None:
        unseen = 0
        while chunk := await self.command.receive():
            self._handle_chunk(chunk)
            unseen += len(chunk)
            if unseen > _YIELD_AFTER_BYTES:  # a flood must not starve the rest of the agent
                unseen = 0
                await trio.lowlevel.checkpoint()
        self._output_ended.set()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            while chunk := self.command.receive_nowait():
                self._handle_chunk(chunk)

    def _handle_chunk(self, chunk: bytes) -> None:
        self._buffer.add(chunk)
        if self._listener is None:
            return
        for start in range(0, len(chunk), _PIECE_BYTES):
            if self._pieces_left <= 0:
                return
            text = self._decoder.decode(chunk[start : start + _PIECE_BYTES])
            if text:
                self._pieces_left -= 1
                self._listener(text)

    @contextlib.contextmanager
    def stream_output_to(self, listener: OnOutput | None) -> Iterator[None]:
        """Pass output on as text while inside: at most 8 KiB a piece and 10,000 pieces."""
        self._listener, self._pieces_left = listener, _MOST_PIECES
        self._decoder.reset()
        try:
            yield
        finally:
            self._listener = None

    def take_output(self) -> tuple[str, BufferedOutput]:
        """Text since the last call, and its buffered bytes. Keeps back an incomplete character."""
        kept = self._buffer.take()
        data = self._partial_character + kept.joined()
        whole = len(data) if self.finished.is_set() else complete_utf8_length(data)
        self._partial_character = data[whole:]
        return data[:whole].decode("utf-8", "replace"), kept
