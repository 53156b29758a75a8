"""A final answer against the schema it was asked for: what the model is told when it does not fit.

Rule guarded: one more request, not two; then the answer stands as it is, and who asked for it
judges it. The checker takes 6 MB, so it is loaded by the few turns that have a schema.
"""

from typing import Any

import msgspec

MAX_REPAIRS = 1
_SCHEMA_CHARS = 8_000  # told again: not every provider has passed it on
_VIOLATION_CHARS = 1_000


def schema_repair_text(text: str, schema: bytes) -> str | None:
    """What to tell the model about an answer that does not fit; None if it fits."""
    from swarm.mailbox.schema_check import find_schema_violation  # see above

    try:
        known: dict[str, Any] = msgspec.json.decode(schema, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return None  # it was checked where it came in; the judge of the answer says what is wrong
    fault = find_schema_violation(text, known)
    if fault is None:
        return None
    shown = schema.decode("utf-8", "replace")
    if len(shown) > _SCHEMA_CHARS:
        shown = shown[:_SCHEMA_CHARS] + " …"
    return (
        f"Your answer was not accepted: {fault[:_VIOLATION_CHARS]}. Give it again: one "
        "JSON value that "
        f"fits this JSON schema, with no other text and no code fence around it.\n{shown}"
    )
