"""Completion in the input line: `/` commands and their words at its beginning, `@` files anywhere.

The files are git's (tracked, and untracked ones that no rule ignores); outside of git none.
They are listed in a thread, at most once in a while, so no key waits for them.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from swarm.mailbox.base.errors import SwarmError

from ...base.safe_text import clean_line
from ...parts.copies.sandboxed_git import SandboxedGit
from .file_mentions import (
    is_mentionable,
    mention_at,
    mention_length,
    mention_of,
    rank_files,
)
from .prompt_completion import ServerPrompts, prompt_at
from .slash_commands import CHOICE_WORDS, OwnCommand, argument_at, matching_commands

_MOST_FILES, _MOST_CHARS = 50_000, 8 << 20
_LIST_LIMIT_S, _FRESH_S = 5.0, 10.0


_Known = TypeVar("_Known")


class BackgroundLookup(Generic[_Known]):
    """What a slow search found last. A thread searches again, at most once in 10 s, when asked.

    A search that fails (OSError, SwarmError) leaves the last finding.
    """

    def __init__(self, search: Callable[[], tuple[_Known, ...]]) -> None:
        self._search = search
        self._known: tuple[_Known, ...] = ()
        self._searched_at = -_FRESH_S
        self._lock = threading.Lock()

    def known(self) -> tuple[_Known, ...]:
        """What is known so far; a new search begins if the last one is old."""
        if self._is_old():
            threading.Thread(target=self.search_if_old, daemon=True).start()
        return self._known

    def search_if_old(self) -> None:
        """Search in this thread, unless another one does or did so lately."""
        if not self._is_old() or not self._lock.acquire(blocking=False):
            return
        try:
            self._searched_at = time.monotonic()
            with suppress(OSError, SwarmError):
                self._known = self._search()
        finally:
            self._lock.release()

    def _is_old(self) -> bool:
        return time.monotonic() - self._searched_at > _FRESH_S


def list_git_files(cwd: Path) -> tuple[str, ...]:
    """The files below `cwd`, relative to it, sorted; () without git, a repository or a sandbox.

    Nobody has trusted the folder yet, and its settings name programs: git is confined.
    """
    words = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    try:
        listed = SandboxedGit(os.environ, limit_s=_LIST_LIMIT_S).run(words, str(cwd))
    except (OSError, SwarmError):
        return ()
    names = listed[:_MOST_CHARS].split("\x00")
    return tuple(sorted({name for name in names[:_MOST_FILES] if is_mentionable(name)}))


def _list_runs(environment: Mapping[str, str], cwd: Path) -> tuple[tuple[str, str], ...]:
    from .recent_runs import list_recent_runs  # no start waits for its imports

    return list_recent_runs(environment, cwd)


def _list_models(environment: Mapping[str, str], cwd: Path) -> tuple[tuple[str, str], ...]:
    from .known_models import list_known_models  # likewise

    return list_known_models(environment, cwd)


class ChatCompleter(Completer):
    """Completes commands, their arguments, and files.

    `choices`: words that may follow a command and are known only at the moment, by its name.
    `/resume` offers the newest runs of this project and `/model` the known models, with what they
    are about.
    `own`: the command files and skills that are known so far.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        choices: Callable[[], Mapping[str, tuple[str, ...]]],
        own: Callable[[], Sequence[OwnCommand]],
        environment: Mapping[str, str],
    ) -> None:
        self._files = BackgroundLookup(lambda: list_git_files(cwd))
        self._lookups = {
            "/resume ": BackgroundLookup(partial(_list_runs, environment, cwd)),
            "/model ": BackgroundLookup(partial(_list_models, environment, cwd)),
        }
        self._prompts = ServerPrompts(cwd, environment)
        self._choices, self._own = choices, own

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """As `get_completions`; what is asked for is looked up first. No key waits."""
        before = document.text_before_cursor
        for head, lookup in self._lookups.items():
            if before.startswith(head):
                await asyncio.to_thread(lookup.search_if_old)
        if mention_at(before) is not None:
            await asyncio.to_thread(self._files.search_if_old)
        for one in self.get_completions(document, complete_event):
            yield one

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        if (at := prompt_at(before)) is not None:
            yield from self._prompts.completions(at)
            return
        if before.startswith("/") and not any(blank in before for blank in " \n"):
            for command in matching_commands(before[1:], self._own()):
                yield Completion(
                    f"/{command.name}",
                    start_position=-len(before),
                    display=f"/{command.name} {command.arguments}".rstrip(),
                    display_meta=command.short,
                )
            return
        found = {
            head.strip("/ "): dict(lookup.known())
            for head, lookup in self._lookups.items()
            if before.startswith(head)
        }
        abouts = dict(CHOICE_WORDS)
        for known in found.values():
            abouts |= known
        argument = argument_at(before, {**self._choices(), **found})
        for word in argument.words:
            about = clean_line(abouts.get(word, ""))
            yield Completion(word, start_position=-len(argument.typed), display_meta=about)
        typed = mention_at(before)
        if typed is not None:
            for path in rank_files(self._files.known(), typed):
                begin = -mention_length(before, typed)
                # the blank ends the name: what is typed next is no part of it
                yield Completion(f"{mention_of(path)} ", start_position=begin, display=path)
