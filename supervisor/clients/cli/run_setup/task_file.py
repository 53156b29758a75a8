"""Task files: Markdown with optional YAML front matter, from a file, stdin or an option.

Nothing is guessed. An unknown key, a wrong type, a duplicate key or broken YAML is an error that
names file, line and key. Stdin is read only for `-`.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.near_names import near_or_all, nearest_file
from swarm.mailbox.base.quantities import parse_duration
from swarm.mailbox.base.safe_open import open_user_file, read_start
from swarm.mailbox.base.written_text import NotText, decode_written
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    AskForApproval,
    Budget,
    Isolation,
    MergeAtEnd,
    RunIsolation,
)
from swarm.roles.config.part_keys import PartFront
from swarm.roles.config.schema import SandboxMode
from swarm.roles.config.validation_words import explain_mismatch
from swarm.roles.config.wait_for_limit import check_wait_for_limit

from ....parts.fan_out.fan_out_items import FanOutSource

MAX_TASK_BYTES = 1 << 20
_MAX_FRONT_BYTES = 64 << 10
_AT = re.compile(r" - at `\$\.?([^`]*)`")
_FIELD = re.compile(r"unknown field `([^`]*)`")
_DESCRIPTOR_PATHS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")


class StrictBudget(Budget, forbid_unknown_fields=True):
    """`budget: {tokens, usd, requests}`."""


class NetworkTaskTable(Value, forbid_unknown_fields=True):
    """`network: {allow: [patterns], deny: [patterns]}`: what commands may reach by the proxy."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class FanOutTable(Value, forbid_unknown_fields=True):
    """`fan_out` as written; see docs/tasks.md."""

    each: FanOutSource
    prompt: str
    role: str = "explorer"
    concurrency: int | None = None
    output_schema: dict[str, object] | str | None = None
    retries: int = 0
    context: tuple[str, ...] = ()
    context_bytes: int = 4096
    isolation: Isolation | None = None  # None: as the task says
    host: str | None = None  # a host that `--hosts` names, or "here"; None: as role and run say
    resources: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}  # what each takes of a machine


class FrontMatter(PartFront, forbid_unknown_fields=True):
    """What flags can set, set by the task itself. None: not set."""

    role: str | None = None
    model: str | None = None
    provider: str | None = None
    effort: str | None = None
    sandbox: SandboxMode | None = None
    approval: AskForApproval | None = None
    reviewer: Literal["person", "guardian", "nobody"] | None = None
    allow_commit: bool | None = None
    max_agents: int | None = None
    max_depth: int | None = None
    network: NetworkTaskTable | None = None
    max_spawns: int | None = None
    budget: StrictBudget | None = None
    deadline: str | int | float | None = None
    wait_for_limit: str | int | float | None = None
    output_schema: dict[str, object] | str | None = None
    context: tuple[str, ...] = ()
    isolation: RunIsolation | None = None
    merge: MergeAtEnd | None = None
    fan_out: FanOutTable | None = None


class Task(Value):
    """One task.

    `name`: the file's path as given, "-" or "prompt". `folder`: the base of its relative paths;
    None if the task is not a file but text that the person gave.
    """

    name: str
    body: str
    front: FrontMatter = FrontMatter()
    folder: str | None = None
    text: str = ""  # the whole file, as read
    lines: dict[str, int] = {}  # dotted front matter key → line


def read_task(
    wanted: str | None,
    *,
    prompt: str | None,
    prompt_file: str | None = None,
    read_stdin: Callable[[], bytes],
) -> Task:
    """The task that the command line names.

    Args:
        wanted: A file, "-" for stdin, or None.
        prompt: The task as text; then stdin is never read.
        prompt_file: A file, or "-" for stdin, whose whole text is the task: no front matter.
        read_stdin: Called only for "-".

    Raises:
        UsageError: Neither or both are given; the task is missing, empty, too long or no text; or
            its front matter is bad.
    """
    if prompt_file is not None:
        if prompt is not None or wanted is not None:
            raise UsageError("give one of a task file, -p and --prompt-file")
        return _read_prompt_file(prompt_file, read_stdin)
    if prompt is not None:
        if wanted is not None:
            raise UsageError(f"give a task file ({wanted}) or -p, not both")
        if not prompt.strip():
            raise UsageError("the prompt is empty")
        if len(prompt.encode("utf-8", "surrogateescape")) > MAX_TASK_BYTES:
            raise UsageError("the prompt is over 1 MiB")
        return Task(name="prompt", body=prompt.encode("utf-8", "replace").decode())
    if wanted is None:
        raise UsageError("no task: give a Markdown file, - for stdin, or -p TEXT")
    if wanted == "-":
        return parse_task(decode_task(read_stdin(), name="stdin"), name="stdin", task="-")
    path = Path(wanted)
    task = parse_task(_read_text(path), name=wanted, task=wanted)
    return msgspec.structs.replace(task, folder=str(path.absolute().parent))


def _read_prompt_file(name: str, read_stdin: Callable[[], bytes]) -> Task:
    """The whole text as the task. Whoever passes a prompt on can so set nothing by it."""
    if name == "-":
        return Task(name="prompt", body=decode_task(read_stdin(), name="stdin").strip())
    return Task(name="prompt", body=_read_text(Path(name)).strip())


def _read_text(path: Path) -> str:
    try:
        data = _read(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such task file{_suggest_file(path)}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    return decode_task(data, name=str(path))


def _read(path: Path) -> bytes:
    """Read at most one byte more than the limit: enough to refuse the file.

    A descriptor path from a shell (`<(…)`) may be a pipe; any other path must be a regular file.
    """
    if str(path).startswith(_DESCRIPTOR_PATHS):
        with path.open("rb") as file:
            return file.read(MAX_TASK_BYTES + 1)
    return read_start(open_user_file(path), most_bytes=MAX_TASK_BYTES + 1)


def _suggest_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.absolute().parent.glob("*.md")]
    except OSError:
        return ""
    near = nearest_file(path.name, names)
    return f"; did you mean {path.with_name(near)}?" if near else ""


def decode_task(data: bytes, *, name: str) -> str:
    """Decode UTF-8, with or without a BOM, or UTF-16 or UTF-32 with one. Raises UsageError."""
    if len(data) > MAX_TASK_BYTES:
        raise UsageError(f"{name}: over 1 MiB; a task is a text that a model reads")
    try:
        text = decode_written(data)
    except NotText as error:
        place = f"byte {error.byte} (line {error.line}: {error.what})"
        raise UsageError(f"{name}: not {error.encoding} text at {place}") from error
    if not text.strip():
        raise UsageError(f"{name}: the task is empty")
    return text


def parse_task(text: str, *, name: str, task: str) -> Task:
    """Split front matter from body. No I/O. Raises UsageError with file, line and key."""
    lines = text.splitlines(keepends=True)
    if lines[0].rstrip() != "---":
        return Task(name=task, body=text.strip())
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in {"---", "..."}), None)
    if end is None:
        raise UsageError(f"{name}, line 1: the front matter is not closed by a line `---`")
    front, key_lines = parse_front("".join(lines[1:end]), name=name)
    body = "".join(lines[end + 1 :]).strip()
    if not body:
        raise UsageError(f"{name}, line {end + 1}: no task below the front matter")
    return Task(name=task, body=body, front=front, text=text, lines=key_lines)


def parse_front(text: str, *, name: str) -> tuple[FrontMatter, dict[str, int]]:
    """Parse the YAML between the `---` lines (it starts in line 2); also return its keys' lines."""
    from .front_matter_yaml import load_front_yaml  # 15 ms; most prompts have no front matter

    if len(text.encode()) > _MAX_FRONT_BYTES:
        raise UsageError(f"{name}: the front matter is over 64 KiB")
    value, key_lines = load_front_yaml(text, name=name)
    if not isinstance(value, dict):
        raise UsageError(f"{name}, line 2: the front matter must be `key: value` lines")
    try:
        front = msgspec.convert(value, FrontMatter)
    except msgspec.ValidationError as error:
        raise UsageError(_describe_error(error, key_lines, name)) from error
    _check_numbers(front, key_lines, name)
    return front, key_lines


def _describe_error(error: msgspec.ValidationError, key_lines: dict[str, int], name: str) -> str:
    text = str(error)
    at = _AT.search(text)
    key, sentence = (at[1], text[: at.start()]) if at else ("", text)
    field = _FIELD.search(text)
    if field is not None:
        inner = f"{key}.{field[1]}" if key else field[1]
        hint = near_or_all(field[1], _fields_at(key))
        return f"{name}, line {_line_of(inner, key_lines)}, key {inner}: unknown key{hint}"
    sentence = explain_mismatch(sentence, [step for step in key.split(".") if step], FrontMatter)
    return f"{name}, line {_line_of(key, key_lines)}, key {key or '(all)'}: {sentence}"


def _fields_at(key: str) -> tuple[str, ...]:
    tables: dict[str, type[msgspec.Struct]] = {
        "": FrontMatter, "fan_out": FanOutTable, "fan_out.each": FanOutSource,
        "budget": StrictBudget,
        "network": NetworkTaskTable,
    }  # fmt: skip
    return tables[key].__struct_fields__ if key in tables else ()


def _line_of(key: str, key_lines: dict[str, int]) -> int:
    """The line of a key, or of its nearest known parent key."""
    while key:
        if key in key_lines:
            return key_lines[key]
        key = key.rpartition("[")[0] if key.endswith("]") else key.rpartition(".")[0]
    return 2


def _check_numbers(front: FrontMatter, key_lines: dict[str, int], name: str) -> None:
    def complain(key: str, text: str) -> None:
        raise UsageError(f"{name}, line {_line_of(key, key_lines)}, key {key}: {text}")

    if front.deadline is not None:
        try:
            parse_duration(front.deadline)
        except UsageError as error:
            complain("deadline", str(error))
    if front.wait_for_limit is not None:
        try:
            check_wait_for_limit(front.wait_for_limit, is_persons=True)
        except UsageError as error:
            complain("wait_for_limit", str(error))
    if front.max_agents is not None and front.max_agents < 1:
        complain("max_agents", "must be at least 1")
    if front.max_depth is not None and front.max_depth < 0:
        complain("max_depth", "must not be negative")
    if front.max_spawns is not None and front.max_spawns < 0:
        complain("max_spawns", "must not be negative")
    if (fan := front.fan_out) is None:
        return
    try:
        _ = fan.each.kind
    except UsageError as error:
        complain("fan_out.each", str(error))
    if not fan.prompt.strip():
        complain("fan_out.prompt", "must not be blank")
    if fan.concurrency is not None and fan.concurrency < 1:
        complain("fan_out.concurrency", "must be at least 1")
    if not 0 <= fan.retries <= 10:
        complain("fan_out.retries", "must be from 0 to 10")
    if not 1 <= fan.context_bytes <= 256 << 10:
        complain("fan_out.context_bytes", "must be from 1 to 262144")
