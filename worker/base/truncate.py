"""Truncation of long text: head and tail stay, a marker says how much of the middle was removed.

An output is cut once, when it is recorded, and never when a prompt is built, so the bytes that a
model has seen stay the same. Sizes are UTF-8 bytes; four bytes count as one token.
"""

from typing import Literal

from swarm.mailbox.protocol.items import ContentPart, InputImage, InputText
from swarm.mailbox.protocol.values.base import Value

from .token_meter import BYTES_PER_TOKEN, estimate_tokens

Unit = Literal["tokens", "chars"]
RECORDING_MARGIN = 1.2  # formatted outputs carry a few header lines beyond their own budget


def truncate_middle(text: str, *, budget_bytes: int, unit: Unit = "tokens") -> str:
    """Keep the beginning and the end of `text`, half of the budget each, cut between characters.

    Args:
        text: Any text.
        budget_bytes: UTF-8 bytes kept in all, ≥ 0; the marker is not counted. An odd budget
            gives the tail the extra byte.
        unit: What the marker counts: estimated tokens over the budget, or characters removed.

    Source: Codex `truncate.rs`.
    """
    if len(text) <= budget_bytes // 4:
        return text  # no character is longer than four bytes
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= budget_bytes:
        return text
    head_end = _boundary_before(raw, budget_bytes // 2)
    tail_start = _boundary_after(raw, len(raw) - (budget_bytes - budget_bytes // 2))
    if unit == "tokens":
        removed = estimate_tokens(len(raw) - budget_bytes)
    else:
        removed = len(raw[head_end:tail_start].decode("utf-8", "surrogatepass"))
    head = raw[:head_end].decode("utf-8", "surrogatepass")
    tail = raw[tail_start:].decode("utf-8", "surrogatepass")
    return f"{head}…{removed} {unit} truncated…{tail}"


class CommandText(Value):
    """What a model is to read of a command, not yet cut. Only `output` is ever cut."""

    head: str
    output: str
    tail: str
    budget_tokens: int  # of `output`; the model's own limit may be lower

    @property
    def whole(self) -> str:
        return self.head + self.output + self.tail

    def cut(self, *, limit_tokens: int) -> str:
        """Return the text; a cut output begins with its number of lines before the cut."""
        budget_bytes = min(self.budget_tokens, limit_tokens) * BYTES_PER_TOKEN
        output = truncate_middle(self.output, budget_bytes=budget_bytes)
        if output != self.output:
            output = f"Total output lines: {len(self.output.splitlines())}\n\n{output}"
        return self.head + output + self.tail


OutputContent = str | tuple[ContentPart, ...] | CommandText


def truncate_output(output: OutputContent, *, limit_tokens: int) -> str | tuple[ContentPart, ...]:
    """Cut an output when it joins the history: to the model's limit, and a fifth more for parts
    and plain texts.

    Parts share one budget in their order: the first text that does not fit is cut to the rest,
    later texts are omitted and counted in a closing part, images always stay.
    """
    if isinstance(output, CommandText):
        return output.cut(limit_tokens=limit_tokens)
    budget = int(limit_tokens * BYTES_PER_TOKEN * RECORDING_MARGIN)
    if isinstance(output, str):
        return truncate_middle(output, budget_bytes=budget)
    kept: list[ContentPart] = []
    omitted = 0
    for part in output:
        if isinstance(part, InputImage):
            kept.append(part)
            continue
        if budget <= 0:
            omitted += 1
            continue
        size = len(part.text.encode("utf-8", "surrogatepass"))
        fits = size <= budget
        kept.append(
            part if fits else InputText(text=truncate_middle(part.text, budget_bytes=budget))
        )
        budget = budget - size if fits else 0
    if omitted:
        kept.append(InputText(text=f"[omitted {omitted} text items ...]"))
    return tuple(kept)


def _boundary_before(raw: bytes, at: int) -> int:
    while 0 < at < len(raw) and raw[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _boundary_after(raw: bytes, at: int) -> int:
    while at < len(raw) and raw[at] & 0xC0 == 0x80:
        at += 1
    return at
