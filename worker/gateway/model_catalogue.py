"""The model catalogue: the built-in `models.toml` beside this file, and files that a person adds.

A later file changes entries of the same name key by key. A model without an entry gets cautious
values and `known=False`, so that the run can say so once.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import parse_toml_text
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.sampling import MailRole, ModelInfo, ThinkingKind, Wire

from .fit.dialect import Dialect
from .weights import Weights, load_weights

_MOST_BYTES = 4 << 20  # limit of a catalogue file; the built-in one has some KiB

BUILT_IN = Path(__file__).with_name("models.toml")
_DATED = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d)\Z")  # the version date in a model name
LOCAL_FALLBACK_WINDOW = 32_768  # for an unknown model on this machine, where memory is scarce
_FALLBACK_WINDOW = 272_000
GUESSED_WINDOWS = (LOCAL_FALLBACK_WINDOW, _FALLBACK_WINDOW)


class CatalogueError(UsageError):
    """A catalogue file cannot be used; the text names file and key."""


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[models."SLUG"]` table."""

    provider: str = ""  # id of the provider that serves it; "" = any
    default: bool = False  # the provider's model if none is configured
    title: str = ""  # one line for `swarm models list`
    context_window: int = 272_000
    effective_context_percent: int = 95
    auto_compact_tokens: int | None = None
    output_limit_tokens: int = 10_000
    can_call_tools: bool = True
    freeform_tools: bool = False
    parallel_tool_calls: bool = True
    reasoning: bool = False
    image_input: bool = True
    default_effort: str | None = None
    short_prompt: bool = False
    small: bool | None = None  # few tools in few words; None: by prompt, calls and window
    input_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    cache_write_usd_per_million: float | None = None
    max_output_tokens: int | None = None  # of one response
    thinking: ThinkingKind = ""  # `messages` wire: none, by budget, adaptive, or always adaptive
    efforts: tuple[str, ...] = ()
    constrained_calls: bool = False  # `chat` wire: the server's grammar enforces calls as text
    structured_output: bool = False  # `messages` wire: can be held to a schema
    mail_role: MailRole = "user"  # `responses` wire: "assistant" for a model trained on it
    dialect: Dialect | None = None  # what its server takes (fit/dialect.py); None: not known


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: dict[str, ModelEntry] = {}
    weights: dict[str, object] = {}  # model files: weights.py reads and checks them


class Catalogue:
    """All entries, by slug. `sources`: the last file that changed an entry; "" = built in."""

    def __init__(
        self, entries: dict[str, ModelEntry], sources: dict[str, str] | None = None
    ) -> None:
        self.entries, self.sources = entries, sources or {}

    def default_of(self, provider: str) -> str | None:
        """The provider's default model; one from a person's file comes first. None if there is
        none.
        """
        found = [
            slug
            for slug, entry in self.entries.items()
            if entry.provider == provider and entry.default and "*" not in slug
        ]
        own = [slug for slug in found if self.sources.get(slug)]
        return next(iter(own or found), None)

    def find(self, slug: str) -> ModelEntry | None:
        """The entry of this name, of the name without its version date, or of its family: the
        longest pattern with `*` that fits the name, with or without its maker.
        """
        found = self.entries.get(slug) or self.entries.get(_DATED.sub("", slug))
        if found is not None:
            return found
        names = (slug.lower(), slug.lower().rpartition("/")[2])
        fitting = [
            one for one in self.entries
            if "*" in one and any(fnmatchcase(name, one.lower()) for name in names)
        ]  # fmt: skip
        return self.entries[max(fitting, key=len)] if fitting else None

    def describe(self, slug: str, *, provider: str, wire: Wire) -> ModelInfo:
        """What an agent's loop needs to know of this model at this provider."""
        entry = self.find(slug)
        if entry is None:
            return _unknown(slug, provider=provider, wire=wire)
        freeform = entry.freeform_tools and wire == "responses"
        fields = msgspec.structs.asdict(entry) | {
            "slug": slug,
            "provider": provider,
            "wire": wire,
            "freeform_tools": freeform,
            "constrained_calls": entry.constrained_calls and entry.can_call_tools,
        }
        return msgspec.convert(fields, ModelInfo)


def _unknown(slug: str, *, provider: str, wire: Wire) -> ModelInfo:
    is_local = provider in {"ollama", "lmstudio", "llamacpp", "local"}
    return ModelInfo(
        slug=slug,
        provider=provider,
        wire=wire,
        context_window=LOCAL_FALLBACK_WINDOW if is_local else _FALLBACK_WINDOW,
        parallel_tool_calls=not is_local,
        image_input=not is_local,
        known=False,
    )


def load_catalogue(more: Iterable[str] = ()) -> Catalogue:
    """The built-in entries merged with those of each file, key by key; the last file wins.

    Raises CatalogueError.
    """
    paths = list(more)
    tables = {slug: _embedded(weights) for slug, weights in load_weights(paths).items()}
    sources = dict.fromkeys(tables, "")
    for path in (BUILT_IN, *map(Path, paths)):
        if path == BUILT_IN or path.exists():
            for slug, table in _load(path).items():
                tables[slug] = tables.get(slug, {}) | table
                sources[slug] = "" if path == BUILT_IN else str(path)
    entries = {slug: msgspec.convert(table, ModelEntry) for slug, table in tables.items()}
    return Catalogue(entries, sources)


def _embedded(weights: Weights) -> dict[str, object]:
    """The catalogue entry of a model file: no images, no reasoning, no price."""
    return {
        "provider": "local",
        "title": weights.about,
        "context_window": weights.context_window,
        "can_call_tools": weights.can_call_tools,
        "short_prompt": weights.short_prompt,
        "parallel_tool_calls": False,
        "image_input": False,
        "constrained_calls": True,
        "max_output_tokens": weights.max_output_tokens,
        "input_usd_per_million": 0.0,
        "output_usd_per_million": 0.0,
    }


@cache
def _load(path: Path) -> dict[str, dict[str, object]]:
    """Each table as it is written in the file, validated separately."""
    try:
        data = parse_toml_text(read_user_file(path, most_bytes=_MOST_BYTES).decode())
        msgspec.convert(data, _File)
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path}: cannot read the model catalogue: {error}") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise CatalogueError(f"{path}: {error}") from error
    return cast("dict[str, dict[str, object]]", data.get("models", {}))
