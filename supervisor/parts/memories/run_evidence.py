"""What a run's journal proves: what a person said, which commands ran and how they ended. Pure.

A run that read what strangers may have written is polluted: its memories might be theirs.
"""

import re
from collections.abc import Iterable

from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.contents.context_markers import task_in
from swarm.mailbox.parts.memories.memory_messages import MemoryMarked
from swarm.mailbox.protocol.events import (
    CallBegan,
    CallEnded,
    CommandCall,
    PatchCall,
    TurnCompleted,
)
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    AnyRecordBody,
    InputPosted,
    ProviderChosen,
    Record,
    RunCompleted,
    RunStarted,
)
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.findings import Finding, FindingPublished
from swarm.mailbox.protocol.values.limits import DangerFullAccess, Limits

from .memory_facts import FACT_ID

_MOST_COMMANDS = 2000
_MOST_OUTPUT_CHARS = 4_000_000  # of all calls together
_CITED = re.compile(
    r"^[^\w\n]{0,16}memories(?: used)?[^\w\n]{0,16}:(?P<ids>.*)$", re.IGNORECASE | re.MULTILINE
)


class RanCommand(Value):
    """One command that ended. `failure`: the start of what it wrote, if it failed."""

    script: str
    exit_code: int
    agent: str
    output: str = ""


class RunEvidence(Value):
    run_id: str = ""
    cwd: str = ""
    title: str = ""
    provider: str = ""  # the last one, and its model
    model: str = ""
    status: str = "running"
    result: str = ""
    updated_at: float = 0.0
    said: tuple[str, ...] = ()  # what a person told the root, the task first
    commands: tuple[RanCommand, ...] = ()
    changed: tuple[str, ...] = ()  # files that patches changed
    findings: tuple[Finding, ...] = ()
    outputs: tuple[str, ...] = ()  # what calls gave to models
    polluted: str = ""  # why nothing of this run may be remembered
    cited: tuple[str, ...] = ()  # ids of memories that answers name
    stale: tuple[tuple[str, str], ...] = ()  # memories that agents found untrue, and why


class _Fold:
    def __init__(self) -> None:
        self.run_id = self.cwd = self.title = self.provider = self.model = self.result = ""
        self.status = "running"
        self.updated_at = 0.0
        self.said: list[str] = []
        self.commands: list[RanCommand] = []
        self.changed: dict[str, None] = {}
        self.findings: list[Finding] = []
        self.outputs: list[str] = []
        self.cited: dict[str, None] = {}
        self.stale: dict[str, str] = {}
        self.polluted = ""
        self._began: dict[tuple[str, str], CommandCall] = {}
        self._online: set[str] = set()
        self._room = _MOST_OUTPUT_CHARS

    def take(self, record: Record) -> None:
        self.updated_at = record.ts
        match record.body:
            case AgentSpawned(path=path, limits=limits):
                if is_online(limits):
                    self._online.add(path)
            case InputPosted() as posted if record.agent == ROOT_PATH:
                if posted.source in ("task", "person"):
                    texts = (one.text for one in posted.parts if isinstance(one, TextInput))
                    self.said += filter(None, map(task_in, texts))
            case CallBegan() as began:
                self._take_call(record.agent, began)
            case CallEnded() as ended:
                self._take_end(record.agent, ended)
            case FindingPublished(finding=finding):
                self.findings.append(finding)
            case MemoryMarked(fact_id=fact_id, why=why):
                self.stale[fact_id] = why
            case TurnCompleted(last_message=str() as text):
                for found in _CITED.finditer(text):
                    self.cited |= dict.fromkeys(FACT_ID.findall(found["ids"]))
            case body:
                self._take_run(body)

    def _take_run(self, body: AnyRecordBody) -> None:
        match body:
            case RunStarted(run_id=run_id, cwd=cwd, title=title):
                self.run_id, self.cwd, self.title = run_id, cwd, self.title or title
            case ProviderChosen(provider=provider, model=model):
                self.provider, self.model = provider, model
            case RunCompleted(status=status, result=result):
                self.status, self.result = status, result or ""
            case _:
                pass

    def _take_call(self, agent: str, began: CallBegan) -> None:
        match began.detail:
            case PatchCall(changes=changes):
                self.changed |= dict.fromkeys(change.path for change in changes)
            case CommandCall() as call:
                self._began[agent, began.call_id] = call
                if agent in self._online:
                    self._pollute("its commands could reach the network")
            case _:
                pass

    def _take_end(self, agent: str, ended: CallEnded) -> None:
        if ended.untrusted:
            self._pollute(f"it read what strangers may have written, by {ended.tool}")
        if self._room > 0:
            self.outputs.append(ended.output[: self._room])
            self._room -= len(ended.output)
        call = self._began.pop((agent, ended.call_id), None)
        if call is None or ended.exit_code is None or len(self.commands) >= _MOST_COMMANDS:
            return
        output = ended.output if ended.exit_code else ""
        ran = RanCommand(
            script=call.script, exit_code=ended.exit_code, agent=agent, output=output[:2000]
        )
        self.commands.append(ran)

    def _pollute(self, why: str) -> None:
        self.polluted = self.polluted or why


def is_online(limits: Limits) -> bool:
    """True if commands of such an agent may reach a network."""
    sandbox = limits.sandbox
    if isinstance(sandbox, DangerFullAccess) or sandbox.network_access:
        return True
    return limits.network is not None


def read_evidence(records: Iterable[Record]) -> RunEvidence:
    """Fold the journal of a whole run, in order."""
    fold = _Fold()
    for record in records:
        fold.take(record)
    return RunEvidence(
        run_id=fold.run_id,
        cwd=fold.cwd,
        title=fold.title,
        provider=fold.provider,
        model=fold.model,
        status=fold.status,
        result=fold.result,
        updated_at=fold.updated_at,
        said=tuple(fold.said),
        commands=tuple(fold.commands),
        changed=tuple(fold.changed),
        findings=tuple(fold.findings),
        outputs=tuple(fold.outputs),
        polluted=fold.polluted,
        cited=tuple(fold.cited),
        stale=tuple(fold.stale.items()),
    )
