"""One exec session: a running command, its output since the last result, and its end; and the
slots that bound how many there are.

`run` is the only owner of the command. However it ends (exit, kill, cancellation), the whole
process tree is dead and every file closed when `finished` is set, unless the launcher died or the
kernel holds a process. Nothing polls: the end of the process and of its output are events.
"""

import codecs
import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError

from .command_state import ExitStatus
from .command_turn import CommandTurn
from .exec_outcome import MAX_SESSIONS, PROTECTED_RECENT, SessionQueueFull, complete_utf8_length
from .launcher_protocol import Overrun
from .running_command import CommandRequest, RunningCommand

OnOutput = Callable[[str], None]

_TRAILING_OUTPUT_S = 0.05  # for output that a child left behind still prints into the pipe
_KILL_LIMIT_S = 5.0
_PIECE_BYTES, _MOST_PIECES = 8192 - 3, 10_000
_YIELD_AFTER_BYTES = 1024 * 1024


DEFAULT_LIMIT_BYTES = 1024 * 1024


class BufferedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept. If nothing was omitted, `head + tail` is everything."""

    head: bytes
    tail: bytes
    omitted_bytes: int

    @property
    def total_bytes(self) -> int:
        return len(self.head) + self.omitted_bytes + len(self.tail)

    def joined(self) -> bytes:
        """Head and tail; nothing marks the omitted middle."""
        return self.head + self.tail


class HeadTailBuffer:
    """Add chunks in order of arrival; `take` what is kept and start over.

    Memory is bounded by 1.5 times the limit plus one chunk; adding costs two copies at most.
    Source: Codex `unified_exec/head_tail_buffer.rs`; here the tail is exact to the byte, not to the
    chunk.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        """Raises ValueError if `limit_bytes` < 2. An odd limit gives the tail more."""
        if limit_bytes < 2:
            raise ValueError(f"limit_bytes must be at least 2, not {limit_bytes}")
        self._head_limit = limit_bytes // 2
        self._tail_limit = limit_bytes - self._head_limit
        self._reset()

    def _reset(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._omitted = 0

    def add(self, chunk: bytes) -> None:
        """Keep `chunk`; the oldest bytes after the head are dropped if the limit requires it."""
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit:  # rarely, so that each byte moves once
            self._trim()

    def _trim(self) -> None:
        excess = max(0, len(self._tail) - self._tail_limit)
        del self._tail[:excess]
        self._omitted += excess

    def __len__(self) -> int:
        """Bytes that `take` would return."""
        return len(self._head) + min(len(self._tail), self._tail_limit)

    def take(self) -> BufferedOutput:
        """What came since the last take; the buffer is empty afterwards."""
        self._trim()
        kept = BufferedOutput(
            head=bytes(self._head), tail=bytes(self._tail), omitted_bytes=self._omitted
        )
        self._reset()
        return kept


class ExecSession:
    """A command that may outlive the call that started it."""

    def __init__(
        self,
        session_id: int,
        command: RunningCommand,
        asked: CommandRequest,
        turn: CommandTurn | None = None,
    ) -> None:
        self.id, self.command, self.request = session_id, command, asked
        self._turn = turn
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
                self.status = await self.command.wait()  # with what they used
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
            if self._turn is not None:
                self._turn.end(self.status)

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


MAX_QUEUED_CALLS = 256


class SlotHolder(Protocol):
    """What is known of a session that holds a slot."""

    last_used: int
    awaited: int

    @property
    def has_ended(self) -> bool: ...


OccupantT = TypeVar("OccupantT", bound=SlotHolder)


def choose_session_to_close(sessions: Iterable[OccupantT]) -> OccupantT | None:
    """The session to close: an ended one if there is any, otherwise the least recently used.

    Never one that a call waits for, nor one of the most recently used. None if none qualifies.
    """
    by_use = sorted(sessions, key=lambda one: one.last_used)
    spare = [one for one in by_use[:-PROTECTED_RECENT] if not one.awaited]
    return next((one for one in spare if one.has_ended), spare[0] if spare else None)


class SessionSlots:
    """Hands out slots in the order of the calls."""

    def __init__(self, make_room: Callable[[], bool], *, most: int = MAX_SESSIONS) -> None:
        """`make_room` closes a session and leaves its slot to the caller; False: it closed none."""
        self._make_room, self._most = make_room, most
        self._held = 0
        self._queue: dict[trio.Event, None] = {}  # in order

    async def acquire(self) -> float:
        """Wait for a slot; return the seconds waited. Raises SessionQueueFull: it holds no slot."""
        if not self._queue and self._try_acquire():
            return 0.0
        if len(self._queue) >= MAX_QUEUED_CALLS:
            raise SessionQueueFull(running=self._held, waiting=len(self._queue))
        asked, turn = trio.current_time(), trio.Event()
        self._queue[turn] = None
        try:
            await turn.wait()
        except trio.Cancelled:
            if self._queue.pop(turn, 0) == 0:  # it had just received a slot
                self.release()
            raise
        return trio.current_time() - asked

    def release(self) -> None:
        """Give back the slot of a session that was closed or never began."""
        self._held -= 1
        self.wake_waiting()

    def wake_waiting(self) -> None:
        """Let queued calls try again: a slot is free, or no call waits for some session."""
        while self._queue and self._try_acquire():
            turn = next(iter(self._queue))
            del self._queue[turn]
            turn.set()

    def _try_acquire(self) -> bool:
        if self._held >= self._most:
            return self._make_room()  # the caller takes over that session's slot
        self._held += 1
        return True
