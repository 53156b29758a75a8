"""File excerpts in a prompt: fenced, labelled, bounded, with a note of what was left out.

Whatever a file contains, it cannot close its own fence, and a prompt has a known maximum size.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from swarm.mailbox.base.path_rules import is_within, may_read
from swarm.mailbox.base.safe_open import IsAllowed, open_if_allowed, read_start, resolve_links
from swarm.mailbox.base.written_text import decode_leniently, encoding_of
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import ProfilePolicy, SandboxPolicy

_READ_BYTES = 4 << 20  # the most that is read of one file
_TICKS = re.compile(r"`{3,}")


class Excerpt(Value):
    """Text of one file under the name that the model shall read."""

    label: str
    text: str


def readable_below(folder: Path, sandbox: SandboxPolicy) -> IsAllowed:
    """Which canonical paths a prompt may show: below the folder, and not denied by a profile."""
    root = resolve_links(folder)

    def may(path: str) -> bool:
        is_open = not isinstance(sandbox, ProfilePolicy) or may_read(sandbox, path)
        return is_within(path, root) and is_open

    return may


def read_excerpt(path: Path, label: str, may: IsAllowed) -> Excerpt | None:
    """The file as text; None if it is binary, empty or cannot be read. Bad UTF-8 is replaced.

    `may` gets the path behind links; a link made later is not followed.
    """
    try:
        data = read_start(open_if_allowed(path, may), most_bytes=_READ_BYTES)
    except OSError:
        return None
    text = decode_leniently(data, is_whole=len(data) < _READ_BYTES).text
    is_wide = not encoding_of(data).startswith("utf-8")
    if (b"\0" in data[:8192] and not is_wide) or not text.strip():
        return None
    return Excerpt(label=label, text=text)


def render_excerpts(excerpts: Sequence[Excerpt], *, limit_bytes: int) -> str:
    """Fenced blocks, one per file, whose contents together are at most `limit_bytes` of UTF-8.

    Short files are whole; the rest share what is left evenly and are cut in the middle.
    """
    shares = split_evenly([len(one.text.encode()) for one in excerpts], limit_bytes)
    blocks = [
        fenced(one.label, cut_middle(one.text, limit_bytes=share))
        for one, share in zip(excerpts, shares, strict=True)
        if share > 0
    ]
    if left := len(excerpts) - len(blocks):
        blocks.append(f"[{left} more files left out]")
    return "\n\n".join(blocks)


def fenced(label: str, text: str) -> str:
    """A labelled code block with a fence longer than any run of backticks inside."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    ending = "" if text.endswith("\n") else "\n"
    return f"File {label}:\n{fence}\n{text}{ending}{fence}"


def cut_middle(text: str, *, limit_bytes: int) -> str:
    """Keep whole lines of the start and the end; a line between says how many were left out.

    The result has at most `limit_bytes` of UTF-8 (a limit under 64 keeps only the start).
    """
    data = text.encode()
    if len(data) <= limit_bytes:
        return text
    if limit_bytes < 64:
        return data[: max(limit_bytes, 0)].decode("utf-8", "ignore")
    half = (limit_bytes - 40) // 2
    lines = data.splitlines(keepends=True)
    head = _whole_lines(lines, half)
    tail = _whole_lines(lines[::-1], half)
    if head + tail == 0:  # one overlong line
        kept = data[: half * 2].decode("utf-8", "ignore")
        return f"{kept}\n[… {len(data) - half * 2} bytes left out …]\n"
    gone = len(lines) - head - tail
    middle = f"[… {gone} lines left out …]\n".encode()
    kept_tail = lines[len(lines) - tail :] if tail else []
    return b"".join([*lines[:head], middle, *kept_tail]).decode()


def _whole_lines(lines: Sequence[bytes], limit_bytes: int) -> int:
    """How many of the first lines fit."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line)
        if used > limit_bytes:
            return count
    return len(lines)


def split_evenly(sizes: Sequence[int], total: int) -> list[int]:
    """Split `total` among these sizes: none gets more than its size, the rest is shared evenly."""
    shares = [0] * len(sizes)
    left = max(total, 0)
    waiting = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for position, index in enumerate(waiting):
        shares[index] = min(sizes[index], left // (len(waiting) - position))
        left -= shares[index]
    return shares
