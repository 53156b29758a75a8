"""What a merge would do or did, in lines for people and for models. Names are made printable."""

from collections.abc import Iterator, Sequence

from swarm.mailbox.protocol.control import NOTHING_TO_MERGE

from ..undo.content_store import ContentStore
from ..undo.unified_diff import count_diff, shown_name
from .layer_change import LayerChange
from .merge_plan import MergePlan
from .merge_service import MergeReport
from .merge_target import PROJECT

_MAX_SHOWN = 20
_MAX_NAMED = 8  # agents in one line


def count_change(change: LayerChange, store: ContentStore) -> str:
    """`+120 -14 in 5 files`."""
    added, removed = count_lines(change, store)
    return f"+{added} -{removed} in {count_files(change)}"


def count_lines(change: LayerChange, store: ContentStore) -> tuple[int, int]:
    """Lines that are added, and lines that are removed."""
    found = [count_diff(one, store, change.cwd) for one in change.edits if not one.is_folder]
    return sum(one.added for one in found), sum(one.removed for one in found)


def count_files(change: LayerChange) -> str:
    """`5 files`, without a look at what is in them."""
    if change.unreadable:
        return "files that cannot all be read"
    return "1 file" if change.files == 1 else f"{change.files} files"


def describe_agents(changes: Sequence[LayerChange]) -> str:
    """`/root/a 5 files, /root/a/b 1 file (into the copy of /root/a)`; "" for none."""
    words = [
        f"{one.agent} {count_files(one)}{_describe_level(one)}" for one in changes[:_MAX_NAMED]
    ]
    left = len(changes) - _MAX_NAMED
    return ", ".join((*words, *([f"{left} more"] if left > 0 else [])))


def _describe_level(change: LayerChange) -> str:
    return f" (into the copy of {change.agent.rpartition('/')[0]})" if change.above else ""


def describe_changes(changes: Sequence[LayerChange], store: ContentStore) -> Iterator[str]:
    """A line for each agent."""
    for change in changes:
        yield f"{change.agent}  {count_change(change, store)}"
        if change.left_out:
            yield f"  {change.left_out} sockets, pipes or names that are not text are left out"
        for path in change.unreadable[:_MAX_SHOWN]:
            yield f"  cannot be read: {shown_name(path, change.cwd)}"


def describe_plan(plan: MergePlan, changes: Sequence[LayerChange]) -> Iterator[str]:
    """What goes in clean, and what conflicts with what."""
    folders = {change.agent: change.cwd for change in changes}
    for step in plan.steps:
        clashes = [one for one in plan.conflicts if one.agent == step.agent]
        words = [f"{step.files} clean"]
        words += [f"{step.already} there already"] if step.already else []
        words += [f"{len(clashes)} in conflict"] if clashes else []
        yield f"{step.agent}  {', '.join(words)}"
        for one in clashes[:_MAX_SHOWN]:
            name = shown_name(one.path, folders[one.agent])
            places = f" ({one.hunks} place{'' if one.hunks == 1 else 's'})" if one.hunks else ""
            who = ", ".join(one.others) or f"{plan.target}, changed since"
            yield f"  {name}: {one.why}{places}; the other side is {who}"
        if len(clashes) > _MAX_SHOWN:
            yield f"  and {len(clashes) - _MAX_SHOWN} more"


def describe_left(left: Sequence[str]) -> str:
    """Which paths a merge did not touch, since somebody had changed them; "" for none."""
    more = f" and {len(left) - _MAX_SHOWN} more" if len(left) > _MAX_SHOWN else ""
    return f"; left alone, changed since: {', '.join(left[:_MAX_SHOWN])}{more}" if left else ""


def describe_report(report: MergeReport, run: str) -> Iterator[str]:
    """The whole report of a merge, or of a check."""
    for done in report.finished:
        yield f"finished {done.merge_id}, which had been cut off: {len(done.touched)} files"
        yield from (f"  left alone, changed since: {path}" for path in done.left[:_MAX_SHOWN])
    if not report.changes:
        yield NOTHING_TO_MERGE
        return
    yield from describe_plan(report.plan, report.changes)
    yield from describe_end(report, run)


def describe_end(report: MergeReport, run: str) -> Iterator[str]:
    """What became of a plan, and what can be done next; nothing of a check without conflicts."""
    if report.plan.conflicts:
        if report.plan.target != PROJECT.name:
            yield "nothing was merged: merge agents without conflict by name"
            return
        yield "nothing was merged: merge agents without conflict by name, or take a branch:"
        agent = report.plan.conflicts[0].agent
        yield f"  swarm branch {run} {agent} NAME"
    elif report.done is not None and not report.number:
        yield f"merged into {report.plan.target}"
    elif report.done is not None:
        yield f"merged; to take it back: swarm undo {run} --merge {report.number}"
