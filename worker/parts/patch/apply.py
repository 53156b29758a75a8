"""Writes a verified patch, hunk by hunk. Earlier hunks stay written when a later one fails."""

from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.protocol.events import FileChange
from swarm.mailbox.protocol.values.base import Value

from .file_replacement import MayWrite, read_file, remove_file, replace_file
from .patch_summary import NOTHING_MODIFIED, HunkResult, render_failure, render_success
from .verify import PatchFailed, PlannedHunk, VerifiedPatch, digest_of

__all__ = ["PatchResult", "apply_verified", "read_file", "write_hunk"]


class PatchResult(Value):
    """`changes` were made, also when `exit_code` is 1; `digests` describe the files afterwards."""

    stdout: str
    stderr: str
    exit_code: int
    changes: tuple[FileChange, ...] = ()
    digests: dict[str, str | None] = {}  # absolute path → sha256, None = removed


def apply_verified(patch: VerifiedPatch, *, may_write: MayWrite) -> PatchResult:
    """Write every step in order; stop at the first that fails.

    Args:
        patch: From `verify_patch`. A file that differs from what was read there is a conflict.
        may_write: Called with each path, symlinks resolved, just before it is written.
    """
    done: list[PlannedHunk] = []
    error = "" if patch.steps else NOTHING_MODIFIED
    for step in patch.steps:
        try:
            write_hunk(step, may_write)
        except PatchFailed as failed:
            error = str(failed)
            break
        done.append(step)
    outcomes = [step.outcome for step in done]
    left = [step.outcome for step in patch.steps[len(done) :]]
    return PatchResult(
        stdout="" if error else render_success(outcomes),
        stderr=_explain(error, outcomes, left),
        exit_code=1 if error else 0,
        changes=tuple(step.change for step in done),
        digests=_digests_after(done),
    )


def write_hunk(step: PlannedHunk, may_write: MayWrite) -> None:
    """Write one hunk. Raises PatchFailed (FileConflict) with nothing of this step changed.

    Exception: a move whose source could not be removed leaves both files.
    """
    path = Path(step.change.path)
    if step.content is None:
        failure = f"Failed to delete file {path}"
        remove_file(path, before=step.before, may_write=may_write, failure=failure)
    elif step.moved_to is None:
        replace_file(path, step.content, before=step.before, may_write=may_write)
    else:
        target = Path(step.moved_to)
        if not may_write(path.parent.resolve() / path.name):
            raise PatchFailed(f"Failed to remove original {path}: not permitted by the sandbox")
        replace_file(target, step.content, before=step.moved_to_before, may_write=may_write)
        failure = f"Failed to remove original {path}"
        remove_file(path, before=step.before, may_write=may_write, failure=failure)


def _explain(error: str, done: Sequence[HunkResult], left: Sequence[HunkResult]) -> str:
    if not left:
        return f"{error}\n" if error else ""
    return render_failure(error, done, left)


def _digests_after(done: Sequence[PlannedHunk]) -> dict[str, str | None]:
    digests: dict[str, str | None] = {}
    for step in done:
        after = None if step.content is None else digest_of(step.content)
        if step.moved_to is not None:
            digests[step.change.path] = None
        digests[step.moved_to or step.change.path] = after
    return digests
