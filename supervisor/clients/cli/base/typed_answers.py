"""Reads `--answer NAME=TEXT`: answers to a model's questions, or to the fields of a form."""

from swarm.mailbox.base.errors import UsageError

MAX_CHARS = 8_000


def parse_answers(given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The texts by name; several texts for one name are all kept. Raises UsageError."""
    found: dict[str, tuple[str, ...]] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name.strip() or not text.strip():
            raise UsageError(f"--answer {one!r}: say QUESTION=TEXT")
        if len(text) > MAX_CHARS:
            raise UsageError(f"--answer {name}: over {MAX_CHARS} characters")
        found[name.strip()] = (*found.get(name.strip(), ()), text.strip())
    return found
