"""`/SERVER:PROMPT WORDS…`, a prompt of an MCP server as a person types it. Pure."""

import re
import shlex
from typing import NamedTuple

from swarm.mailbox.base.errors import UsageError

_CALL = re.compile(r"/([A-Za-z0-9_-]{1,64}):([^\s/:]{1,200})(?:\s+(.*))?\Z", re.DOTALL)


class PromptCall(NamedTuple):
    """The prompt and its words: `ARGUMENT=VALUE`, or values in the declared order."""

    server: str
    prompt: str
    words: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As a command file of this name would be called."""
        return f"{self.server}:{self.prompt}"


def parse_prompt_call(text: str) -> PromptCall | None:
    """The prompt that a text calls; None if it is other words, as after a leading blank.

    Raises UsageError for words whose quotes do not end.
    """
    found = _CALL.match(text.rstrip())
    if found is None:
        return None
    try:
        words = tuple(shlex.split(found[3] or ""))
    except ValueError as error:
        raise UsageError(f"/{found[1]}:{found[2]}: {error}") from error
    return PromptCall(found[1], found[2], words)
