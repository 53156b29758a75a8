"""The items of a fan-out: folders, files, a command's lines, the rows of a CSV file.

Items are found by I/O, once, before anything starts; an item's prompt is computed from them without
I/O. No model and no file name can reach a shell here: only the task file's own command runs,
read-only and for at most 30 s.
"""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import IsAllowed, read_user_file, resolve_links
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.mailbox.protocol.values.base import Value

from ...base.file_excerpts import read_excerpt, render_excerpts
from ...request.run_request import FanOut
from .glob_search import find_paths

MAX_ITEMS = 20_000
_MAX_CSV_BYTES = 64 << 20
_MAX_ITEM_CHARS = 4096
_PLACEHOLDER = re.compile(r"\{([^{}\n]{1,100})\}")


class FanOutSource(Value, forbid_unknown_fields=True):
    """Exactly one field is set (`fan_out.each` of a task file)."""

    dirs: str | tuple[str, ...] | None = None
    files: str | tuple[str, ...] | None = None
    lines: str | None = None
    csv: str | None = None

    @property
    def kind(self) -> str:
        """Which one is set. Raises UsageError for none or several."""
        given = [name for name in ("dirs", "files", "lines", "csv") if getattr(self, name)]
        if len(given) != 1:
            raise UsageError("fan_out.each needs exactly one of dirs, files, lines, csv")
        return given[0]


class FoundItems(Value):
    """Items in order; `rows` only for a CSV file, one per item."""

    items: tuple[str, ...] = ()
    rows: tuple[dict[str, str], ...] = ()


def find_items(
    each: FanOutSource, *, cwd: Path, run_lines: Callable[[str, Path], str]
) -> FoundItems:
    """Find what `each` names.

    Args:
        each: One of the four sources.
        cwd: What patterns and a CSV file's name are relative to.
        run_lines: Runs a command in a folder, in the sandbox; returns its output.

    Raises:
        UsageError: Nothing or too much was found, or the source cannot be read.
    """
    match each.kind:
        case "dirs":
            found = FoundItems(items=find_paths(cwd, _patterns(each.dirs), kind="dirs"))
        case "files":
            found = FoundItems(items=find_paths(cwd, _patterns(each.files), kind="files"))
        case "lines":
            found = FoundItems(items=split_lines(run_lines(each.lines or "", cwd)))
        case _:
            found = read_csv(cwd / (each.csv or ""))
    if not found.items:
        raise UsageError(f"fan_out.each.{each.kind} found nothing below {cwd}")
    if len(found.items) > MAX_ITEMS:
        raise UsageError(
            f"fan_out.each.{each.kind} found {len(found.items):,} items; at most {MAX_ITEMS:,} "
            "can be one run"
        )
    return found


def _patterns(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def split_lines(output: str) -> tuple[str, ...]:
    """The command's lines, stripped, without duplicates, in order."""
    lines = (_plain(line.strip()) for line in output.splitlines())
    return tuple(dict.fromkeys(line for line in lines if line))


def _plain(text: str) -> str:
    """Make an item one printable line of bounded length: it becomes name, title and prompt."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text)
    return kept[:_MAX_ITEM_CHARS]


def read_csv(path: Path) -> FoundItems:
    """Rows of a CSV file with a header line; the item is column `item`, else the first one.

    Raises UsageError that names the file and, where it can, the line.
    """
    try:
        text = decode_written(read_user_file(path, most_bytes=_MAX_CSV_BYTES))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except NotText as error:
        raise UsageError(f"{path}, {error}") from error
    return parse_csv(text, path)


def parse_csv(text: str, path: Path) -> FoundItems:
    """As `read_csv`; `path` is for its errors. At most `MAX_ITEMS` rows are ever held."""
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        return _csv_rows(path, reader)
    except csv.Error as error:
        raise UsageError(f"{path}, line {reader.reader.line_num}: {error}") from error


def _csv_rows(path: Path, reader: "csv.DictReader[str]") -> FoundItems:
    columns = [name.strip() for name in reader.fieldnames or ()]
    if not columns or len(set(columns)) != len(columns) or "" in columns:
        raise UsageError(f"{path}, line 1: the header needs names, each once")
    reader.fieldnames = columns
    key = "item" if "item" in columns else columns[0]
    items: list[str] = []
    rows: list[dict[str, str]] = []
    for row in reader:
        if len(items) == MAX_ITEMS:
            raise UsageError(f"{path} has more than {MAX_ITEMS:,} rows: too many for one run")
        if "" in row or None in row.values():
            raise UsageError(f"{path}, line {reader.line_num}: not {len(columns)} columns")
        items.append(_plain(row[key].strip()) or f"row {len(items) + 1}")
        rows.append(dict(row))
    return FoundItems(items=tuple(items), rows=tuple(rows))


def item_texts(
    items: tuple[str, ...],
    *,
    cwd: Path,
    patterns: tuple[str, ...],
    limit_bytes: int,
    may: IsAllowed,
) -> tuple[str, ...]:
    """For each item the text of its own files, for models that cannot open files themselves.

    Args:
        items: Paths relative to `cwd`; one that names nothing there gets an empty text.
        cwd: The working directory.
        patterns: Relative to an item that is a folder; for a file, `.` is the file itself and the
            others are relative to its folder. Empty: no texts at all.
        limit_bytes: Of file contents, for one item.
        may: Whether a prompt may show what is at a canonical path.
    """
    if not patterns:
        return ()
    return tuple(_item_text(cwd / item, patterns, limit_bytes, may) for item in items)


def _item_text(home: Path, patterns: tuple[str, ...], limit_bytes: int, may: IsAllowed) -> str:
    names: tuple[str, ...] = ()
    if not may(resolve_links(home)):
        return ""
    if home.is_file():
        names = (home.name,) if "." in patterns else ()
        home = home.parent
    if not home.is_dir():
        return ""
    globs = [pattern for pattern in patterns if pattern != "."]
    names += tuple(n for n in find_paths(home, globs, kind="files") if n not in names)
    read = (read_excerpt(home / name, name, may) for name in names)
    return render_excerpts([one for one in read if one is not None], limit_bytes=limit_bytes)


def item_prompt(fan_out: FanOut, index: int) -> str:
    """The input for item `index`: the prompt with `{item}` and `{column}` filled in, then its text.

    Other braces stay as they are, and filled-in text is not expanded again. No I/O.
    """
    values = fan_out.rows[index] if fan_out.rows else {}
    values = {**values, "item": fan_out.items[index]}
    filled = _PLACEHOLDER.sub(lambda hit: values.get(hit[1].strip(), hit[0]), fan_out.prompt)
    text = fan_out.texts[index] if fan_out.texts else ""
    return f"{filled.strip()}\n\n{text}" if text else filled.strip()
