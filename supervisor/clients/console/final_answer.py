"""Print the end of a run: only the answer on stdout, everything else on stderr."""

import contextlib
from collections.abc import Callable
from typing import TextIO

from swarm.mailbox.protocol.records import RunCompleted

from ...base.number_format import render_count, render_span, render_usd
from ...base.safe_text import clean_block, clean_line
from .line_spool import raise_unless_gone
from .terminal import is_terminal


def print_final_answer(
    completed: RunCompleted,
    *,
    stdout: TextIO,
    stderr: TextIO,
    render: Callable[[str], str] | None = None,
) -> None:
    """Print the result: cleaned for a terminal, byte for byte for a program.

    `render` makes the text for a terminal; None: it is only cleaned.

    If there is no result, or the run did not complete, stderr says why. A closed output is not an
    error; one that cannot be written is: OutputLost.
    """
    with contextlib.suppress(OSError, ValueError):
        if completed.status != "completed":
            stderr.write(f"{describe_status(completed)}\n")
            stderr.flush()
        elif not completed.result:
            stderr.write("completed without a final answer\n")
            stderr.flush()
    if not completed.result:
        return
    try:
        stdout.write(_answer_text(completed.result, stdout, render or clean_block))
        stdout.flush()
    except (OSError, ValueError) as error:
        raise_unless_gone(error)


def describe_status(completed: RunCompleted) -> str:
    """Why a run did not complete, and how it goes on."""
    why = clean_line(completed.message)
    if completed.status in ("interrupted", "terminated"):
        said = f": {why}" if why and why != completed.status else ""
        return f"{completed.status}{said}; `swarm resume` goes on with it"
    return f"{completed.status}: {why or 'no reason was given'}"


def answer_bytes(answer: str, stdout: TextIO) -> bytes:
    """An answer as `print_final_answer` prints it, for a stream that is written by its number."""
    return _answer_text(answer, stdout).encode(stdout.encoding or "utf-8", "replace")


def _answer_text(answer: str, stdout: TextIO, render: Callable[[str], str] = clean_block) -> str:
    text = render(answer) if is_terminal(stdout) else answer
    text = text if text.endswith("\n") else text + "\n"
    encoding = stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def summarize_run(completed: RunCompleted, ends: str = "") -> str:
    """The run in one line: status, duration, number of agents, cost.

    `ends`: how many agents ended in which way (`run_summary.describe_ends`).
    """
    cost = "" if completed.usd is None else f", {render_usd(completed.usd)}"
    agents = "1 agent" if completed.agents == 1 else f"{completed.agents} agents"
    return (
        f"run {completed.status} after {render_span(completed.duration_s)}: "
        f"{agents}{ends}, {render_count(completed.usage.total_tokens)} tokens{cost}"
        f"{describe_redactions(completed)}"
    )


def caution_lines(completed: RunCompleted) -> list[str]:
    """A caution about the answer of a model that is often wrong."""
    return [clean_line(completed.caution)] if completed.caution else []


def describe_redactions(completed: RunCompleted) -> str:
    """How often secrets were redacted, and of which kinds; "" if none."""
    if not completed.redacted:
        return ""
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(completed.redacted.items()))
    return f", secrets hidden: {clean_line(kinds)}"
