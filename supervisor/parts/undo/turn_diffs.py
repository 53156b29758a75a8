"""Collects what each turn changed in files and renders it as one diff after the turn's end.

The diff shows what the store holds and the journal records. It is bounded, says what it leaves out,
and is redacted before any of it is cut or written.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import dropwhile
from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.protocol.changes import TurnDiff
from swarm.mailbox.protocol.records import FilesChanged
from swarm.roles.config.atomic_replace import replace_file

from .content_store import ContentStore
from .net_changes import NetChange, RecordedChange, compose_changes
from .unified_diff import diff_lines

MAX_BYTES = 1024 * 1024  # of one turn's diff
MAX_INLINE_BYTES = 32 * 1024  # in a record; a longer diff goes into a file
_MAX_COMPARED = 4_000  # lines of one side; `swarm diff` compares more
_MAX_NAMED = 20
_MAX_TURNS = 1_000  # open at a time; beyond, the oldest gets no diff
Clean = Callable[[str], str]


class EndedTurn(NamedTuple):
    """A turn that is over. Paths are shown relative to `cwd`."""

    path: str
    agent_id: str
    turn_id: str
    cwd: str


class TurnDiffs:
    """One per run. Its owner calls `make_diff` in a thread, all else on the run's own thread."""

    def __init__(self, store: ContentStore, folder: Path, clean: Clean) -> None:
        self._store, self._folder, self._clean = store, folder, clean
        self._open: dict[tuple[str, str], list[FilesChanged]] = {}

    def begin(self, path: str, turn_id: str) -> None:
        """A call of this turn may change files."""
        self._open.setdefault((path, turn_id), [])
        if len(self._open) > _MAX_TURNS:
            del self._open[next(iter(self._open))]

    def add(self, path: str, change: FilesChanged) -> None:
        """Add a change that a scan found; a change found after the turn was taken is not added."""
        if (found := self._open.get((path, change.turn_id))) is not None:
            found.append(change)

    def is_open(self, path: str, turn_id: str) -> bool:
        return (path, turn_id) in self._open

    def take(self, ended: EndedTurn) -> tuple[FilesChanged, ...]:
        """Return all changes of this turn and close it."""
        return tuple(self._open.pop((ended.path, ended.turn_id), ()))

    def make_diff(
        self, ended: EndedTurn, changes: Sequence[FilesChanged], uncovered: Sequence[str]
    ) -> TurnDiff | None:
        """The turn's record; None if there is nothing to report. Blocks.

        Raises OSError or ValueError if the store cannot be read, or the disk is full.
        """
        steps = [
            RecordedChange(
                agent=ended.path,
                before=self._store.read_manifest(one.before),
                after=self._store.read_manifest(one.after),
                shared_with=one.shared_with,
            )
            for one in changes
        ]
        edits = compose_changes(steps)
        if not edits and not uncovered:
            return None
        shown = render_diff(edits, self._store, ended.cwd, self._clean)
        data = shown.text.encode()
        is_long = len(data) > MAX_INLINE_BYTES
        return TurnDiff(
            turn_id=ended.turn_id,
            diff=head_of(shown.text, MAX_INLINE_BYTES) if is_long else shown.text,
            files=sum(not edit.is_folder for edit in edits),
            added=shown.added,
            removed=shown.removed,
            file=self._write_file(data) if is_long else "",
            hidden=shown.hidden,
            shared_with=tuple(sorted({who for one in changes for who in one.shared_with})),
            no_copy=sum(not edit.has_copy for edit in edits),
            uncovered=tuple(uncovered[:_MAX_NAMED]),
            uncovered_count=len(uncovered),
        )

    def _write_file(self, data: bytes) -> str:
        """Write the diff under its content's address; returns the name within the run's folder."""
        path = self._folder / f"{sha256(data).hexdigest()}.diff"
        if not path.exists():
            self._folder.mkdir(mode=0o700, exist_ok=True)
            replace_file(path, data)
        return f"{self._folder.name}/{path.name}"


class RenderedDiff(NamedTuple):
    text: str
    added: int
    removed: int
    hidden: int  # number of files


def render_diff(
    edits: Iterable[NetChange],
    store: ContentStore,
    cwd: str,
    clean: Callable[[str], str],
    *,
    most_bytes: int = MAX_BYTES,
) -> RenderedDiff:
    """One diff of whole files, sorted by path, up to `most_bytes`; each file is redacted
    separately.

    A last line counts the files that do not fit.
    """
    parts: list[str] = []
    size = added = removed = hidden = 0
    for edit in edits:
        if hidden:  # no file after the first that does not fit is compared: it takes long
            hidden += not edit.is_folder
            continue
        lines = list(_within(diff_lines(edit, store, cwd, most_compared=_MAX_COMPARED), most_bytes))
        part = clean("\n".join(lines) + "\n")
        size += len(part.encode())
        if size > most_bytes:
            hidden += 1
            continue
        parts.append(part)
        hunks = dropwhile(lambda line: not line.startswith("@@"), lines)
        signs = Counter(line[:1] for line in hunks)
        added, removed = added + signs["+"], removed + signs["-"]
    if hidden:
        parts.append(
            f"# {hidden} more changed file{'' if hidden == 1 else 's'}: the diff is cut here, at "
            f"{most_bytes:,} bytes; `swarm diff` shows all\n"
        )
    return RenderedDiff("".join(parts), added, removed, hidden)


def head_of(text: str, most_bytes: int) -> str:
    """The whole lines that fit, and a line that says where the text was cut."""
    data = text.encode()
    note = f"# cut here, at {most_bytes:,} of {len(data):,} bytes\n"
    head = data[: most_bytes - len(note)]
    return head[: head.rfind(b"\n") + 1].decode() + note


def _within(lines: Iterator[str], most_bytes: int) -> Iterator[str]:
    """Yield lines until their total exceeds the limit."""
    size = 0
    for line in lines:
        yield line
        size += len(line)
        if size > most_bytes:
            return
