"""Says why a run should not be deleted unless its id is given. Blocks."""

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.ids import short_id
from swarm.mailbox.protocol.records import ApprovalRequested, ApprovalResolved, RunStarted
from swarm.mailbox.protocol.values.base import Value

from ....base.number_format import render_age, render_bytes
from ....journal.journal_reader import BadLine, run_records
from ....parts.copies.held_work import describe_held_work
from ....runs.paths import RunPaths
from ....runs.run_list import RunSummary


class Removal(Value):
    """A run that is to be deleted, and what speaks against it."""

    run: RunSummary
    unmerged: str = ""  # a sentence: whose work would be lost
    reasons: tuple[str, ...] = ()  # the others: clauses

    def describe(self, now: float) -> str:
        """One line for the list that a person answers."""
        run = self.run
        age = render_age(now - run.started) if run.started else "?"
        notes = [*self.reasons, *([self.unmerged] if self.unmerged else [])]
        about = f"{short_id(run.run_id)} {run.state}, {age}, {render_bytes(run.size_bytes)}"
        return f"{about}: {run.title or run.task or run.note}" + "".join(f"; {n}" for n in notes)


def plan_removal(run: RunSummary, here: RunPaths) -> Removal:
    """What speaks against deleting this run."""
    reasons: list[str] = []
    if run.name:
        reasons.append(f"it has the name {run.name!r}")
    if has_open_question(here):
        reasons.append("it has a question that nobody has answered")
    return Removal(run=run, unmerged=describe_held_work(here), reasons=tuple(reasons))


def _skip(line: BadLine) -> None:
    """A line that cannot be read asks nothing."""


def has_open_question(here: RunPaths) -> bool:
    """True if the last part of the run asked a person something and ended, or went on, without it.

    A journal that cannot be read has none: what is in it cannot be read either.
    """
    if not here.journal.is_dir():
        return False
    asked: set[str] = set()
    try:
        for record in run_records(here, on_bad_line=_skip):
            match record.body:
                case RunStarted():  # a resume: what is still wanted is asked again
                    asked.clear()
                case ApprovalRequested(approval_id=approval_id):
                    asked.add(approval_id)
                case ApprovalResolved(approval_id=approval_id, by=by, outcome=outcome):
                    if by != "nobody" or outcome not in {"aborted", "timed_out"}:
                        asked.discard(approval_id)
                case _:
                    pass
    except (SwarmError, OSError):
        return False
    return bool(asked)
