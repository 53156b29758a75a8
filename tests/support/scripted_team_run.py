"""One run of the command with a scripted model, and what its journal says; for test_team_*.py."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio
import yaml

from support.forked_programs import run_forked
from swarm.mailbox.protocol.items import FunctionCallOutput
from swarm.mailbox.protocol.records import AgentSpawned, ItemRecorded, ProcessEnded, Record
from swarm.supervisor.journal.journal_reader import read_records
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

SWARM = str(Path(sys.executable).with_name("swarm"))

RESUME = """
import os, sys
from msgspec.structs import replace
from swarm.supervisor.request.saved_request import load_request
from swarm.supervisor.clients.cli.run_setup.options import ShowOptions
from swarm.supervisor.clients.cli.commands.run_execution import run_in_process
from swarm.supervisor.runs.paths import find_user_paths, paths_of_run

places = find_user_paths(dict(os.environ))
request = load_request(paths_of_run(places, sys.argv[1]))
request = replace(request, run_id=sys.argv[1], resumes=True, environment=dict(os.environ))
sys.exit(run_in_process(request, ShowOptions(plain=True), places))
"""


class ScriptedRun:
    """One run of the command, and what its journal says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "SWARM_HOME": str(folder / "s"),
            "XDG_RUNTIME_DIR": str(folder),
        }
        self.code: int | None = None

    def argv(self, turns, *options):
        script = self.folder / "script.yaml"
        script.write_text(yaml.safe_dump({"turns": turns, "default": {"text": "nothing more"}}))
        return [
            SWARM, "run", "-p", "go", "--plain", "--provider", f"scripted:{script}",
            "-s", "danger-full-access", "-C", str(self.folder), *options,
        ]  # fmt: skip

    async def ended(self, argv) -> subprocess.CompletedProcess[bytes]:
        """Run a Python program (`argv` begins with its file) to its end."""
        return await run_forked(argv, environment=self.environment, folder=self.folder)

    def resume_argv(self, *words: str) -> list[str]:
        program = self.folder / "resume.py"
        program.write_text(RESUME)
        return [str(program), self.run_id(), *words]

    def run_id(self) -> str:
        (folder,) = self._journals()
        return folder.parent.name

    def _journals(self) -> list[Path]:
        """No deeper look: agents' private folders come and go."""
        return [*Path(self.environment["SWARM_HOME"]).glob("state/runs/*/journal")]

    def control(self) -> str:
        return paths_of_run(find_user_paths(self.environment), self.run_id()).control_endpoint

    def records(self) -> list[Record]:
        runs = find_user_paths(self.environment)
        for about in self._journals():
            return list(read_records(paths_of_run(runs, about.parent.name)))
        return []

    def of(self, kind, agent=None):
        found = [one for one in self.records() if isinstance(one.body, kind)]
        return [one.body for one in found if agent is None or one.agent == agent]

    async def until(self, holds):
        while not (found := holds()):  # noqa: ASYNC110 — what a journal holds has no event
            await trio.sleep(0.05)
        return found

    def slots_at_the_end(self) -> int:
        """Live processes just before the last one ended; `most` is then known too."""
        live: set[str] = set()
        last = self.most = 0
        for record in self.records():
            if isinstance(record.body, AgentSpawned):
                live.add(record.body.path)
                self.most = max(self.most, len(live))
            elif isinstance(record.body, ProcessEnded):
                last = len(live)
                live.discard(record.agent)
        assert not live
        return last

    def outputs(self, agent="/root"):
        items = [body.item for body in self.of(ItemRecorded, agent)]
        return [item.output for item in items if isinstance(item, FunctionCallOutput)]


async def run_script_to_end(scripted, turns, *options):
    done = await scripted.ended(scripted.argv(turns, *options))
    scripted.code = done.returncode
    (scripted.folder / "out").write_bytes(done.stdout + done.stderr)
    assert b"Traceback" not in done.stdout + done.stderr


@asynccontextmanager
async def open_scripted_run(folder, turns, *options) -> AsyncIterator[ScriptedRun]:
    """The run goes on beside the block, and has ended after it."""
    scripted = ScriptedRun(folder)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(run_script_to_end, scripted, turns, *options))
            yield scripted


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def says(agent, text, **more):
    return {"agent": agent, "text": text, **more}


def calls(agent, *wanted):
    return {"agent": agent, "calls": list(wanted)}


def spawns(*names, **more):
    return [
        call("spawn_agent", task_name=n, message=f"be {n}", fork_turns="none", **more)
        for n in names
    ]


def waits(*names, mode="all", seconds=60):
    wanted = {"targets": list(names)} if names else {}
    return call("wait_agent", **wanted, **{"for": mode}, timeout_ms=seconds * 1000)


def wakes(target):
    """Each time in other words: the same call again and again would end the turn."""
    return call("followup_task", target=target, message="your turn, after my {turn}")
