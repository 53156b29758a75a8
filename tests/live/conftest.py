"""Fixtures for whole runs: `rig`, a home of its own in which the real command line is started.

Rule: everything a rig started carries its mark (environment) or its run's id (process title), and
is gone when the test ends, whatever the test did. Facts are read from the journal and from /proc.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, TypeVar

import pytest
import trio

from support.forked_programs import Files, ForkedCommand, Setting, forked_python
from swarm.mailbox.base.ids import new_uuid7, short_id
from swarm.mailbox.base.process_tree import children_of, descendants_of, is_zombie
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.items import AnyOutput, text_of
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, Record, RunCompleted
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import RunPaths

_PROGRAM = str(Path(sys.executable).parent / "swarm")
_STARTS_PYTHON = {"doctor", "login", "logout", "mcp"}  # commands that leave their work to it
_LOOK_S = 0.02
_Body = TypeVar("_Body")
_Process = TypeVar("_Process", bound=trio.Process | ForkedCommand)


class CommandResult(NamedTuple):
    """What a finished command left: its exit code, stdout and stderr."""

    code: int
    out: str
    err: str


class StartedCommand:
    """One `swarm run` or `resume` that was started and may still be running."""

    def __init__(self, process: trio.Process | ForkedCommand, out: Path, err: Path) -> None:
        self.process, self._answers, self._err = process, out, err

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait_end(self) -> CommandResult:
        """Wait for the command's end."""
        code = await self.process.wait()
        return CommandResult(code, self._answers.read_text(), self._err.read_text())


class Rig:
    """A home with at most one run in it, a workspace, and eyes on the run's processes."""

    def __init__(self, folder: Path, runtime: Path) -> None:
        self.folder, self.mark = folder, f"rig-{new_uuid7()}"
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.home.mkdir()
        self.runtime = runtime
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SHELL": "/bin/sh",
            "SWARM_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(runtime),
            "RIG": self.mark,
        }
        self.starts_anew = False  # True: no command is forked from a process with its modules
        self._processes: list[trio.Process | ForkedCommand] = []
        self._seen: dict[int, int] = {}  # pid → when it started: descendants at an earlier look

    # --- starting ---------------------------------------------------------------------------

    def script(self, *turns: dict[str, Any], **more: Any) -> str:
        """Write a scripted model; return the provider's name."""
        path = self.folder / "script.yaml"
        path.write_text(json.dumps({"turns": turns, **more}))
        return f"scripted:{path}"

    async def start(self, *words: str, prefix: Sequence[str] = ()) -> StartedCommand:
        """Start `swarm` with these words; `prefix` is a command that execs it.

        It is forked from a process that knows its modules, unless there is a prefix that is no
        Python program, or the test has changed what Python itself reads of the environment.
        """
        number = len(self._processes)
        out, err = (self.folder / f"{name}{number}" for name in ("out", "err"))
        program = tuple(prefix[2:]) if tuple(prefix[:2]) == (sys.executable, "-P") else None
        is_changed = any(name.startswith("PYTHON") for name in self.environment)
        is_forked = not (is_changed or self.starts_anew) and (program is not None or not prefix)
        process: trio.Process | ForkedCommand
        with out.open("wb") as stdout, err.open("wb") as stderr:
            if is_forked:
                files = Files(stdout.fileno(), stderr.fileno())
                python = forked_python() if words[0] in _STARTS_PYTHON else None
                setting = Setting(self.environment, self.work, python=python)
                process = ForkedCommand([*(program or ()), _PROGRAM, *words], files, setting)
            else:
                process = await trio.lowlevel.open_process(
                    [*prefix, _PROGRAM, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    env=self.environment,
                    cwd=self.work,
                )
        self._processes.append(process)
        return StartedCommand(process, out, err)

    def adopt(self, process: _Process) -> _Process:
        """A command that was started in another way; it is swept away with the others."""
        self._processes.append(process)
        return process

    async def run(
        self,
        provider: str,
        *words: str,
        sandbox: str = "danger-full-access",
        prefix: Sequence[str] = (),
    ) -> StartedCommand:
        """Start `swarm run` of a prompt in the workspace; `prefix`: as for `start`."""
        where = ("--provider", provider, "-s", sandbox)
        return await self.start("run", "-p", "do it", *where, "--plain", *words, prefix=prefix)

    async def resume(self, *words: str) -> StartedCommand:
        """Go on with the run of this home."""
        return await self.start("resume", self.run_id, "--plain", *words)

    def forget_run(self) -> None:
        """Make room for another run in this home."""
        rmtree(self._runs)

    # --- what is written --------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        (folder,) = (one for one in self._runs.iterdir() if one.is_dir())
        return folder.name

    @property
    def places(self) -> RunPaths:
        sockets = self.runtime / "swarm" / short_id(self.run_id)
        return RunPaths(folder=self._runs / self.run_id, sockets=sockets)

    @property
    def _runs(self) -> Path:
        return self.home / "state" / "runs"

    def records(self) -> list[Record]:
        """All that is written by now, in order."""
        return list(read_records(self.places)) if self.has_run else []

    def bodies(self, kind: type[_Body], *, agent: str | None = None) -> list[_Body]:
        """The records of one kind."""
        return [
            record.body
            for record in self.records()
            if isinstance(record.body, kind) and agent in (None, record.agent)
        ]

    @property
    def has_run(self) -> bool:
        runs = self._runs
        return runs.is_dir() and any(one.is_dir() for one in runs.iterdir())

    def outputs(self, agent: str = "/root") -> list[str]:
        """What the model was told of its calls, in order."""
        items = [record.item for record in self.bodies(ItemRecorded, agent=agent)]
        return [text_of(item.output) for item in items if isinstance(item, AnyOutput)]

    def lives(self, agent: str = "/root") -> list[AgentSpawned]:
        """Each life of the agent, oldest first."""
        return self.bodies(AgentSpawned, agent=agent)

    @property
    def completed(self) -> RunCompleted:
        """How the run ended, the last time it did."""
        return self.bodies(RunCompleted)[-1]

    # --- what lives -------------------------------------------------------------------------

    def alive(self) -> dict[int, str]:
        """Every living process of this rig, also the command itself, with its title."""
        for process in self._processes:
            if process.returncode is None:
                for pid in descendants_of(process.pid):
                    with suppress(OSError):
                        self._seen[pid] = _started(pid)
        return dict(self._living())

    def _living(self) -> Iterator[tuple[int, str]]:
        run = short_id(self.run_id) if self.has_run else "no run"
        mark = f"RIG={self.mark}".encode()
        ours = {one.pid for one in self._processes if one.returncode is None}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or is_zombie(int(entry.name)):
                continue
            with suppress(OSError):
                pid = int(entry.name)
                raw = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                title = raw.decode(errors="replace")
                is_of_run = title.startswith("swarm: ") and run in title
                if (
                    is_of_run
                    or pid in ours
                    or self._seen.get(pid) == _started(pid)
                    or mark in (entry / "environ").read_bytes()
                ):
                    yield pid, title

    async def wait_pid(self, title: str, *, but: int = 0) -> int:
        """Until the command has a child so titled: `gateway` or `fork-server`."""

        def find() -> list[int]:
            ours = children_of(self._processes[-1].pid)
            return [
                pid
                for pid, name in self.alive().items()
                if name.startswith(f"swarm: {title}") and pid in ours and pid != but
            ]

        return (await self.wait(find))[0]

    # --- waiting ----------------------------------------------------------------------------

    async def wait(self, fact: Callable[[], Any]) -> Any:
        """Look until the fact is true; the caller sets the deadline."""
        while True:
            with suppress(FileNotFoundError, ValueError):  # the folder is being made
                if found := fact():
                    return found
            await trio.sleep(_LOOK_S)

    async def wait_call(self, *, count: int = 1, agent: str | None = None) -> CallBegan:
        """Until that many calls have begun; the last of them."""
        return (await self.wait(lambda: self._begun(count, agent)))[-1]

    async def wait_runs(self, count: int = 1) -> None:
        """Until so many commands have written a line to `runs`: the file is there before it."""
        await self.wait(lambda: (self.work / "runs").read_text().count("\n") == count)

    def _begun(self, count: int, agent: str | None) -> list[CallBegan]:
        begun = self.bodies(CallBegan, agent=agent)
        return begun if len(begun) >= count else []

    async def wait_gone(self) -> None:
        """Until no process of the rig lives."""
        await self.wait(lambda: not self.alive())

    async def sweep(self) -> None:
        """Kill whatever is left and reap what we started."""
        for _ in range(3):
            for pid in self.alive():
                for one in (*descendants_of(pid), pid):
                    with suppress(ProcessLookupError):
                        os.kill(one, signal.SIGKILL)
        for process in self._processes:
            await process.wait()


def _started(pid: int) -> int:
    """Clock ticks at which it started: tells a process from a later one of the same number."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[19])


@pytest.fixture
def started_anew(rig: Rig) -> None:
    """For tests of a start itself, and of what a process's memory and environment hold."""
    rig.starts_anew = True


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A fresh home. Its sockets lie in a folder with a short name: the kernel bounds their path."""
    runtime = Path(tempfile.mkdtemp(prefix="rig"))
    made = Rig(tmp_path, runtime)
    try:
        yield made
    finally:
        with trio.move_on_after(5, shield=True):
            await made.sweep()
        rmtree(runtime, ignore_errors=True)
