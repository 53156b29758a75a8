"""`apply_patch` as a command: one argument or stdin; exit 0 done, 1 not applied, 2 wrong usage.

It plans and writes each hunk before it reads the next one, as Codex's command does; so after a
failure the earlier hunks are in place. It checks no policy: any process that may start here may
write here.
"""

import sys
from pathlib import Path

from .apply import write_hunk
from .file_replacement import read_file
from .parse import PatchSyntaxError, parse_patch
from .patch_summary import NOTHING_MODIFIED, HunkResult, render_success
from .verify import PatchFailed, plan_hunk

USAGE = "Usage: apply_patch 'PATCH'\n       echo 'PATCH' | apply_patch"
ONE_ARGUMENT = "Error: apply_patch accepts exactly one argument."


def main(arguments: list[str]) -> int:
    """Apply the patch in the current folder; return the exit code."""
    if len(arguments) > 1:
        return _fail(ONE_ARGUMENT, 2)
    text = _as_text(arguments[0].encode(errors="surrogateescape") if arguments else _stdin())
    if text is None:
        where = "argument" if arguments else "input"
        return _fail(f"Error: apply_patch requires a UTF-8 PATCH {where}.", 1)
    if not text and not arguments:
        return _fail(USAGE, 2)
    try:
        outcomes = _apply_text(text, Path.cwd())
    except PatchSyntaxError as error:
        return _fail(error.for_terminal(), 1)
    except PatchFailed as error:
        return _fail(str(error), 1)
    if not outcomes:
        return _fail(NOTHING_MODIFIED, 1)
    sys.stdout.write(render_success(outcomes))
    return 0


def _apply_text(text: str, cwd: Path) -> list[HunkResult]:
    outcomes: list[HunkResult] = []
    for hunk in parse_patch(text).hunks:
        step = plan_hunk(hunk, cwd, read_file)
        write_hunk(step, lambda _: True)
        outcomes.append(step.outcome)
    return outcomes


def _stdin() -> bytes:
    return sys.stdin.buffer.read()


def _as_text(source: bytes) -> str | None:
    try:
        return source.decode()
    except UnicodeDecodeError:
        return None


def _fail(text: str, code: int) -> int:
    sys.stderr.write(text + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
