"""`scripts/chaos --files`: merges and undos on full disks and in closed folders, and side by side.

A play has a project with files of a person, a change of an agent, and one fault that begins when
the journal says that the work begins: so many KiB are left on the disk of the project or of the
state, or some folders may not be written any more. Whatever is said afterwards must be true, what
failed must be possible once the fault is over, and nothing may be left beside the files. Then a
small merge and a small undo meet each kind of `write_faults.py` at each of their writes, one after
the other. At the end, several processes merge into one project at once, and no change may be lost.
"""

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from subprocess import run
from typing import Literal, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # scripts, not a package

import msgspec
from chaos_testbed import enter_mount_namespace
from write_faults import KINDS, Kind, WriteFault

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.merge_records import MergeBegan
from swarm.mailbox.protocol.records import AnyRecordBody, Record, SnapshotTaken
from swarm.supervisor.parts.copies.merge_apply import apply_merge, finish_merge
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.copies.merge_plan import MergePlan, MergeStep
from swarm.supervisor.parts.undo.content_store import ContentStore, FileEntry, read_entry
from swarm.supervisor.parts.undo.file_undo import clear_cut_off_undos, undo_changes
from swarm.supervisor.parts.undo.project_lock import hold_project
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_files
from swarm.supervisor.runs.paths import RunPaths

_DISK_BYTES = 48 << 20  # a merge leaves 16 MiB free
_BLOCK_BYTES = 4096
_NOBODY = 65534
_WRITERS, _WRITES = 6, 25
Work = Literal["merge", "undo"]
WORKS: tuple[Work, ...] = ("merge", "undo")
Files = dict[str, bytes]


class FilePlay:
    """A project, a change of it, and a journal in memory."""

    def __init__(
        self, project: Path, state: Path, lots: random.Random, *, per_folder: int = 6
    ) -> None:
        self.root = project
        self.paths = RunPaths(folder=state / "runs/r", sockets=state / "s")
        self.paths.folder.mkdir(parents=True)
        self.paths.project_locks.parent.mkdir()
        self.store = ContentStore(self.paths.file_copies)
        self.records: list[Record] = []
        self.told: Path | None = None  # a file that outlives this process gets the records too
        self.begins: type[MergeBegan | SnapshotTaken] = MergeBegan
        self.fault: Generator[None, None, None] | None = None
        names = [f"{folder}/{number}" for folder in ("a", "a/b", "c", "d/e/f") for number in
                 range(per_folder)]  # fmt: skip
        self.before: Files = {name: _some(lots) for name in names}
        self.after: Files = {
            name: data if lots.random() < 0.4 else _some(lots)
            for name, data in self.before.items()
            if lots.random() < 0.7
        }
        self.after |= {f"{folder}/new": _some(lots) for folder in ("a", "new/deep", "c/1-folder")}
        _fill(project, self.before)

    def plan(self) -> MergePlan:
        names = sorted({*self._paths(self.before), *self._paths(self.after)})
        pairs = [
            (self._now(name), self._entry(name))
            for name in names
            if not self._now(name).is_same_as(self._entry(name))
        ]
        step = MergeStep(
            agent="/root/a", agent_id="a", fingerprint="f",
            before=tuple(old for old, _ in pairs), after=tuple(new for _, new in pairs),
        )  # fmt: skip
        return MergePlan(steps=(step,), roots=(str(self.root),))

    def merge(self) -> None:
        apply_merge(self.plan(), self.store, self.write)

    def undo(self) -> bool:
        """False: something could not be put back."""
        chosen = choose_snapshots(fold_files(self.records).snapshots, agent="")
        return not undo_changes(chosen, self.store, self.write, force=False).failed

    def perform(self, work: Work) -> bool:
        """False: something of it could not be done. Raises SwarmError, OSError, ValueError."""
        if work == "undo":
            return self.undo()
        self.merge()
        return True

    def write(self, body: AnyRecordBody, agent: str) -> None:
        """The journal; the fault begins with the first record of the work."""
        seq = len(self.records) + 1
        record = Record(seq=seq, ts=float(seq), agent=agent, body=body)
        self.records.append(record)
        if self.told is not None:
            with self.told.open("ab", buffering=0) as file:
                file.write(msgspec.json.encode(record) + b"\n")
        if isinstance(body, self.begins) and self.fault is not None:
            next(self.fault)

    def tree(self) -> Files:
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file()
        }

    def _now(self, name: str) -> FileEntry:
        found = self.store.copy_entry(
            str(self.root / name), path=str(self.root / name), most_bytes=1 << 30
        )
        assert found is not None
        return FileEntry(path=found.path, kind=found.kind, mode=found.mode & 0o777,
                         size=found.size, sha256=found.sha256)  # fmt: skip

    def _entry(self, name: str) -> FileEntry:
        path = str(self.root / name)
        if name in self.after:
            data = self.after[name]
            address = self.store.add_bytes(data)
            return FileEntry(path=path, kind="file", mode=0o644, size=len(data), sha256=address)
        is_folder = name in self._paths(self.after)
        return FileEntry(path=path, kind="folder" if is_folder else "absent", mode=0o755)

    @staticmethod
    def _paths(files: Files) -> set[str]:
        found = set(files)
        for name in files:
            found |= {str(one) for one in Path(name).parents} - {"."}
        return found


class FilePlayResult(NamedTuple):
    """What came of it at first: done, nothing, part, cut off; and what was not as promised."""

    outcome: str
    broken: tuple[str, ...] = ()


def play_fault(play: FilePlay, work: Work, fault: Generator[None, None, None]) -> FilePlayResult:
    """Work under the fault, and once more when it is over."""
    if work == "undo":
        play.merge()
        play.begins = SnapshotTaken
    play.fault = fault
    wanted, was = (play.after, play.before) if work == "merge" else (play.before, play.after)
    said_done = False
    with suppress(SwarmError, OSError, ValueError):
        said_done = play.perform(work)
    play.fault, first = None, play.tree()
    fault.close()
    broken: list[str] = []
    cut_off = fold_merges(play.records).cut_off
    first.pop("filler", None)
    outcome = (
        "cut off" if cut_off else "done" if said_done else "nothing" if first == was else "part"
    )
    if said_done and first != wanted:
        broken.append("it was said to be done, and is not")
    if work == "merge" and not said_done and not cut_off and first != was:
        broken.append("nothing was said to be done, and something is")
    for one in cut_off:
        finish_merge(one.began, play.store, play.write, roots=(str(play.root),))
    clear_cut_off_undos(fold_files(play.records), play.paths)
    if not said_done and not cut_off:
        play.perform(work)
    return FilePlayResult(outcome, (*broken, *_not_as_wanted(play, wanted)))


def play_kill(play: FilePlay, work: Work, fault: WriteFault) -> FilePlayResult:
    """The work in a process that is killed; what the next look finds, and makes of it."""
    if work == "undo":
        play.merge()
        play.begins = SnapshotTaken
    wanted = play.after if work == "merge" else play.before
    play.told = play.root.parent / "told"
    play.fault = fault.begin()
    child = get_context("fork").Process(target=play.perform, args=(work,))
    child.start()
    child.join()
    fault.was_met = child.exitcode == -signal.SIGKILL
    play.fault = None
    known = play.told.read_bytes().splitlines() if play.told.exists() else []
    play.records += [msgspec.json.decode(line, type=Record) for line in known]
    broken: list[str] = []
    if fault.was_met and work == "merge" and not fold_merges(play.records).cut_off:
        broken.append("a merge was killed, and nobody would look at it again")
    for one in fold_merges(play.records).cut_off:
        finish_merge(one.began, play.store, play.write, roots=(str(play.root),))
    if work == "undo":
        clear_cut_off_undos(fold_files(play.records), play.paths)
        if play.tree() != wanted:
            play.perform(work)
    return FilePlayResult("killed", (*broken, *_not_as_wanted(play, wanted)))


def _not_as_wanted(play: FilePlay, wanted: Files) -> list[str]:
    broken: list[str] = []
    if left := [name for name in play.tree() if ".swarm-" in name]:
        broken.append(f"left beside the files: {left}")
    if {name: one for name, one in play.tree().items() if name not in left} != wanted:
        broken.append("once the fault was over it could not be done")
    return broken


def play_each_write(
    kind: Kind, work: Work, seed: int, *, every: int = 1
) -> Iterator[tuple[int, FilePlayResult]]:
    """The same work with the fault at its first write, at its second, … until it has no more."""
    for number in itertools.count(0, every):
        fault = WriteFault(kind, number)
        with tempfile.TemporaryDirectory(prefix="chaos-files-") as name:
            folders = [Path(name).resolve() / one for one in ("project", "state")]
            for one in folders:
                one.mkdir()
            play = FilePlay(folders[0], folders[1], random.Random(seed), per_folder=2)
            if kind.startswith("kill"):
                done = play_kill(play, work, fault)
            else:
                done = play_fault(play, work, fault.begin())
        if not fault.was_met:
            return
        yield number, done


def full_disk(disk: Path, left_blocks: int) -> Generator[None, None, None]:
    """From the first `next` on, so many blocks are free; the end frees the disk."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(bytes(_BLOCK_BYTES))
            file.truncate(max(0, file.tell() - left_blocks * _BLOCK_BYTES))
        yield
    finally:
        filler.unlink(missing_ok=True)


def closed_folders(root: Path, lots: random.Random) -> Generator[None, None, None]:
    """From the first `next` on, some folders may not be written; the end opens them."""
    folders = [path for path in root.rglob("*") if path.is_dir()]
    closed = [one for one in folders if lots.random() < 0.4] or folders[:1]
    try:
        for one in closed:
            one.chmod(0o555)
        yield
    finally:
        for one in closed:
            with suppress(FileNotFoundError):
                one.chmod(0o755)


def _some(lots: random.Random) -> bytes:
    return lots.randbytes(lots.choice((0, 1, 100, 5_000, 40_000)))


def _fill(root: Path, files: Files) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o644)


@contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    """A small disk of its own; in our mount namespace alone."""
    folder.mkdir()
    run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "files", folder], check=True)
    try:
        yield folder
    finally:
        run(["umount", folder], check=True)


def run_play(seed: str) -> tuple[str, FilePlayResult]:
    """One play of its own, by its seed; returns what was played."""
    lots = random.Random(seed)
    work: Work = lots.choice(("merge", "undo"))
    kind = lots.choice(("project", "project", "state", "closed"))
    with (
        tempfile.TemporaryDirectory(prefix="chaos-files-") as name,
        _disk(Path(name) / "disk") as disk,
    ):
        full, free = disk, Path(name) / "free"
        free.mkdir()
        project, state = (full, free) if kind == "project" else (free, full)
        project, state = project.resolve() / "project", state.resolve() / "state"
        for one in (project, state):
            one.mkdir()
        if kind != "closed":
            play = FilePlay(project, state, lots)
            done = play_fault(play, work, full_disk(disk, lots.randrange(80)))
        else:
            done = _as_nobody(Path(name), (project, state), work, lots)
    return f"{work}, {kind}", done


def _as_nobody(
    place: Path, folders: tuple[Path, Path], work: Work, lots: random.Random
) -> FilePlayResult:
    """Root may write everywhere: another user plays it, in a process of its own."""
    project, state = folders
    if os.geteuid() == 0:
        for one in (place, place / "disk", place / "free", project, state):
            one.chmod(0o777)
    context = get_context("fork")
    results = context.SimpleQueue()

    def perform() -> None:
        with suppress(PermissionError):
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        play = FilePlay(project, state, lots)
        results.put(tuple(play_fault(play, work, closed_folders(project, lots))))

    child = context.Process(target=perform)
    child.start()
    child.join()
    if results.empty():
        return FilePlayResult("nothing", ("it raised what nobody expects",))
    return FilePlayResult(*results.get())


def run_writers() -> list[str]:
    """Several processes add lines to one file, each by a comparison and a write of its own."""
    with tempfile.TemporaryDirectory(prefix="chaos-files-") as name:
        place = Path(name).resolve()
        (place / "file").write_bytes(b"")
        context = get_context("fork")
        children = [context.Process(target=_write_lines, args=(place, n)) for n in range(_WRITERS)]
        for one in children:
            one.start()
        for one in children:
            one.join()
        lines = (place / "file").read_bytes().split(b"\n")[:-1]
        wanted = {f"{n} {m}".encode() for n in range(_WRITERS) for m in range(_WRITES)}
        left = {one.name for one in place.iterdir()} - {"file", "locks", "store"}
    broken = [f"{len(wanted - {*lines})} of {len(wanted)} changes were lost"]
    broken = [] if wanted == {*lines} and len(lines) == len(wanted) else broken
    return broken + ([f"left beside the files: {sorted(left)}"] if left else [])


def _write_lines(place: Path, writer: int) -> None:
    from swarm.supervisor.parts.undo.staged_writes import StagedWrites

    store, path = ContentStore(place / "store"), str(place / "file")
    for number in range(_WRITES):
        with hold_project(place / "locks/projects", [path]):
            before = read_entry(path)
            data = Path(path).read_bytes() + f"{writer} {number}\n".encode()
            after = FileEntry(path=path, kind="file", mode=0o644, size=len(data),
                              sha256=store.add_bytes(data))  # fmt: skip
            writes = StagedWrites(f"{writer}-{number}", [(before, after)], store)
            assert not [*writes.stage(), *writes.carry_out(whole=True), *writes.clear()]


def main() -> int:
    """Play after play, then the writers; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="chaos --files", description="Files under fire.")
    parser.add_argument("--seed", type=int, default=1, help="decides all plays (1)")
    parser.add_argument("--plays", type=int, default=200, help="how many (200)")
    parser.add_argument("--every", type=int, default=1, help="only every N-th write (1)")
    options = parser.parse_args()
    if not enter_mount_namespace():
        print("chaos: no mount namespace here: no disk can be full", file=sys.stderr)
        return 2
    broken, outcomes = 0, Counter[str]()
    for number in range(options.plays):
        what, done = run_play(f"{options.seed}/{number}")
        outcomes[done.outcome] += 1
        for words in done.broken:
            print(f"play {options.seed}/{number} ({what}): VIOLATION {words}", flush=True)
        broken += bool(done.broken)
    for kind, work in itertools.product(KINDS, WORKS):
        writes = 0
        for number, done in play_each_write(kind, work, options.seed, every=options.every):
            outcomes[done.outcome] += 1
            writes += 1
            for words in done.broken:
                print(f"{work}, {kind} at write {number}: VIOLATION {words}", flush=True)
            broken += bool(done.broken)
        print(f"{work}, {kind}: at {writes} writes", flush=True)
    for words in run_writers():
        broken += 1
        print(f"writers: VIOLATION {words}")
    firsts = ", ".join(f"{count} {one}" for one, count in sorted(outcomes.items()))
    words = "no violation" if not broken else f"{broken} broke a promise"
    print(f"seed {options.seed}: {options.plays} plays ({firsts}), {_WRITERS} writers: {words}")
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
