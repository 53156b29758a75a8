"""Completion of `/SERVER:PROMPT` and its arguments, with what servers say of their prompts.

A server is asked in the background, by `swarm mcp prompts`, once somebody has typed its name and a
colon; nothing waits for it. What it says is cleaned before it is shown or offered.
"""

import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from prompt_toolkit.completion import Completion

from ...base.safe_text import clean_line

_LIMIT_S = 30.0
_MOST_BYTES = 1 << 20
_MOST_SERVERS = 20  # asked in one conversation


class _Argument(msgspec.Struct, frozen=True):
    name: str = ""
    required: bool = False


class KnownPrompt(msgspec.Struct, frozen=True):
    """What is used of a prompt's description."""

    name: str = ""
    description: str = ""
    arguments: tuple[_Argument, ...] = ()


class PromptAt(NamedTuple):
    """What is typed of a prompt at the cursor. `argument` is None while its name is typed."""

    server: str
    prompt: str
    argument: str | None = None


def prompt_at(before: str) -> PromptAt | None:
    """The prompt that the text before the cursor begins with."""
    if not before.startswith("/") or "\n" in before:
        return None
    head, blank, rest = before[1:].partition(" ")
    server, colon, prompt = head.partition(":")
    if not server or not colon or "/" in head:
        return None
    return PromptAt(server, prompt, rest.rsplit(" ", 1)[-1] if blank else None)


class ServerPrompts:
    """The prompts of the servers that were asked about.

    Args:
        cwd: Where `swarm mcp prompts` runs.
        environment: Of that command.
    """

    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._cwd, self._environment = cwd, dict(environment)
        self._known: dict[str, tuple[KnownPrompt, ...]] = {}  # by server; () while it is asked

    def known(self, server: str) -> tuple[KnownPrompt, ...]:
        """The prompts known so far; the first question about a server asks it."""
        if server not in self._known and len(self._known) < _MOST_SERVERS:
            self._known[server] = ()
            threading.Thread(target=self._ask, args=(server,), daemon=True).start()
        return self._known.get(server, ())

    def _ask(self, server: str) -> None:
        self._known[server] = ask_prompts(server, self._cwd, self._environment)

    def completions(self, at: PromptAt) -> Iterable[Completion]:
        """What may stand at the cursor."""
        prompts = self.known(at.server)
        if at.argument is None:
            for one in prompts:
                if one.name.startswith(at.prompt) and is_typable(one.name):
                    yield Completion(
                        one.name,
                        start_position=-len(at.prompt),
                        display=f"/{at.server}:{one.name} {_usage(one)}".rstrip(),
                        display_meta=clean_line(one.description, limit=200),
                    )
            return
        for one in prompts:
            for argument in one.arguments if one.name == at.prompt else ():
                if argument.name.startswith(at.argument) and is_typable(argument.name):
                    yield Completion(f"{argument.name}=", start_position=-len(at.argument))


def is_typable(name: str) -> bool:
    """True for a name that can be shown and typed as it is."""
    return bool(name) and name.isprintable() and not set(name) & set(" /:=") and len(name) <= 200


def _usage(prompt: KnownPrompt) -> str:
    shown = (
        f"{clean_line(one.name, limit=40)}=…"
        if one.required
        else f"[{clean_line(one.name, limit=40)}=…]"
        for one in prompt.arguments[:8]
    )
    return " ".join(shown)


def ask_prompts(server: str, cwd: Path, environment: Mapping[str, str]) -> tuple[KnownPrompt, ...]:
    """What `swarm mcp prompts` says of a server; () if it fails. Takes up to half a minute."""
    words = ("swarm.supervisor.clients.cli.entry", "mcp", "prompts", "--json", "--", server)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", *words], env=dict(environment), cwd=cwd,
            capture_output=True, stdin=subprocess.DEVNULL, timeout=_LIMIT_S, check=False,
            start_new_session=True,
        )  # fmt: skip
        if done.returncode or len(done.stdout) > _MOST_BYTES:
            return ()
        return msgspec.json.decode(done.stdout, type=tuple[KnownPrompt, ...])
    except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError):
        return ()
