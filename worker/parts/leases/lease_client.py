"""Leases for the commands of one agent: a heavy one waits for its turn before it begins.

A command that is not heavy costs one look at its words. If it proves heavy, it is reported as such,
so that the next one like it takes turns.
"""

from collections.abc import Sequence

import trio

from swarm.mailbox.parts.leases.lease_messages import (
    HeavyCommandEnded,
    LeaseGiven,
    QueuedForLease,
    TakeLease,
)

from ...base.current_spec import CurrentSpec
from ...base.reporter import Queued, Reporter
from ...exec.command_state import ExitStatus
from ...exec.command_turn import CommandTurn
from .heavy_commands import HeavyCommand, HeavyCommands, describe_unknown

SHOW_AFTER_S = 0.5  # a shorter wait is not shown
_TELL_AFTER_S = 1.0  # nor is the model told of this
# From here on a command that no table names counts as heavy.
_HEAVY_CPU_S, _HEAVY_BYTES = 20.0, 1 << 30
_KILLED_CODES = 128  # and above


class LeaseClient:
    """Made once for each agent process."""

    def __init__(self, current: CurrentSpec, reporter: Reporter | None) -> None:
        self._current, self._reporter = current, reporter
        self._known: HeavyCommands | None = None
        self._count = 0

    def find(self, argv: Sequence[str]) -> HeavyCommand | None:
        """The heavy command in this argv; None: it takes no turns."""
        rules = self._current.spec.parts.leases
        if not rules.enabled or self._reporter is None:
            return None
        if self._known is None:
            self._known = HeavyCommands(rules)
        return self._known.find(argv)

    async def take(self, heavy: HeavyCommand, cwd: str) -> CommandTurn | None:
        """Wait for the command's lease, which the caller ends. If cancelled, none is held."""
        if self._reporter is None:
            return None
        self._count += 1
        limit_bytes = self._current.spec.parts.leases.command_memory_bytes
        lease = _HeldLease(self._reporter, self._count, heavy, cwd, limit_bytes)
        try:
            await lease.wait()
        except BaseException:
            lease.end(None)
            raise
        return lease

    def observe(self, argv: Sequence[str], cwd: str) -> CommandTurn | None:
        """For a command without a lease: report it at its end if it was heavy."""
        if self._known is None or self._reporter is None:
            return None
        return _UnleasedCommand(self, self._reporter, argv, cwd)

    def learn(self, head: str) -> None:
        """Commands that begin with these words are heavy from now on."""
        if self._known is not None:
            self._known.learn(head)


class _HeldLease:
    """One heavy command."""

    def __init__(
        self,
        reporter: Reporter,
        number: int,
        heavy: HeavyCommand,
        cwd: str,
        memory_bytes: int | None,
    ) -> None:
        self.memory_bytes, self.notice = memory_bytes, ""
        self._reporter, self._number, self._heavy, self._cwd = reporter, number, heavy, cwd
        self._waited_s, self._began = 0.0, trio.current_time()
        self._has_ended = False

    async def wait(self) -> None:
        """Return when the command may run. The supervisor bounds the wait."""
        heavy, asked = self._heavy, trio.current_time()
        request = TakeLease(
            number=self._number,
            kind=heavy.kind,
            command=heavy.command,
            head=heavy.head,
            cwd=self._cwd,
        )
        reply: object = None
        async with self._reporter.shown_wait(
            "waits for its turn among heavy commands", after_s=SHOW_AFTER_S
        ) as show:
            reply = await self._reporter.request(
                request,
                on_queued=lambda queued: show(_position_text(queued)),
            )
        self._began = trio.current_time()
        self._waited_s = self._began - asked
        without_turn = isinstance(reply, LeaseGiven) and reply.without_turn
        self.notice = wait_notice(self._waited_s, without_turn=without_turn)

    def end(self, status: ExitStatus | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        now = trio.current_time()
        self._reporter.emit(
            _describe_end(
                self._heavy,
                status,
                cwd=self._cwd,
                lease=self._number,
                waited_s=self._waited_s,
                seconds=now - self._began,
            )
        )


class _UnleasedCommand:
    """A command that is not known to be heavy; it is reported if it was."""

    memory_bytes: int | None = None
    notice = ""

    def __init__(
        self, client: LeaseClient, reporter: Reporter, argv: Sequence[str], cwd: str
    ) -> None:
        self._client, self._reporter, self._argv, self._cwd = client, reporter, argv, cwd
        self._began = trio.current_time()

    def end(self, status: ExitStatus | None) -> None:
        if status is None:
            return
        if status.exit_code is None or status.exit_code >= _KILLED_CODES:
            return  # a server that was ended, for example
        used = status.usage
        if used.cpu_s < _HEAVY_CPU_S and used.peak_bytes < _HEAVY_BYTES:
            return
        heavy = describe_unknown(self._argv)
        if heavy is None or self._client.find(self._argv) is not None:
            return  # the table knows it, and it took no turn because it has a terminal
        self._client.learn(heavy.head)
        seconds = trio.current_time() - self._began
        self._reporter.emit(_describe_end(heavy, status, cwd=self._cwd, seconds=seconds))


def _describe_end(
    heavy: HeavyCommand,
    status: ExitStatus | None,
    *,
    cwd: str,
    seconds: float,
    lease: int = 0,
    waited_s: float = 0.0,
) -> HeavyCommandEnded:
    if status is None:
        return HeavyCommandEnded(
            lease=lease, kind=heavy.kind, command=heavy.command, head=heavy.head, cwd=cwd,
            ran=False, waited_s=round(waited_s, 3),
        )  # fmt: skip
    code = status.exit_code if status.exit_code is not None else 128 + (status.signal or 0)
    return HeavyCommandEnded(
        lease=lease,
        kind=heavy.kind,
        command=heavy.command,
        head=heavy.head,
        cwd=cwd,
        waited_s=round(waited_s, 3),
        seconds=round(seconds, 3),
        cpu_s=status.usage.cpu_s,
        peak_bytes=status.usage.peak_bytes,
        exit_code=code,
    )


def wait_notice(waited_s: float, *, without_turn: bool) -> str:
    """What the model is told of the wait; "" if it was short."""
    if without_turn:
        return (
            f"it began {waited_s:.0f} s late: no turn among the heavy commands of this machine "
            "came in that time, so it ran beside them and may have been slow"
        )
    if waited_s < _TELL_AFTER_S:
        return ""
    return (
        f"it began {waited_s:.1f} s late: builds, tests and installs on this machine take turns; "
        "the wait counts against no time limit"
    )


def _position_text(queued: Queued) -> str:
    why = queued.why if isinstance(queued, QueuedForLease) else ""
    return f" (number {queued.place} in line{f': {why}' if why else ''})"
