"""Any order of work, merges, kills, resumes, undos and a person's edits loses and doubles nothing.

Hypothesis plays agents in copies and a person on one project. After each step: what a person wrote
is there, a merge is in as a whole or not at all (one that was cut off is carried out by the next
look, but for files that the person changed in between), and what agents wrote is in their layers.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.project_copy import CopiedProject, whiteout
from support.staged_faults import Killed, fault_at
from swarm.mailbox.protocol.records import Record
from swarm.supervisor.parts.copies.merge_apply import apply_merge, finish_merge
from swarm.supervisor.parts.copies.merge_history import fold_merges
from swarm.supervisor.parts.copies.merge_plan import plan_merge
from swarm.supervisor.parts.undo.content_store import ContentStore
from swarm.supervisor.parts.undo.file_undo import undo_changes
from swarm.supervisor.parts.undo.snapshots import choose_snapshots, fold_files

AGENTS = ("one", "two", "three")
NAMES = ("a", "b", "folder/c", "folder/d", "new", "other/deep/e")
TEXTS = st.sampled_from(("", "1\n", "2\n", "3\n", "1\n2\n3\n4\n5\n6\n7\n8\n"))
START = {"a": "1\n2\n3\n4\n5\n6\n7\n8\n", "b": "1\n", "folder/c": "2\n", "folder/d": "3\n"}
KILLS = st.one_of(st.none(), st.integers(0, 20))


class MergeMachine(RuleBasedStateMachine):
    """`wanted`: what each file holds if nothing was cut off; None: it is not there."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="merge-machine-"))
        self.project = CopiedProject(self.place)
        self.project.write(dict(START))
        self.project.freeze()
        self.store = ContentStore(self.project.paths.file_copies)
        self.layers = {name: self.project.add_agent(name) for name in AGENTS}
        self.written: dict[str, dict[str, str | None]] = {name: {} for name in AGENTS}
        self.records: list[Record] = []
        self.wanted: dict[str, str | None] = {**dict.fromkeys(NAMES), **START}
        self.cut_off: dict[str, str | None] | None = None  # what that merge leaves where untouched
        self.mine: dict[str, str | None] = {}  # what a person wrote since
        self.before: list[dict[str, str | None]] = []  # of each merge that is in, newest last

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    # --- what happens to files -------------------------------------------------------------

    @rule(agent=st.sampled_from(AGENTS), name=st.sampled_from(NAMES), text=TEXTS)
    def agent_writes(self, agent: str, name: str, text: str) -> None:
        path = self.layers[agent] / name
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.written[agent][name] = text

    @rule(agent=st.sampled_from(AGENTS), name=st.sampled_from(sorted(START)))
    def agent_removes(self, agent: str, name: str) -> None:
        path = self.layers[agent] / name
        path.unlink(missing_ok=True)
        whiteout(path)
        self.written[agent][name] = None

    @rule(name=st.sampled_from(NAMES), text=st.one_of(st.none(), TEXTS))
    def person_writes(self, name: str, text: str | None) -> None:
        path = self.project.root / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.before.clear()  # an undo leaves alone what a person wrote since; not compared here
        if self.cut_off is None:
            self.wanted[name] = text
        else:
            self.mine[name] = text

    # --- merges ----------------------------------------------------------------------------

    @precondition(lambda self: self.cut_off is None)
    @rule(agents=st.lists(st.sampled_from(AGENTS), min_size=1, max_size=3, unique=True), kill=KILLS)
    def merge(self, agents: list[str], kill: int | None) -> None:
        changes = [self.project.change_of(name, self.store) for name in agents]
        plan = plan_merge([one for one in changes if one.edits], self.store)
        if plan.conflicts:
            return
        after = self.wanted | {
            str(Path(new.path).relative_to(self.project.root)): self._text(new)
            for old, new in plan.totals
            if "folder" not in (old.kind, new.kind)
        }
        before = dict(self.wanted)
        try:
            with fault_at(kill):
                apply_merge(plan, self.store, self._write)
        except Killed:
            if fold_merges(self.records).cut_off:
                self.cut_off, self.mine = after, {}
                return
            raise AssertionError("it died before it began") from None
        self.wanted = after
        self.before.append(before)

    @precondition(lambda self: self.cut_off is not None)
    @rule(kill=KILLS)
    def resume(self, kill: int | None) -> None:
        assert self.cut_off is not None
        (one,) = fold_merges(self.records).cut_off
        try:
            with fault_at(kill):
                finish_merge(one.began, self.store, self._write, roots=(str(self.project.root),))
        except Killed:
            return
        self.wanted = {
            name: self.mine[name] if self._is_changed(name) else text
            for name, text in self.cut_off.items()
        }
        self.cut_off = None
        self.before.clear()

    @precondition(lambda self: self.cut_off is None and self.before)
    @rule()
    def undo_the_last_merge(self) -> None:
        applied = [one for one in fold_merges(self.records).merges.values() if one.number]
        chosen = choose_snapshots(
            fold_files(self.records).snapshots, agent="", turns=(applied[-1].began.merge_id,)
        )
        if chosen:
            undo_changes(chosen, self.store, self._write, force=False)
        self.wanted = self.before.pop()
        self.before.clear()

    # --- what holds after each step ----------------------------------------------------------

    @invariant()
    def every_file_is_as_the_steps_leave_it(self) -> None:
        for name in NAMES:
            now = self._now(name)
            if self.cut_off is None:
                assert now == self.wanted[name], name
            elif self._is_changed(name):
                assert now == self.mine[name], name
            else:
                assert now in (self.wanted[name], self.cut_off[name]), name

    @invariant()
    def what_agents_wrote_stays_whatever_is_merged(self) -> None:
        for name, written in self.written.items():
            change = self.project.change_of(name, self.store)
            assert change.unreadable == ()
            found = {
                str(Path(edit.path).relative_to(self.project.root)): self._text(edit.after)
                for edit in change.edits
                if edit.after is not None and edit.after.kind in ("file", "absent")
            }
            assert found == {
                path: text for path, text in written.items() if text != START.get(path)
            }

    def _is_changed(self, name: str) -> bool:
        """True if a person wrote something else than what the merge found, or leaves, there."""
        assert self.cut_off is not None
        known = (self.wanted[name], self.cut_off[name])
        return name in self.mine and self.mine[name] not in known

    def _now(self, name: str) -> str | None:
        path = self.project.root / name
        return path.read_text() if path.is_file() else None

    def _text(self, entry) -> str | None:
        return None if entry.kind == "absent" else self.store.read_bytes(entry.sha256).decode()

    def _write(self, body, agent: str) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq=seq, ts=float(seq), agent=agent, body=body))


TestMerges = MergeMachine.TestCase
TestMerges.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
