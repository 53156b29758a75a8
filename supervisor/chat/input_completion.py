"""Completion in the input line: `/` commands at its beginning, `@` files anywhere.

The files are git's (tracked, and untracked ones that no rule ignores); outside of git none.
They are listed in a thread, at most once in a while, so no key waits for them.
"""

import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from .file_mentions import is_mentionable, mention_at, rank_files
from .slash_commands import argument_at, matching_commands

_MOST_FILES, _MOST_BYTES = 50_000, 8 << 20
_LIST_LIMIT_S, _FRESH_S = 5.0, 10.0


class ProjectFiles:
    """The names of the project's files, as git knows them."""

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._files: tuple[str, ...] = ()
        self._listed_at = -_FRESH_S
        self._lock = threading.Lock()

    def names(self) -> tuple[str, ...]:
        """The names known so far; a new look begins if the last one is old."""
        if time.monotonic() - self._listed_at > _FRESH_S and self._lock.acquire(blocking=False):
            self._listed_at = time.monotonic()
            threading.Thread(target=self._look, daemon=True).start()
        return self._files

    def _look(self) -> None:
        try:
            self._files = list_git_files(self._cwd)
        finally:
            self._lock.release()


def list_git_files(cwd: Path) -> tuple[str, ...]:
    """The files below `cwd`, relative to it, sorted; () without git or a repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    # A repository's own settings must not start programs: the file monitor is one.
    command[1:1] = ["-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=_LIST_LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ()
    if done.returncode:
        return ()
    names = done.stdout[:_MOST_BYTES].decode("utf-8", "surrogateescape").split("\x00")
    return tuple(sorted({name for name in names[:_MOST_FILES] if is_mentionable(name)}))


class ChatCompleter(Completer):
    """Completes commands, their arguments, and files.

    `choices`: words that may follow a command and are known only at the moment, by its name.
    """

    def __init__(self, cwd: Path, *, choices: Callable[[], Mapping[str, tuple[str, ...]]]) -> None:
        self._files = ProjectFiles(cwd)
        self._choices = choices

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and not any(blank in before for blank in " \n"):
            for command in matching_commands(before[1:]):
                yield Completion(
                    f"/{command.name}",
                    start_position=-len(before),
                    display=f"/{command.name} {command.arguments}".rstrip(),
                    display_meta=command.short,
                )
            return
        argument = argument_at(before, self._choices())
        for word in argument.words:
            yield Completion(word, start_position=-len(argument.typed))
        typed = mention_at(before)
        if typed is not None:
            for path in rank_files(self._files.names(), typed):
                yield Completion(f"@{path}", start_position=-len(typed) - 1, display=path)
