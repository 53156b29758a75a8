"""The file behind `--provider scripted:FILE`: its schema, its loader and the choice of an entry.

Every mistake in such a file is reported with file, line and key before anything runs. The format is
documented in docs/scripted.md. This module does not wait or answer; scripted_source.py does.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
import trio
import yaml

from swarm.mailbox.base.bounded_yaml import compose_yaml_text
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.items import TokenUsage

_LONG_BYTES = 64 << 10  # takes longer to read than a loop should stand still
_MOST_BYTES = 64 << 20  # long scripts are generated; the whole file is held in memory


class ScriptError(UsageError):
    """A script cannot be used; the text names file, line and key."""


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, object] | str = {}
    id: str | None = None  # call id; generated if absent
    custom: bool = False  # a freeform call: `arguments` is its raw input


class ScriptedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One item of an answer: exactly one of the fields but `phase` is set."""

    text: str | None = None
    reasoning: str | None = None
    call: ScriptedCall | None = None
    phase: Literal["commentary", "final_answer"] | None = None

    def __post_init__(self) -> None:
        if sum(part is not None for part in (self.text, self.reasoning, self.call)) != 1:
            raise ValueError("an item has exactly one of `text`, `reasoning` and `call`")


class ScriptedUsage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def as_usage(self) -> TokenUsage:
        return TokenUsage(
            input_tokens=self.input_tokens,
            cached_input_tokens=self.cached_input_tokens,
            output_tokens=self.output_tokens,
            reasoning_output_tokens=self.reasoning_output_tokens,
            total_tokens=self.input_tokens + self.output_tokens,
        )


class ScriptedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fault instead of an answer, or in the middle of one. Exactly one kind is set."""

    status: int | None = None  # an HTTP status; 429 and 5xx are retried like a real server's
    retry_after: float | None = None  # seconds, with `status`
    code: str = ""  # error code in the body, with `status`
    message: str = "scripted fault"
    disconnect_after: int | None = None  # items that arrive before the connection ends
    garbage: bool = False  # an answer that cannot be parsed
    hang: bool = False  # no data until the request is cancelled
    idle: bool = False  # no data until the idle timeout

    def __post_init__(self) -> None:
        kinds = (self.status is not None, self.disconnect_after is not None)
        if sum((*kinds, self.garbage, self.hang, self.idle)) != 1:
            raise ValueError(
                "a fault has exactly one of `status`, `disconnect_after`, `garbage`, `hang`, `idle`"
            )


class ScriptedAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model's answer to one request. `text`, `reasoning` and `calls` are a short form of
    `items`.
    """

    text: str | None = None
    reasoning: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    items: tuple[ScriptedItem, ...] = ()
    usage: ScriptedUsage | None = None
    delay_s: float = 0.0  # before the first event
    chunk_chars: int = 24  # characters of one text delta
    chunk_delay_s: float = 0.0  # before each delta
    end_turn: bool | None = None
    fault: ScriptedFault | None = None
    agent: str = "**"  # glob over agent paths
    turn: int | None = None  # the number of the agent's request; None: the next in order
    repeat: int | Literal["forever"] = 1  # how often each agent gets this answer

    def __post_init__(self) -> None:
        short = self.text is not None or self.reasoning is not None or self.calls
        if self.items and short:
            raise ValueError("`items` stands alone: no `text`, `reasoning` or `calls` beside it")
        if not (self.items or short or self.fault):
            raise ValueError("an answer needs `text`, `reasoning`, `calls`, `items` or `fault`")
        if self.chunk_chars < 1:
            raise ValueError("`chunk_chars` is at least 1")
        if isinstance(self.repeat, int) and self.repeat < 1:
            raise ValueError("`repeat` is at least 1, or the word forever")

    def all_items(self) -> tuple[ScriptedItem, ...]:
        """The items in order. The order of the short form is: reasoning, text, calls."""
        if self.items:
            return self.items
        reasoning = (ScriptedItem(reasoning=self.reasoning),) if self.reasoning is not None else ()
        text = (ScriptedItem(text=self.text),) if self.text is not None else ()
        return (*reasoning, *text, *(ScriptedItem(call=call) for call in self.calls))


class ScriptedModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The properties of the scripted model that the agent's loop receives."""

    context_window: int = 272_000
    auto_compact_tokens: int | None = None
    freeform_tools: bool = False
    parallel_tool_calls: bool = True
    can_call_tools: bool = True
    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole file."""

    turns: tuple[ScriptedAnswer, ...] = ()
    default: ScriptedAnswer | None = None  # if no entry matches; without it the request fails
    model: ScriptedModel = ScriptedModel()


async def load_script_aside(path: Path) -> Script:
    """As `load_script`; a long one is read in a thread, so that the gateway is not taken for dead.

    Raises ScriptError.
    """
    return await trio.to_thread.run_sync(load_script, path) if _is_long(path) else load_script(path)


def _is_long(path: Path) -> bool:
    try:
        return path.stat().st_size > _LONG_BYTES
    except OSError:
        return False  # reading it says what is wrong


def load_script(path: Path) -> Script:
    """Read and check a script. Raises ScriptError naming file, line and key."""
    try:
        text = read_user_file(path, most_bytes=_MOST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptError(f"{path}: cannot read the script: {error}") from error
    try:
        node, data = compose_yaml_text(text, most_chars=_MOST_BYTES, aliases=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"{mark.line + 1}: " if mark is not None else " "
        what = getattr(error, "problem", None) or str(error)
        raise ScriptError(f"{path}:{line}not valid YAML: {what}") from error
    except ValueError as error:
        raise ScriptError(f"{path}: not valid YAML: {error}") from error
    try:
        return msgspec.convert({} if data is None else data, Script)
    except msgspec.ValidationError as error:
        raise ScriptError(_locate(path, node, str(error))) from error


_WHERE = re.compile(r" - at `\$(?P<path>[^`]*)`\Z")
_UNKNOWN = re.compile(r"unknown field `(?P<key>[^`]*)`")
_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+|\.\.\.)\]")


def _locate(path: Path, node: yaml.Node | None, message: str) -> str:
    """`file:line: key: what is wrong`, from msgspec's `… - at `$.turns[0].text``."""
    where = _WHERE.search(message)
    steps = list(_steps(where["path"])) if where else []
    text = message[: where.start()] if where else message
    if unknown := _UNKNOWN.search(text):
        steps.append(unknown["key"])
        text = "unknown key"
    line = 1
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            pairs = [pair for pair in node.value if pair[0].value == step]
            if not pairs:
                break
            line, node = pairs[0][0].start_mark.line + 1, pairs[0][1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            line = node.start_mark.line + 1 if node is not None else line
    key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return f"{path}:{line}: {key.removeprefix('.') or 'the file'}: {text}"


def _steps(path: str) -> Iterator[str | int]:
    for name, index in _STEP.findall(path):
        if name:
            yield name
        elif index.isdigit():
            yield int(index)


@lru_cache(maxsize=512)
def _glob(pattern: str) -> re.Pattern[str]:
    """`*` within one step of a path, `**` over any number of steps, `?` one character."""
    parts = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.split(r"(\*\*|\*|\?)", pattern)
    return re.compile("".join(parts.get(piece) or re.escape(piece) for piece in pieces))


def matches_agent(pattern: str, agent_path: str) -> bool:
    """True if the whole path fits the pattern."""
    return _glob(pattern).fullmatch(agent_path) is not None


def choose_answer(script: Script, agent_path: str, ordinal: int) -> ScriptedAnswer | None:
    """The answer to the agent's request of that number (1, 2, …); None if no entry matches.

    An entry with `turn` answers exactly that request. The entries without `turn` answer the other
    requests, in the order of the file, each `repeat` times.
    """
    mine = [answer for answer in script.turns if matches_agent(answer.agent, agent_path)]
    pinned = {answer.turn: answer for answer in reversed(mine) if answer.turn is not None}
    if ordinal in pinned:
        return pinned[ordinal]
    position = ordinal - sum(1 for turn in pinned if turn < ordinal)
    for answer in mine:
        if answer.turn is not None:
            continue
        if answer.repeat == "forever" or position <= answer.repeat:
            return answer
        position -= answer.repeat
    return script.default
