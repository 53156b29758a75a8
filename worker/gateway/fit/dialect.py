"""What one server takes for one model: a struct, what is known, and what refusals teach.

`dialects.toml` beside this file says what is known of families of models before they are asked.
"""

import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, cast

import msgspec

from swarm.mailbox.protocol.sampling import ModelInfo

NOTED = "(noted)"  # an answer between two messages that must not follow each other
BEGINNING = "(the conversation begins here)"
NO_REASONING = "(not shown)"  # where a server wants reasoning back of an answer that has none
# Google's own value for calls that another model made.
FOREIGN_SIGNATURE = "skip_thought_signature_validator"

EmptyContent = Literal["null", "text", "absent"]


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request may hold."""

    alternates: bool = False  # user and assistant must take turns
    user_after_tool: bool = True  # a user's message may follow a tool's output
    later_developer: bool = True  # `responses` wire: developer messages in mid-conversation
    developer: bool = True  # `responses` wire: the role is known
    system: bool = True  # a system message is taken at all
    short_ids: bool = False  # ids of calls have nine letters and digits
    empty_content: EmptyContent = "null"  # of an assistant's message that only calls
    returns_fields: bool = True  # fields that only the provider understands go back to it
    left_out: frozenset[str] = frozenset()  # names of such fields that it refused
    needs_reasoning: str = ""  # the field that each assistant's message with calls must have
    needs_signature: bool = False  # calls of other models must have a thought signature
    images: bool = True  # images are taken, where the catalogue says so too
    custom_tools: bool = True  # `responses` wire: freeform tools and their calls
    refused_fields: frozenset[str] = frozenset()  # optional fields of a request, as `a` or `a.b`
    plain_schemas: bool = False  # tools have only the simplest keywords
    left_out_tools: frozenset[str] = frozenset()
    max_output_tokens: int | None = None  # that the server allows

    @property
    def arranges(self) -> bool:
        """True if neighbours of some roles must be changed."""
        takes_all = self.user_after_tool and self.later_developer and self.developer
        return self.alternates or not takes_all


PLAIN = Dialect()


class _Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the table."""

    name: str
    source: str
    models: tuple[str, ...]  # patterns of names, in small letters, without the maker's name
    dialect: Dialect


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    known: tuple[_Known, ...] = ()


@cache
def _table() -> tuple[_Known, ...]:
    data = tomllib.loads(Path(__file__).with_name("dialects.toml").read_text("utf-8"))
    return msgspec.convert(data, _File).known


@cache
def known_dialect(slug: str) -> Dialect:
    """What is known of a model by its name."""
    name = slug.lower().rpartition("/")[2]
    for known in _table():
        if any(fnmatchcase(name, pattern) for pattern in known.models):
            return known.dialect
    return PLAIN


def told_apart(dialect: Dialect) -> dict[str, object]:
    """The fields in which a dialect differs from the plain one, as a table of models.toml."""
    fields = cast("dict[str, object]", msgspec.to_builtins(dialect))
    plain = cast("dict[str, object]", msgspec.to_builtins(PLAIN))
    return {
        name: sorted(cast("list[str]", value)) if isinstance(value, list) else value
        for name, value in fields.items()
        if value != plain[name]
    }


def _not_configured(_: str) -> Dialect | None:
    return None


class LearnedDialects:
    """What the servers of a run have taught; one object for all conversations of a gateway.

    `configured` gives what a models.toml says of a model, which a server may correct.
    """

    def __init__(self, configured: Callable[[str], Dialect | None] = _not_configured) -> None:
        self._configured = configured
        self._learned: dict[tuple[str, str], Dialect] = {}
        self._untold: dict[tuple[str, str], list[str]] = {}

    def of(self, model: ModelInfo) -> Dialect:
        """What is known of this model at its provider."""
        if model.wire == "scripted":
            return PLAIN
        learned = self._learned.get((model.provider, model.slug))
        return learned or self._configured(model.slug) or known_dialect(model.slug)

    def learn(self, model: ModelInfo, dialect: Dialect, notice: str) -> None:
        """Hold to this dialect for the rest of the run; the notice is told once."""
        key = (model.provider, model.slug)
        self._learned[key] = dialect
        self._untold.setdefault(key, []).append(notice)

    def take_notices(self, model: ModelInfo) -> tuple[str, ...]:
        """What to say of what was learned; each is said once."""
        return tuple(self._untold.pop((model.provider, model.slug), ()))
