"""All exec sessions of one agent: start, write, close, end.

No session outlives the block that opened it. A call returns at the end of its yield time or when
its command ends, whichever comes first, with no fixed pauses. A session is not closed while a call
waits for it (`SessionSlots`).
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import msgspec
import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import Lookup, held_environment
from swarm.mailbox.protocol.approvals import ExtraPermissions
from swarm.mailbox.protocol.hooks import Hook
from swarm.mailbox.protocol.values.limits import SandboxPolicy
from swarm.roles.base.login_shell import find_shell

from ..base.current_spec import CurrentSpec
from ..parts.network.blocked_texts import blocked_texts
from ..sandbox.denial_detection import is_sandbox_denial
from ..sandbox.sandbox_plan import SandboxPlan
from .command_plan import plan_command
from .command_state import LauncherGone
from .command_turn import CommandTurn
from .exec_outcome import (
    FIRST_SESSION_ID,
    LAST_SESSION_ID,
    STDIN_CLOSED,
    TIMED_OUT_CODE,
    ExecFailed,
    ExecOutcome,
    ExecRequest,
    SessionQueueFull,
    StdinFailed,
    closed_text,
    exec_yield_s,
    open_sessions_warning,
    overrun_text,
    waited_text,
    write_yield_s,
)
from .exec_session import ExecSession, OnOutput, SessionSlots, choose_session_to_close
from .hook_commands import HookCommands, StartedHook
from .launcher_client import LauncherClient
from .prewarmed_sandbox import PrewarmedSandbox
from .running_command import (
    CommandRequest,
    InputClosed,
    start_command,
)
from .session_request import build_session_request, session_environment

EnvironmentSource = Callable[[], Awaitable[Mapping[str, str]]]
_SYSTEM_RANDOM = random.SystemRandom()  # has no state, so a fork may share it
_MAX_CLOSED_IDS = 1024  # ids of sessions closed to make room, to explain them to a later call


class ExecSessions:
    """The agent's commands. Made by `open_exec_sessions`."""

    def __init__(
        self,
        launcher: LauncherClient,
        current: CurrentSpec,
        nursery: trio.Nursery,
        chance: random.Random,
    ) -> None:
        self._launcher, self._current = launcher, current
        self._nursery, self._random = nursery, chance
        self._sessions: dict[int, ExecSession] = {}
        self._slots = SessionSlots(self._make_room)
        self._closed: dict[int, None] = {}  # closed to make room; the latest last
        self._closed_unreported: list[int] = []
        self._uses = 0
        self._source: EnvironmentSource | None = None
        self._snapshot: Mapping[str, str] | None = None
        self._snapshotting = trio.Lock()
        self._prewarmed = PrewarmedSandbox(launcher, nursery)
        self._hooks = HookCommands(
            launcher, current, nursery, environment=self._environment, shell_argv=self.shell_argv
        )

    async def exec(
        self,
        request: ExecRequest,
        on_output: OnOutput | None = None,
        turn: CommandTurn | None = None,
    ) -> ExecOutcome:
        """Run a command until it ends or its yield time is over; then it goes on as a session.

        Raises:
            ExecFailed: it never ran; the text is for the model.

        If cancelled, the command is killed, because the caller never learned its session id. The
        turn ends with the command.
        """
        try:
            waited_s, started, session = await self._begin(request, turn)
        except BaseException:
            if turn is not None:
                turn.end(None)
            raise
        with self._awaiting(session):
            self._prewarm_next(request, session)
            wait_s = exec_yield_s(request.yield_time_ms)
            if request.timeout_ms is not None:
                wait_s = request.timeout_ms / 1000
            try:
                with session.stream_output_to(on_output):
                    with trio.move_on_after(wait_s):
                        await session.finished.wait()
                    await self._check_launcher(session)
            except trio.Cancelled:
                self._drop(session)
                self._nursery.start_soon(self._end, session)
                raise
            timed_out = request.timeout_ms is not None and not session.finished.is_set()
            if timed_out:
                await self._terminate(session)
            self._prewarm_next(request, session)  # a long command outlives the first prewarmed one
            outcome = self._outcome(session, started, timed_out=timed_out)
        late = waited_text(waited_s)
        if turn is not None and turn.notice:
            outcome = outcome.with_warning(turn.notice)
        return outcome if not late else outcome.with_warning(late)

    async def _begin(
        self, request: ExecRequest, turn: CommandTurn | None
    ) -> tuple[float, float, ExecSession]:
        """Start a command in a slot: seconds waited for it, the time of the start, the session."""
        await self.load_environment()
        try:
            waited_s = await self._slots.acquire()
        except SessionQueueFull as error:
            raise ExecFailed(request.argv, str(error)) from error
        started = trio.current_time()  # waiting for a slot does not count
        return waited_s, started, await self._start(request, turn)

    async def write(
        self, session_id: int, chars: str, yield_time_ms: int, on_output: OnOutput | None = None
    ) -> ExecOutcome:
        """Write to a session's terminal (or only wait, if `chars` is empty) and return its output.

        Raises:
            StdinFailed: no such session, or it has no open input.
        """
        session = self._sessions.get(session_id)
        if session is None:
            why = f": {closed_text([session_id])}" if session_id in self._closed else ""
            raise StdinFailed(f"session_id {session_id} is of no running command{why}")
        started = trio.current_time()
        wait_s = write_yield_s(yield_time_ms, is_poll=not chars)
        with self._awaiting(session):
            with session.stream_output_to(on_output):
                with trio.move_on_after(wait_s):
                    if chars and not session.finished.is_set():
                        await self._write(session, chars)
                    await session.finished.wait()
                await self._check_launcher(session)
            return self._outcome(session, started)

    async def load_environment(self) -> None:
        """Get the login shell's environment if that has not been done; `exec` does it too."""
        async with self._snapshotting:
            if self._snapshot is None:
                given = self._current.spec.environment
                self._snapshot = given if self._source is None else await self._source()

    async def start_hook(self, hook: Hook, payload: bytes) -> StartedHook:
        """Start a hook's command, outside of the sessions; the caller ends and closes it.

        A project's hook starts in the project's folder. Raises SwarmError, OSError.
        """
        await self.load_environment()
        asked = self._hooks.build_request(hook)
        if not asked.request.sandbox.is_sandboxed:
            await self._discard_prewarmed()
        return await self._hooks.start(asked, payload)

    async def prewarm_hook(self, hook: Hook, *, after_s: float = 0.0) -> None:
        """Make a sandbox ahead in which this hook, or one that is like it, can start at once."""
        if self._current.spec.inherited.prewarmed_sandbox:
            await self.load_environment()
            self._hooks.prepare_next(hook, after_s=after_s)

    def set_environment_source(self, source: EnvironmentSource) -> None:
        """Set the source that is asked once for the environment; without one the spec's is used."""
        self._source = source

    def shell_argv(self, script: str, *, shell: str | None = None) -> tuple[str, ...]:
        """The argv that runs `script` in the user's shell, not as a login shell."""
        return (shell or find_shell(self._current.spec.environment), "-c", script)

    def plan(
        self, policy: SandboxPolicy, cwd: str, extra: ExtraPermissions | None = None
    ) -> SandboxPlan:
        """The plan that `exec` would enforce. Raises SandboxUnavailable."""
        return plan_command(self._current.spec, policy, cwd, extra)

    def is_open(self, session_id: int) -> bool:
        """True while the session may be written to."""
        return session_id in self._sessions

    def live_count(self) -> int:
        """How many commands run now."""
        return sum(not session.finished.is_set() for session in self._sessions.values())

    async def terminate_all(self) -> int:
        """Kill and forget every session, and discard the prewarmed sandbox.

        Returns how many commands were running.
        """
        sessions = tuple(self._sessions.values())
        running = self.live_count()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._discard_prewarmed)
            for session in sessions:
                nursery.start_soon(self._terminate, session)
        return running

    async def _start(self, request: ExecRequest, turn: CommandTurn | None) -> ExecSession:
        try:
            asked = self._build_request(request, turn)
            if not asked.sandbox.is_sandboxed:
                await self._discard_prewarmed()
            command = self._prewarmed.take(asked) or await start_command(self._launcher, asked)
        except BaseException as error:
            self._slots.release()
            if isinstance(error, SwarmError | OSError):
                raise ExecFailed(request.argv, str(error)) from error
            raise
        session = ExecSession(self._free_id(), command, asked, turn)
        self._sessions[session.id] = session
        self._nursery.start_soon(session.run)
        return session

    async def _discard_prewarmed(self) -> None:
        await self._prewarmed.discard()
        await self._hooks.discard()

    async def _check_launcher(self, session: ExecSession) -> None:
        """For a command that still runs, check that the launcher lives and can report its end."""
        if not session.finished.is_set():
            with suppress(LauncherGone):
                await self._launcher.check_alive()

    def _prewarm_next(self, request: ExecRequest, session: ExecSession) -> None:
        # swarm's own commands, which have a time limit, do not come in series
        if request.timeout_ms is None and self._current.spec.inherited.prewarmed_sandbox:
            # for a next command that is not heavy
            plain = msgspec.structs.replace(
                session.request, resources=self._current.spec.inherited.resources
            )
            self._prewarmed.prepare_next(plain)

    def _build_request(self, request: ExecRequest, turn: CommandTurn | None) -> CommandRequest:
        """The request under the plan that holds now. Raises SandboxUnavailable, OSError."""
        # Plan by the agent's own folder: the folder that a command asks for gives it no rights.
        plan = self.plan(request.policy, self._current.spec.cwd, request.extra)
        environment = self._environment(request.environment, plan)
        # swarm's own commands, which have a time limit, decide by what their programs say
        own = None if request.timeout_ms is None else self._current.spec.guarded.run_places
        if (places := request.held_from or own) is not None:
            lookup = Lookup(environment.get("PATH", ""), request.cwd, places)
            environment = held_environment(environment, lookup)
        return build_session_request(self._current.spec, request, plan, environment, turn)

    def outside_environment(self) -> dict[str, str]:
        """The variables of a command without a sandbox; `load_environment` comes first."""
        return self._environment({}, SandboxPlan())

    def _environment(self, own: Mapping[str, str], plan: SandboxPlan) -> dict[str, str]:
        return session_environment(self._current.spec, self._snapshot, own, plan)

    async def _write(self, session: ExecSession, chars: str) -> None:
        try:
            await session.command.write_stdin(chars.encode("utf-8", "surrogatepass"))
        except InputClosed as error:
            if not session.command.is_tty:
                raise StdinFailed(STDIN_CLOSED) from error
            # It has just ended: its last output and exit code are the better result.

    def _outcome(
        self, session: ExecSession, started: float, *, timed_out: bool = False
    ) -> ExecOutcome:
        text, kept = session.take_output()
        too_many = open_sessions_warning(len(self._sessions))
        code = TIMED_OUT_CODE if timed_out else session.exit_code
        if session.finished.is_set():
            self._drop(session)
        closed, self._closed_unreported = closed_text(self._closed_unreported), []
        return ExecOutcome(
            wall_time_s=trio.current_time() - started,
            output=text,
            original_token_count=-(-kept.total_bytes // 4),
            exit_code=code,
            session_id=None if session.finished.is_set() else session.id,
            denied=is_sandbox_denial(
                exit_code=code, output=text, sandboxed=session.request.sandbox.is_sandboxed
            ),
            warning=". ".join(filter(None, (overrun_text(session.overrun), too_many, closed))),
            moved_aside=session.moved_aside,
            blocked=blocked_texts(session.command.blocked_requests()),
        )

    @contextmanager
    def _awaiting(self, session: ExecSession) -> Iterator[None]:
        """Mark that a call waits for the session: until it returns, the session keeps its slot."""
        session.awaited += 1
        self._use(session)
        try:
            yield
        finally:
            self._use(session)
            session.awaited -= 1
            self._slots.wake_waiting()

    def _use(self, session: ExecSession) -> None:
        self._uses += 1
        session.last_used = self._uses

    def _free_id(self) -> int:
        while True:
            number = self._random.randint(FIRST_SESSION_ID, LAST_SESSION_ID)
            if number not in self._sessions:
                return number

    def _make_room(self) -> bool:
        """Close a session to make room for the next command; False if a call waits for each."""
        session = choose_session_to_close(self._sessions.values())
        if session is None:
            return False
        del self._sessions[session.id]
        self._closed[session.id] = None
        if len(self._closed) > _MAX_CLOSED_IDS:
            del self._closed[next(iter(self._closed))]
        self._closed_unreported.append(session.id)
        self._nursery.start_soon(self._end, session)
        return True

    def _drop(self, session: ExecSession) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self._slots.release()

    async def _terminate(self, session: ExecSession) -> None:
        self._drop(session)
        await self._end(session)

    async def _end(self, session: ExecSession) -> None:
        if not session.finished.is_set():
            try:
                await session.command.kill_tree()
            except SwarmError:
                return
            await session.finished.wait()


@asynccontextmanager
async def open_exec_sessions(
    launcher: LauncherClient, current: CurrentSpec, *, chance: random.Random | None = None
) -> AsyncIterator[ExecSessions]:
    """Exec sessions for the duration of the block; at its end every command's tree is killed.

    Args:
        current: The environment, shell policy, private /tmp and hidden paths of its spec are used.
        chance: Makes session and chunk ids; a seeded one makes them repeatable.
    """
    async with trio.open_nursery() as nursery:
        sessions = ExecSessions(launcher, current, nursery, chance or random.SystemRandom())
        try:
            yield sessions
        finally:
            nursery.cancel_scope.cancel()
