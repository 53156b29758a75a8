"""Reads a SKILL.md: YAML front matter with a name and a description, then instructions. Pure.

Source: the open Agent Skills format and Codex's loader. Loading forgives what does no harm (a name
with blanks, a description that is too long) and notes it; `format_problems` names everything that
the format forbids.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Literal, cast

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import decode_leniently, decode_written
from swarm.mailbox.protocol.values.base import Value

from ...base.yaml_table import yaml_table
from ...markdown.front_matter import SplitText, first_words, read_fields, split_front

SKILL_FILE = "SKILL.md"
SIDECAR = "agents/openai.yaml"  # in the skill's folder; its policy and its servers count
SKILL_BYTES = 256 << 10  # of one SKILL.md; what is longer belongs into files beside it
_FRONT_BYTES = 32 << 10
_NAME_CHARS = 64
_DESCRIPTION_CHARS = 1024
_COMPATIBILITY_CHARS = 500
_MOST_SERVERS = 16
_FORMAT_KEYS = frozenset(
    ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
)
_NAME = re.compile(r"[\w:.-]+")
_FORMAT_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")

SkillScope = Literal["repo", "user", "plugin", "admin"]
_Fields = dict[str, object]


class NeededServer(Value):
    """An MCP server that a skill needs, with one of `url` and `command`, or neither."""

    name: str
    url: str = ""
    command: str = ""


class Skill(Value):
    """One skill as it was read. `path` is the canonical path of its SKILL.md."""

    name: str
    description: str
    path: str
    scope: SkillScope
    digest: str  # SHA-256 of the whole file, in hex
    size_bytes: int = 0
    servers: tuple[NeededServer, ...] = ()  # MCP servers that it says it needs
    is_listed: bool = True  # False: only an explicit mention brings it into a conversation
    notes: tuple[str, ...] = ()  # what was odd in the file, and what holds instead

    @property
    def folder(self) -> str:
        return str(PurePath(self.path).parent)


def parse_skill(
    data: bytes, *, path: str, scope: SkillScope, sidecar: bytes = b"", prefix: str = ""
) -> Skill:
    """Return the skill in this SKILL.md. `prefix`: the plugin that brings it.

    Raises UsageError: the text says what is wrong with it.
    """
    split = _split(data)
    notes: list[str] = []
    fields, fault = read_fields(split.front or (), first_line=split.first_line)
    if fault:
        notes.append(f"{fault}; its front matter is read line by line")
    folder = PurePath(path).parent.name
    name = _name(fields.get("name"), folder, prefix, notes)
    description = _description(fields.get("description"), split.body, notes)
    beside = _read_sidecar(sidecar)
    return Skill(
        name=name,
        description=description,
        path=path,
        scope=scope,
        digest=hashlib.sha256(data).hexdigest(),
        size_bytes=len(data),
        servers=_needed_servers(beside),
        is_listed=_may_be_listed(beside) and not _is_true(fields.get("disable-model-invocation")),
        notes=tuple(notes),
    )


def _name(given: object, folder: str, prefix: str, notes: list[str]) -> str:
    """The name, else the folder's. Raises UsageError if even that is too long for its plugin."""
    start = f"{prefix}:" if prefix else ""
    own = _joined(given)
    if own and _NAME.fullmatch(own) and len(start + own) <= _NAME_CHARS:
        return start + own
    instead = re.sub(r"[^\w.-]+", "-", folder).strip("-")[:_NAME_CHARS] or "skill"
    if len(start + instead) > _NAME_CHARS:
        raise UsageError(f"invalid name: exceeds maximum length of {_NAME_CHARS} characters")
    if given is not None:
        notes.append(
            f"invalid name {own[:_NAME_CHARS]!r}: at most {_NAME_CHARS} letters, digits, `-`, `_`, "
            f"`.` and `:`; it is called {start + instead}, as its folder"
        )
    return start + instead


def _description(given: object, body: str, notes: list[str]) -> str:
    """The description in one line, else the first words. Raises UsageError: there is neither."""
    text = _joined(given)
    if len(text) > _DESCRIPTION_CHARS:
        notes.append(
            f"its description has {len(text):,} characters; the first {_DESCRIPTION_CHARS:,} count"
        )
        return f"{text[: _DESCRIPTION_CHARS - 1].rstrip()}…"
    if text:
        return text
    if not (text := first_words(body, most_chars=_DESCRIPTION_CHARS)):
        raise UsageError("missing field `description`")
    notes.append("missing field `description`; the first words of its text stand for it")
    return text


def _joined(value: object) -> str:
    """A text, a number, or a list of such, with every white space as one blank; else ""."""
    several = cast("list[object]", value) if isinstance(value, list) else [value]
    texts = (str(one) for one in several if isinstance(one, str | int | float))
    return " ".join(" ".join(texts).split())


def _is_true(value: object) -> bool:
    """True for what YAML, or who wrote it as a text, means by it."""
    return value is True or (isinstance(value, str) and value.lower() in ("true", "yes", "on"))


def _split(data: bytes) -> SplitText:
    """Raises UsageError: it is too large, no text, or has no front matter."""
    if len(data) > SKILL_BYTES:
        raise UsageError(f"larger than {SKILL_BYTES >> 10} KiB; move details into files beside it")
    split = split_front(decode_written(data))
    if not split.front:
        raise UsageError("missing YAML front matter delimited by ---")
    return split


def read_front_matter(data: bytes) -> _Fields:
    """The mapping between the first two `---` lines, if it is YAML. Raises UsageError."""
    split = _split(data)
    return yaml_table("\n".join(split.front or ()), first_line=split.first_line)


def instructions_of(data: bytes) -> str:
    """What follows the front matter; all of the text if there is none."""
    text = decode_leniently(data).text
    try:
        return split_front(text).body
    except UsageError:
        return text.strip()


def format_problems(data: bytes, *, folder: str) -> list[str]:
    """Every departure from the open format, in words; empty for a skill that is as it should be.

    Args:
        data: The file.
        folder: The name of the skill's folder, which the format wants to be the skill's name.
    """
    try:
        fields = read_front_matter(data)
    except UsageError as error:
        return [str(error)]
    checks: list[Callable[[_Fields], list[str]]] = [
        lambda fields: _name_problems(fields.get("name"), folder),
        lambda fields: _text_problems(fields, "description", _DESCRIPTION_CHARS, needed=True),
        lambda fields: _text_problems(fields, "compatibility", _COMPATIBILITY_CHARS),
        lambda fields: [
            f"unknown field `{key}`; the format knows {', '.join(sorted(_FORMAT_KEYS))}"
            for key in fields
            if key not in _FORMAT_KEYS
        ],
    ]
    return [problem for check in checks for problem in check(fields)]


def _name_problems(name: object, folder: str) -> list[str]:
    if not isinstance(name, str) or not name.strip():
        return ["missing field `name`"]
    problems: list[str] = []
    if len(name) > _NAME_CHARS:
        problems.append(f"invalid name: exceeds maximum length of {_NAME_CHARS} characters")
    if not _FORMAT_NAME.fullmatch(name):
        problems.append("invalid name: small letters and digits, with single hyphens between")
    if name != folder:
        problems.append(f"invalid name: it differs from the name of its folder, {folder!r}")
    return problems


def _text_problems(
    fields: _Fields, key: str, most_chars: int, *, needed: bool = False
) -> list[str]:
    value = fields.get(key)
    if value is None and not needed:
        return []
    if not isinstance(value, str) or not value.strip():
        return [f"missing field `{key}`" if value is None else f"invalid {key}: it is not text"]
    if len(value) > most_chars:
        return [f"invalid {key}: exceeds maximum length of {most_chars} characters"]
    return []


def _read_sidecar(sidecar: bytes) -> _Fields:
    """The sidecar's table; a faulty one says nothing."""
    if not sidecar or len(sidecar) > _FRONT_BYTES:
        return {}
    try:
        return yaml_table(decode_written(sidecar), first_line=1)
    except UsageError:
        return {}


def _may_be_listed(sidecar: _Fields) -> bool:
    return _table(sidecar.get("policy")).get("allow_implicit_invocation") is not False


def _needed_servers(sidecar: _Fields) -> tuple[NeededServer, ...]:
    """The MCP servers among `dependencies.tools`; a faulty entry counts as absent."""
    listed = _table(sidecar.get("dependencies")).get("tools")
    entries = cast("list[object]", listed) if isinstance(listed, list) else []
    found: list[NeededServer] = []
    for table in map(_table, entries[:_MOST_SERVERS]):
        name, url, command = (_short(table.get(key)) for key in ("value", "url", "command"))
        if table.get("type") == "mcp" and re.fullmatch(r"[\w-]{1,64}", name):
            found.append(NeededServer(name=name, url=url, command=command))
    return tuple(found)


def _short(value: object) -> str:
    """A text of one line and at most 1,024 characters; "" for anything else."""
    is_short = isinstance(value, str) and value.isprintable() and len(value) <= _DESCRIPTION_CHARS
    return str(value) if is_short else ""


def _table(value: object) -> _Fields:
    return cast("_Fields", value) if isinstance(value, dict) else {}
