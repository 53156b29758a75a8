"""A model at a provider, as people write it: `PROVIDER:MODEL`. No I/O.

Names of models may hold colons too (`qwen2.5-coder:7b`), so a text without the id of a provider
before its first colon is the name of a model.
"""

from collections.abc import Collection
from difflib import get_close_matches

from ..protocol.values.base import Value

SCRIPTED = "scripted:"
MAX_NAME_CHARS = 200
_NEAR = 0.75  # how similar a word must be to a provider's id to count as a misspelled one


class ModelReference(Value):
    """None: the run's provider, or the default model of the provider."""

    provider: str | None = None
    model: str | None = None

    def __str__(self) -> str:
        return ":".join(filter(None, (self.provider, self.model)))


class InvalidReference(ValueError):
    """The text is no reference; the message says why and what one looks like."""


def split_reference(text: str) -> ModelReference:
    """A checked `PROVIDER:MODEL` or `PROVIDER`; `scripted:FILE` is a provider as a whole."""
    if text.startswith(SCRIPTED):
        return ModelReference(provider=text)
    provider, _, model = text.partition(":")
    return ModelReference(provider=provider, model=model or None)


def read_fallback(text: str, known: Collection[str]) -> ModelReference:
    """An entry of a `fallback` list, whose provider must be known. Raises InvalidReference."""
    wanted = _checked(text)
    reference = split_reference(wanted)
    if not reference.provider or wanted.endswith(":"):
        raise InvalidReference(f"{text!r} is not `provider:model`, as in `openai:gpt-5`")
    if reference.provider not in known and not wanted.startswith(SCRIPTED):
        raise InvalidReference(unknown_provider_text(reference.provider, known))
    return reference


def read_model_name(text: str, known: Collection[str]) -> ModelReference:
    """A name of a model, with or without a provider before it; "" is the default.

    Raises InvalidReference for what cannot be a name, for a provider without a model, and for what
    looks like a misspelled provider.
    """
    wanted = _checked(text)
    if wanted.startswith(SCRIPTED):
        return ModelReference(provider=wanted)
    provider, colon, model = wanted.partition(":")
    if not colon:
        return ModelReference(model=wanted or None)
    if provider in known:
        if not model:
            raise InvalidReference(f"{text!r} names no model; write `{provider}:MODEL`")
        return ModelReference(provider=provider, model=model)
    if get_close_matches(provider, known, n=1, cutoff=_NEAR):
        raise InvalidReference(unknown_provider_text(provider, known))
    return ModelReference(model=wanted)


def unknown_provider_text(name: str, known: Collection[str]) -> str:
    """What to say of a provider that nobody knows, with the nearest name."""
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    return f"no provider is called `{name[:MAX_NAME_CHARS]}`; known are {', '.join(known)}{hint}"


def _checked(text: str) -> str:
    wanted = text.strip()
    if len(wanted) > MAX_NAME_CHARS or not wanted.isprintable():
        raise InvalidReference("that is not a name of a model")
    return wanted
