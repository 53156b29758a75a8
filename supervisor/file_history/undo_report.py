"""Renders what an undo did as lines for a person. No I/O."""

from collections.abc import Iterator, Sequence

from swarm.mailbox.ids import short_id

from .file_undo import UndoReport

_MAX_SHOWN = 20


def describe_report(report: UndoReport, run_id: str) -> str:
    """The whole report; paths are shown as they are."""
    lines = [f"put back {report.restored} file{'' if report.restored == 1 else 's'}"]
    lines += _named("left alone, changed since", report.left, "--force takes them too")
    lines += _named(
        "left alone, another agent worked at the same time", report.shared, "--force takes them too"
    )
    lines += _named(
        "no copy was kept of what was there before", report.lost, "they stay as they are"
    )
    lines += [f"could not put back {line}" for line in report.failed[:_MAX_SHOWN]]
    if report.kept_as:
        lines.append(
            f"to take this back: swarm undo {short_id(run_id)} --snapshot {report.kept_as}"
        )
    return "\n".join(lines)


def _named(what: str, paths: Sequence[str], then: str) -> Iterator[str]:
    if paths:
        yield f"{what} ({len(paths)}; {then}):"
        yield from (f"  {path}" for path in paths[:_MAX_SHOWN])
        if len(paths) > _MAX_SHOWN:
            yield f"  and {len(paths) - _MAX_SHOWN} more"
