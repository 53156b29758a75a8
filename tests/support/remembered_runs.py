"""Runs that have ended, as memories read them: a folder with its request, its end and a journal."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from swarm.mailbox.base.ids import new_uuid7
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.parts.memories.memory_messages import MemorySettings, RunMemories
from swarm.mailbox.parts.part_messages import PartSettings
from swarm.mailbox.protocol.events import CallBegan, CallEnded, CommandCall, TurnCompleted
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    AnyRecordBody,
    InputPosted,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
    encode_record,
)
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION
from swarm.mailbox.protocol.values.limits import Limits, WorkspaceWrite
from swarm.supervisor.parts.memories.memory_database import open_database
from swarm.supervisor.parts.memories.memory_paths import MemoryPaths
from swarm.supervisor.parts.memories.memory_store import MemoryStore
from swarm.supervisor.parts.memories.memory_work import MemoryWork, WorkDone
from swarm.supervisor.parts.memories.model_extraction import Asked
from swarm.supervisor.request.run_request import RunRequest
from swarm.supervisor.request.saved_request import save_request
from swarm.supervisor.runs.paths import UserPaths, find_user_paths, paths_of_run
from swarm.supervisor.runs.run_metadata import RunMetadata, write_metadata

ON = MemorySettings(enabled=True)
OFFLINE = Limits(sandbox=WorkspaceWrite())
NOW = 1_800_000_000.0
DAY_S = 86_400.0


def commands(*ran: tuple[str, int, str], untrusted: bool = False) -> list[AnyRecordBody]:
    """Calls of commands: script, exit code, output."""
    found: list[AnyRecordBody] = []
    for number, (script, code, output) in enumerate(ran):
        call = CommandCall(script=script, argv=("bash", "-c", script), cwd="/")
        name = f"call-{number}"
        found += (
            CallBegan(turn_id="t", call_id=name, tool="exec_command", detail=call),
            CallEnded(turn_id="t", call_id=name, tool="exec_command", status="completed",
                      exit_code=code, output=output, untrusted=untrusted),
        )  # fmt: skip
    return found


def run_records(
    bodies: Sequence[AnyRecordBody], *, said: str, cwd: str, run_id: str, ended: float,
    answer: str = "done", limits: Limits = OFFLINE,
) -> list[Record]:  # fmt: skip
    whole: list[AnyRecordBody] = [
        RunStarted(run_id=run_id, task="prompt", title=said[:80], cwd=cwd, version="1"),
        ProviderChosen(provider="scripted", model="scripted", why=""),
        AgentSpawned(agent_id="a", path="/root", epoch=1, pid=1, limits=limits, cwd=cwd),
        InputPosted(input_id="i", parts=(TextInput(text=said),)),
        *bodies,
        TurnCompleted(turn_id="t", last_message=answer),
        RunCompleted(status="completed", result=answer),
    ]
    return [
        Record(seq=seq, ts=ended, body=body, agent="" if is_own(body) else "/root")
        for seq, body in enumerate(whole, 1)
    ]


def is_own(body: AnyRecordBody) -> bool:
    return isinstance(body, RunStarted | ProviderChosen | RunCompleted)


class RememberedRuns:
    """A person's folders with runs; `work` is the memory job."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            "SWARM_HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder),
            "PATH": os.environ["PATH"],
        }
        self.places: UserPaths = find_user_paths(self.environment)
        self.paths = MemoryPaths(self.places)
        self.asked: list[str] = []
        self.now = NOW
        self._added = 0

    def add(
        self,
        bodies: Sequence[AnyRecordBody] = (),
        *,
        cwd: Path,
        said: str = "Work on it.",
        ended: float | None = None,
        settings: MemorySettings = ON,
        answer: str = "done",
        limits: Limits = OFFLINE,
    ) -> str:
        cwd.mkdir(parents=True, exist_ok=True)
        self._added += 1  # a millisecond each: ids of one millisecond have no order
        run_id = new_uuid7(unix_ms=int(self.now * 1000) + self._added)
        here = paths_of_run(self.places, run_id)
        here.journal.mkdir(parents=True)
        at = self.now - 60 if ended is None else ended
        records = run_records(
            bodies, said=said, cwd=str(cwd), run_id=run_id, ended=at, answer=answer, limits=limits
        )
        for name, own in (("run", True), ("a", False)):
            lines = [encode_record(one) for one in records if is_own(one.body) is own]
            (here.journal / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        parts = PartSettings(memories=RunMemories(settings=settings))
        save_request(here, RunRequest(task="prompt", prompt=said, cwd=str(cwd), parts=parts))
        write_metadata(
            here,
            RunMetadata(
                schema_version=SCHEMA_VERSION, run_id=run_id, title=said[:80], task="prompt",
                cwd=str(cwd), pid=1, started=at - 1, version="1", status="completed", ended=at,
            ),
        )  # fmt: skip
        return run_id

    def work(
        self,
        settings: MemorySettings = ON,
        answer: Callable[[str], Asked] = lambda _prompt: Asked(failure="none"),
    ) -> WorkDone:
        def ask(_choice: object, prompt: str, _schema: object, _tokens: int, _usd: float) -> Asked:
            self.asked.append(prompt)
            return answer(prompt)

        with self.paths.writing(wait_s=0), closing(open_database(self.paths.database)) as base:
            job = MemoryWork(
                MemoryStore(base), self.places, settings, ask,
                redactor=Redactor(()), clock=lambda: self.now,
            )  # fmt: skip
            return job.run()

    def texts(self, cwd: Path | None = None) -> set[str]:
        """What is remembered, of one folder or of all."""
        with closing(open_database(self.paths.database)) as base:
            store = MemoryStore(base)
            project = None if cwd is None else store.project_of(str(cwd))
            return {fact.text for fact in store.facts.all(project)}

    def everything_written(self) -> bytes:
        """All bytes below the folder of memories."""
        files = (path for path in self.paths.folder.rglob("*") if path.is_file())
        return b"".join(path.read_bytes() for path in files)
