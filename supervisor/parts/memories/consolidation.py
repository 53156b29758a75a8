"""Brings a person's edits in, and writes a project's files anew. Blocks.

The files are written one by one, each in one step; a process that is killed in between is followed
by one that writes them all.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.roles.config.atomic_replace import replace_file

from .memory_facts import Output
from .memory_files import EDITED, SUMMARIES, find_edits, render_files
from .memory_jobs import Claim
from .memory_paths import MemoryPaths, label_of
from .memory_store import MemoryStore

_MOST_BYTES = 4 << 20


class Consolidation:
    """Of one person's memories. The caller holds the lock of `MemoryPaths.writing`."""

    def __init__(self, store: MemoryStore, paths: MemoryPaths, *, summary_tokens: int) -> None:
        self._store, self._paths, self._summary_tokens = store, paths, summary_tokens

    def absorb_edits(self, project: str, *, now: float) -> int:
        """Take over what a person changed in the files; returns how many changes there were."""
        changes = 0
        for name, before in self._store.written(project).items():
            if name not in EDITED or (text := self._read(project, name)) in (None, before):
                continue
            assert text is not None
            edits = find_edits(before, text)
            for fact_id in edits.removed:
                self._store.facts.forget(fact_id, now=now)
            for fact_id, words in edits.reworded:
                self._store.facts.reword(fact_id, words, now=now, by_person=True)
            for line in edits.added:
                self._store.facts.add_note(project, line, now=now)
            changes += len(edits.removed) + len(edits.reworded) + len(edits.added)
        return changes

    def write(
        self,
        claim: Claim,
        *,
        most: int,
        used_since: float,
        now: float,
        reword: Callable[[str], None] = lambda _project: None,
    ) -> bool:
        """Consolidate one project; False: the claim is lost.

        `reword`: may merge and reword facts, once edits are in.
        """
        self.absorb_edits(claim.key, now=now)
        reword(claim.key)
        outputs = self._store.select(claim.key, most=most, used_since=used_since)
        written = self.write_files(claim.key, outputs)
        return self._store.finish_consolidation(claim, outputs, written, now=now)

    def write_files(self, project: str, outputs: Sequence[Output]) -> dict[str, str]:
        """Write all files of a project, and remove all others; returns the edited ones.

        `outputs`: as `MemoryStore.select` chooses them. Raises OSError.
        """
        store = self._store
        home = store.home_of(project)
        facts = store.facts.all(project)
        outputs = [one for one in outputs if one.is_told_in(home)]
        files = render_files(
            facts,
            outputs,
            label=label_of(project, store.paths_of(project)),
            summary_tokens=self._summary_tokens,
            home=home,
        )
        folder = self._paths.project(project)
        make_own_folders(folder / SUMMARIES)
        for name, text in files.items():
            replace_file(folder / name, text.encode())
        for old in (folder / SUMMARIES).iterdir():
            if f"{SUMMARIES}/{old.name}" not in files and old.suffix == ".md":
                old.unlink()
        return {name: files[name] for name in EDITED}

    def _read(self, project: str, name: str) -> str | None:
        """None: it is gone, or cannot be read; it is written again, and nothing is forgotten."""
        with suppress(OSError, NotText):
            path = Path(self._paths.project(project), name)
            return decode_written(read_user_file(path, most_bytes=_MOST_BYTES))
        return None
