"""The runs of one server: starting, finding, continuing and ending them.

A server reaches the runs that it started, and those of earlier servers that a person started in the
same folder with the same options. No other run: its rights may be wider.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from swarm.mailbox.base.errors import SwarmError, UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.base.private_files import write_own_file
from swarm.mailbox.protocol.control import EndRun

from ...journal.journal_reader import last_seq
from ...runs.paths import RunPaths, UserPaths, paths_of_run
from ...runs.run_list import RunSummary, summarize
from ...runs.run_metadata import is_run_alive
from ..client import LiveRun, RunEnding, RunNotAlive
from ..client.open_run import start_in_background
from .run_ceiling import CallerOptions, RunCeiling, find_folder, narrowed_options
from .turn_progress import AwaitedTurn

IDLE_TIMEOUT = "30m"  # a run that nobody speaks to any more ends by itself
MOST_LISTED = 50
_MARK = "mcp_server"  # file in a run's folder: which kind of server may reach it
_CLOSE_LIMIT_S = 10.0
_INTERRUPT_INTERVAL_S = 0.3
_AT_WORK = frozenset({"queued", "starting", "running", "waiting", "restarting"})


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the person gave on the command line.

    `words`: options of `swarm run`, as typed. `folder`, `roots`: canonical paths.
    """

    folder: str
    roots: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    most_runs: int = 8

    @property
    def authority(self) -> str:
        """The same for servers that a person started alike."""
        text = msgspec.json.encode([self.folder, self.roots, self.words])
        return hashlib.sha256(text).hexdigest()


class ServedRuns:
    """Use from one event loop; `close` it.

    Args:
        options: Of this server.
        ceiling_of: What a run in a folder may have at most; reads files, raises UsageError.
        places: Where runs are.
        environment: Of the runs.
    """

    def __init__(
        self, options: ServerOptions, *, ceiling_of: Callable[[str], RunCeiling],
        places: UserPaths, environment: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._options, self._ceiling_of = options, ceiling_of
        self._places, self._environment = places, environment
        self._own: set[str] = set()  # live runs that this process started
        self._foreground: set[str] = set()  # of these, those that end with it
        self._starting = 0

    # --- starting ----------------------------------------------------------------------------

    async def start(
        self, task: str, wanted: CallerOptions, *, cwd: str, background: bool
    ) -> LiveRun:
        """Start a run. UsageError: an option is too wide. SwarmError: it cannot start."""
        folder = find_folder(cwd, self._options.folder, self._options.roots)
        ceiling = await anyio.to_thread.run_sync(self._ceiling_of, folder)
        narrowed = narrowed_options(wanted, ceiling)
        self._check_room()
        words = self._options.words
        line = ["run", "--detach", "--keep-open", f"--idle-timeout={IDLE_TIMEOUT}"]
        line += ["--prompt-file=-", f"--cd={folder}"]
        line += [f"--add-dir={root}" for root in self._options.roots]
        if not any(word.startswith("--reviewer") for word in words):
            line.append("--reviewer=person")
        self._starting += 1
        try:
            run = await start_in_background([*line, *words, *narrowed], task, self._environment)
        finally:
            self._starting -= 1
        self._own.add(run.run_id)
        if not background:
            self._foreground.add(run.run_id)
        with suppress(OSError):  # then it is reached until this server ends
            write_own_file(run.paths.folder / _MARK, self._options.authority.encode())
        return run

    def _check_room(self) -> None:
        self._own = {one for one in self._own if is_run_alive(self._paths(one))}
        most = self._options.most_runs
        if len(self._own) + self._starting >= most:
            raise SwarmError(
                f"{most} runs of this server are alive, the most that it has at once; stop one "
                "with swarm_stop, or start the server with a larger --max-runs"
            )

    # --- finding -----------------------------------------------------------------------------

    def find(self, wanted: str) -> LiveRun:
        """A run of this server by its id, or the end of it. Raises UsageError."""
        found = [one for one in self._reachable() if one.endswith(wanted)]
        if len(found) == 1:
            return LiveRun(self._paths(found[0]))
        if not found:
            raise UsageError(f"this server has no run {wanted!r}; swarm_status lists its runs")
        raise UsageError(f"{wanted!r} fits {len(found)} runs; give more of the id")

    def summaries(self) -> tuple[RunSummary, ...]:
        """The newest runs of this server, newest first. Reads files."""
        newest = islice(sorted(self._reachable(), reverse=True), MOST_LISTED)
        return tuple(summarize(self._paths(one)) for one in newest)

    def _reachable(self) -> list[str]:
        try:
            names = os.listdir(self._places.runs)  # noqa: PTH208 - names alone
        except OSError:
            return []
        runs = self._places.runs
        return [name for name in names if name in self._own or self._is_marked(runs / name)]

    def _is_marked(self, folder: Path) -> bool:
        try:
            return (folder / _MARK).read_text() == self._options.authority
        except (OSError, UnicodeDecodeError):
            return False

    def _paths(self, run_id: str) -> RunPaths:
        return paths_of_run(self._places, run_id)

    # --- going on ----------------------------------------------------------------------------

    async def send(self, run: LiveRun, text: str, agent: str) -> AwaitedTurn:
        """Send words; a run that has ended is resumed with them. Which turn reads them."""
        try:
            sent = await run.send(text, agent=agent)
        except (RunNotAlive, RunEnding):
            if agent not in {ROOT_PATH, "root"}:
                raise
            with anyio.move_on_after(_CLOSE_LIMIT_S):
                await run.wait_ended()
            return await self._resume(run, text)
        return AwaitedTurn(input_id=sent)

    async def _resume(self, run: LiveRun, text: str) -> AwaitedTurn:
        self._check_room()
        before = await anyio.to_thread.run_sync(last_seq, run.paths)
        line = ["resume", run.run_id, "--detach", "--keep-open", f"--idle-timeout={IDLE_TIMEOUT}"]
        await start_in_background([*line, "--prompt-file=-"], text, self._environment)
        self._own.add(run.run_id)
        return AwaitedTurn(after_seq=before)

    def attend(self, run: LiveRun) -> None:
        """A caller waits for this run: it ends with the server."""
        self._foreground.add(run.run_id)

    # --- ending ------------------------------------------------------------------------------

    async def close(self) -> None:
        """End the runs that callers waited for; those in the background go on. Bounded."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_LIMIT_S):
            async with anyio.create_task_group() as tasks:
                for run_id in self._foreground:
                    tasks.start_soon(_end, LiveRun(self._paths(run_id)))


async def _end(run: LiveRun) -> None:
    """Stop what the run does, then let it end. Nothing if it has ended."""
    with suppress(SwarmError):
        while run.is_alive:
            await run.interrupt()
            await run.request(EndRun())
            await anyio.sleep(_INTERRUPT_INTERVAL_S)


async def stop_turn(run: LiveRun, agent: str = "") -> None:
    """Interrupt what runs, also if it is just about to begin. Raises nothing."""
    with suppress(SwarmError):
        for _ in range(10):
            await run.interrupt(agent)
            states = {one.state for one in (await run.view()).agents}
            if states and not states & _AT_WORK:
                return
            await anyio.sleep(_INTERRUPT_INTERVAL_S)
