"""Forks a run: a new run continues from a turn of another run's root. The source is only read.

The copy is complete before it can be found: its `run.json` is written last. Inputs and mail that
the root had not read at that turn are not copied; a turn that was cut off is closed. The model and
the person are told what is not copied (running calls, other agents).
"""

import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH, is_reviewer, short_id
from swarm.mailbox.base.private_files import write_own_file
from swarm.mailbox.protocol.events import TurnAborted
from swarm.mailbox.protocol.items import (
    AnyCall,
    AnyItem,
    AnyOutput,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCallOutput,
    text_message,
)
from swarm.mailbox.protocol.records import (
    AgentEnded,
    AgentSpawned,
    AnyRecordBody,
    InputPosted,
    ItemRecorded,
    MailHandled,
    MailPosted,
    Record,
    RunStarted,
    SettingsChanged,
    encode_record,
)
from swarm.mailbox.protocol.values.base import SCHEMA_VERSION

from ....base.version import VERSION
from ....journal.journal_files import RUN_FILE, JournalFiles
from ....journal.journal_reader import read_records, run_records
from ....journal.replay import RunPast, fold_agent, fold_run
from ....journal.turns import PastTurn, find_turn, list_turns
from ....request.saved_request import load_request, save_request
from ....runs.paths import RunPaths, make_private_folder
from ....runs.run_metadata import (
    RunLabel,
    RunMetadata,
    lock_run,
    read_metadata,
    write_label,
    write_metadata,
)

_LINES_PER_WRITE = 500
FORKED = "forked"  # the status of a copy that has not started
_CUT_OFF = "interrupted: this conversation was branched off while the call ran"
_NOTE = Path(__file__).with_name("forked.md")
_AGENTS_NOTE = Path(__file__).with_name("forked_agents.md")
_MAX_NAMED = 20
AT_WORK = "at work"


class ForkPoint(NamedTuple):
    """Up to where the history is copied. `open_turn` "": it ends between two turns."""

    turn_id: str
    number: int
    last_seq: int
    open_turn: str
    left: tuple[tuple[str, str], ...] = ()  # the other agents at that point: paths and states


def find_fork_point(source: RunPaths, root_id: str, at: str) -> ForkPoint:
    """The end of the turn `at`; "": the end of the file. Raises UsageError."""
    turns = list_turns(read_records(source, file=root_id))
    turn: PastTurn = find_turn(turns, at or "last")
    last = turn.end_seq
    is_open = not last
    if not at or is_open:
        last = max(record.seq for record in read_records(source, file=root_id))
    return ForkPoint(turn.turn_id, turn.number, last, turn.turn_id if is_open else "")


def fork_run(source: RunPaths, target: RunPaths, *, at: str, agent_id: str) -> ForkPoint:
    """Make `target` a run whose root has `source`'s history up to that turn.

    Args:
        source: A run, alive or not.
        target: The paths of a new id; nothing is there yet.
        at: A turn, as `find_turn` reads it; "" = all up to now.
        agent_id: Of the new root.

    Raises UsageError: the root has no such turn, or the run is of another version.
    """
    about = read_metadata(source)
    past = fold_run(run_records(source))
    root = past.agents.get(ROOT_PATH)
    if root is None:
        raise UsageError(f"the root of run {short_id(about.run_id)} was never started")
    cut = find_fork_point(source, root.spawned.agent_id, at)
    cut = cut._replace(left=tuple(_other_agents(source, cut)))
    for folder in (target.journal, target.blobs, target.tmp):
        make_private_folder(folder)
    try:
        with lock_run(target):
            _copy_blobs(source.blobs, target.blobs)
            _write_journal(source, target, _opening_records(about, past, target, agent_id), cut)
            request = load_request(source)
            save_request(target, msgspec.structs.replace(request, fan_out=None, resumes=False))
            label = RunLabel(forked_from=about.run_id)
            write_label(target, label)
            write_metadata(target, _fork_metadata(about, target))
    except BaseException:
        shutil.rmtree(target.folder, ignore_errors=True)
        raise
    return cut


def _other_agents(source: RunPaths, cut: ForkPoint) -> Iterator[tuple[str, str]]:
    """All agents but the root and the reviewers, with their states at the cut."""
    past = fold_run(one for one in run_records(source) if one.seq <= cut.last_seq)
    for path, agent in sorted(past.agents.items()):
        if path != ROOT_PATH and not is_reviewer(path):
            yield path, AT_WORK if agent.ended is None else agent.ended.state


def describe_agents_left_out(left: Sequence[tuple[str, str]]) -> str:
    """The agents that are not copied, in words: `/root/a (completed), /root/b (at work)`."""
    named = [f"{path} ({state})" for path, state in left[:_MAX_NAMED]]
    if len(left) > _MAX_NAMED:
        named.append(f"and {len(left) - _MAX_NAMED} more")
    return ", ".join(named)


def _opening_records(
    about: RunMetadata, past: RunPast, target: RunPaths, agent_id: str
) -> tuple[AnyRecordBody, ...]:
    """The new run's own first records."""
    spawned = past.agents[ROOT_PATH].spawned
    started = RunStarted(
        run_id=target.folder.name,
        task=about.task,
        title=about.title,
        cwd=about.cwd,
        version=VERSION,
        forked_from=about.run_id,
    )
    provider = () if past.provider is None else (past.provider,)
    new_root = msgspec.structs.replace(spawned, agent_id=agent_id, epoch=1, pid=0)
    settings = past.agents[ROOT_PATH].settings  # what a person had changed
    changed = () if settings is None else (SettingsChanged(agent_id=agent_id, settings=settings),)
    return (started, *provider, new_root, *changed)


def _write_journal(
    source: RunPaths, target: RunPaths, opening: tuple[AnyRecordBody, ...], cut: ForkPoint
) -> None:
    (new_root,) = (one for one in opening if isinstance(one, AgentSpawned))
    old = fold_run(run_records(source)).agents[ROOT_PATH].spawned.agent_id
    files = JournalFiles(target.journal)
    try:
        seq = len(opening)
        head = [_line(n, body, "") for n, body in enumerate(opening, 1)]
        files.append(RUN_FILE, head)
        copied = _copied_records(source, old, cut)
        while lines := list(islice(copied, _LINES_PER_WRITE)):
            files.append(
                new_root.agent_id, [_line(seq + n, *one) for n, one in enumerate(lines, 1)]
            )
            seq += len(lines)
        memory = fold_agent(read_records(target, file=new_root.agent_id))
        ended = AgentEnded(
            agent_id=new_root.agent_id,
            state="interrupted" if cut.open_turn else "completed",
            message=memory.last_message or "",
            usage=memory.usage,
        )
        files.append(RUN_FILE, [_line(seq + 1, ended, ROOT_PATH)])
        files.sync(new_root.agent_id)
        files.sync(RUN_FILE)
    finally:
        files.close()


def _copied_records(
    source: RunPaths, file: str, cut: ForkPoint
) -> Iterator[tuple[AnyRecordBody, str]]:
    """The root's records up to the cut, without what it had not taken up; then the closing."""
    read = {one.body.item_id for one in _until(source, file, cut)
            if isinstance(one.body, ItemRecorded)}  # fmt: skip
    read |= {turn.turn_id for turn in list_turns(_until(source, file, cut))}
    for record in _until(source, file, cut):
        match record.body:
            case InputPosted(input_id=name) if name not in read:
                continue
            case MailPosted(mail=mail) if mail.mail_id not in read:
                continue
            case MailHandled(mail_id=name) if name not in read:
                continue
            case body:
                yield body, ROOT_PATH
    if cut.open_turn:
        yield from _missing_outputs(fold_agent(_until(source, file, cut)).items, cut)
        yield _note(cut, "user", _NOTE.read_text(), name="fork"), ROOT_PATH
        yield TurnAborted(turn_id=cut.open_turn), ROOT_PATH
    if cut.left:
        text = _AGENTS_NOTE.read_text().format(agents=describe_agents_left_out(cut.left))
        yield _note(cut, "developer", text, name="fork-agents"), ROOT_PATH


def _note(
    cut: ForkPoint, role: Literal["user", "developer"], text: str, *, name: str
) -> ItemRecorded:
    item = text_message(role, text.strip())
    name = f"{name}-{cut.last_seq}"
    return ItemRecorded(turn_id=cut.open_turn, item=item, item_id=name, source="note")


def _missing_outputs(
    items: Iterable[AnyItem], cut: ForkPoint
) -> Iterator[tuple[AnyRecordBody, str]]:
    """An output for each call that has none: every call of a history needs one."""
    waiting: dict[str, AnyCall] = {}
    for item in items:
        if isinstance(item, AnyCall):
            waiting[item.call_id] = item
        elif isinstance(item, AnyOutput):
            waiting.pop(item.call_id, None)
    for call in waiting.values():
        kind = CustomToolCallOutput if isinstance(call, CustomToolCall) else FunctionCallOutput
        output = kind(call_id=call.call_id, output=_CUT_OFF, success=False)
        name = f"fork-{cut.last_seq}-{call.call_id}"
        yield (
            ItemRecorded(turn_id=cut.open_turn, item=output, item_id=name, source="tool"),
            ROOT_PATH,
        )


def _until(source: RunPaths, file: str, cut: ForkPoint) -> Iterator[Record]:
    return (one for one in read_records(source, file=file) if one.seq <= cut.last_seq)


def _line(seq: int, body: AnyRecordBody, agent: str) -> bytes:
    agent = ROOT_PATH if isinstance(body, AgentSpawned | SettingsChanged) else agent
    record = Record(seq=seq, ts=round(time.time(), 3), body=body, agent=agent)
    return encode_record(record) + b"\n"


def _copy_blobs(source: Path, target: Path) -> None:
    """Link or copy the blobs: a link shares the disk space."""
    with os.scandir(source) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                continue
            try:
                os.link(entry.path, target / entry.name)
            except OSError:
                write_own_file(target / entry.name, Path(entry.path).read_bytes())


def _fork_metadata(about: RunMetadata, target: RunPaths) -> RunMetadata:
    now = time.time()
    return RunMetadata(
        schema_version=SCHEMA_VERSION,
        run_id=target.folder.name,
        title=about.title,
        task=about.task,
        cwd=about.cwd,
        pid=0,
        started=now,
        ended=now,
        version=VERSION,
        status=FORKED,
    )
