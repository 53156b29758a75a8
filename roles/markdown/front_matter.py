"""Splits a Markdown file into its YAML front matter and its text. Pure.

The files were written for other programs, which forgive more than YAML does: a description with a
colon in it, a hint in brackets that is no list. So what is no YAML is read line by line.
"""

import re
from collections.abc import Sequence
from typing import cast

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import decode_written
from swarm.mailbox.protocol.values.base import Value

from ..base.yaml_table import yaml_table

_FRONT_BYTES = 32 << 10
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+|\Z)(.*)")


class MarkdownFile(Value):
    """One file as read. `lines`: the line of each key."""

    fields: dict[str, object] = {}
    lines: dict[str, int] = {}
    body: str = ""

    def text(self, key: str) -> str:
        """The value of a key in one line; "" if it is not set or no text."""
        value = self.fields.get(key)
        if isinstance(value, list):  # `[file] [message]` in a hint
            value = " ".join(f"[{one}]" for one in cast("list[object]", value))
        return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""

    def words(self, key: str) -> tuple[str, ...]:
        """A list, or a text with commas; commas inside of parentheses part nothing."""
        value = self.fields.get(key)
        if isinstance(value, str):
            return tuple(word.strip() for word in _split_commas(value) if word.strip())
        if isinstance(value, list):
            several = cast("list[object]", value)
            return tuple(str(one).strip() for one in several if isinstance(one, str | int | float))
        return ()

    def place(self, path: str, key: str) -> str:
        """`FILE, line N, KEY`."""
        return f"{path}, line {self.lines.get(key, 1)}, {key}"


def parse_markdown(data: bytes) -> MarkdownFile:
    """The front matter and the text. Without a front matter all of it is text.

    Raises UsageError, with the line: no UTF-8, a NUL byte, or a front matter over 32 KiB.
    """
    text = decode_written(data)
    split = split_front(text)
    if split.front is None:
        return MarkdownFile(body=split.body)
    front, first = split.front, split.first_line
    places = {found[1]: at for at, line in enumerate(front, first) if (found := _KEY.match(line))}
    return MarkdownFile(
        fields=read_fields(front, first_line=first)[0], lines=places, body=split.body
    )


class SplitText(Value):
    """A text in two. `front`: the lines between the marks, the first one in line `first_line`."""

    body: str
    front: tuple[str, ...] | None = None  # None: it has no front matter
    first_line: int = 2


def split_front(text: str) -> SplitText:
    """Part the front matter from the text; blank lines before it do no harm.

    Raises UsageError for a front matter over 32 KiB.
    """
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.strip()), 0)
    end = next((at for at, line in enumerate(lines) if at > start and line.strip() == "---"), 0)
    if not lines or lines[start].strip() != "---" or not end:
        return SplitText(body=text.strip())
    front = tuple(lines[start + 1 : end])
    if sum(map(len, front)) > _FRONT_BYTES:
        raise UsageError(f"front matter larger than {_FRONT_BYTES >> 10} KiB")
    body = "\n".join(lines[end + 1 :]).strip()
    return SplitText(body=body, front=front, first_line=start + 2)


def read_fields(front: Sequence[str], *, first_line: int) -> tuple[dict[str, object], str]:
    """The values, and why they are no YAML, so that they were read line by line; "" if they are."""
    if not any(line.strip() and not line.lstrip().startswith("#") for line in front):
        return {}, ""
    try:
        return yaml_table("\n".join(front), first_line=first_line), ""
    except UsageError as error:
        return _plain_fields(front), str(error)


def first_words(body: str, *, most_chars: int) -> str:
    """What stands for a missing description: the first line that is no heading, else the first."""
    lines = [line.strip() for line in body.splitlines() if line.strip("# \t")]
    plain = (line for line in lines if not line.startswith("#"))
    first = next(plain, lines[0] if lines else "")
    return " ".join(first.strip("# ").split())[:most_chars]


def _plain_fields(front: Sequence[str]) -> dict[str, object]:
    """`key: the rest of the line`; indented lines go on with the value above, dashes list."""
    found: dict[str, object] = {}
    key = ""
    for line in front:
        start = _KEY.match(line)
        if start is not None:
            key = start[1]
            found[key] = start[2].strip().strip("\"'")
            continue
        item = line.strip()
        if not key or not item:
            continue
        before = found[key]
        if item.startswith("- "):
            earlier = cast("list[object]", before) if isinstance(before, list) else []
            found[key] = [*earlier, item[2:].strip().strip("\"'")]
        elif isinstance(before, str):
            found[key] = f"{before} {item}".strip()
    return found


def _split_commas(text: str) -> list[str]:
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
