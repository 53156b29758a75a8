"""Check of a final answer against its output schema, and the repair text for the model.

The model gets one repair request; then the answer stands, and the requester judges it. The schema
checker takes 6 MB, so only turns with a schema import it.
"""

from typing import Any

import msgspec

MAX_REPAIRS = 1
_SCHEMA_CHARS = 8_000  # sent again: not every provider has passed it on
_VIOLATION_CHARS = 1_000


def schema_repair_text(text: str, schema: bytes) -> str | None:
    """Return what to tell the model about an answer that does not fit; None if it fits."""
    from swarm.mailbox.schema_check import find_schema_violation  # imported late: it takes 6 MB

    try:
        known: dict[str, Any] = msgspec.json.decode(schema, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return None  # checked where it was received; the requester reports the fault
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
