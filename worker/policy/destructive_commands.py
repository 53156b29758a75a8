"""Finds commands that destroy work for good, and how to list what they would destroy. Pure.

A command found here needs an approval with a preview, and files are copied first. A command that is
not found does not count as harmless: the sandbox holds in any case.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from swarm.mailbox.protocol.values.base import Value

from .command_wrappers import PIPED_INPUT, indirect_commands, unwrap_layers
from .git_call import GitCall, read_git_call
from .script_commands import find_commands
from .shell_parser import Words, program_name
from .shell_words import ShellWord, ShellWords

DestructionKind = Literal["remove", "clean", "discard", "history", "push"]
_MOST = 16  # commands of one script that are examined
_ARGUMENT_RUNNERS = frozenset({"xargs", "parallel"})
_REMOVERS = frozenset({"rm", "shred", "unlink", "rmdir"})  # of more than the words show


class DestructiveCommand(Value):
    """One destructive command. Paths are relative to `folder`, which is relative to the cwd."""

    kind: DestructionKind
    shown: str  # the command, for display
    folder: str = ""
    paths: Words = ()  # literal ones
    patterns: Words = ()  # file patterns
    unknown: Words = ()  # words whose value is known only when the script runs
    dry_runs: tuple[Words, ...] = ()  # git commands that only read and list what would be lost
    losses_are_files: bool = True  # a copy of the files brings everything back


def find_destructive_commands(argv: Sequence[str]) -> tuple[DestructiveCommand, ...]:
    """What an argv, or any command of its script, would destroy; at most 16. Never raises."""
    found: list[DestructiveCommand] = []
    folder = ""
    for words in find_commands(argv):
        step = _change_of_folder(words)
        if step is not None:
            folder = _below(folder, step)
            continue
        destruction = _read(words, folder)
        if destruction is not None:
            found.append(destruction)
    if len(found) > _MOST:  # those beyond the limit must be shown too
        more = f"{len(found) - _MOST + 1} further commands that throw work away"
        found[_MOST - 1 :] = [DestructiveCommand(kind="remove", shown=more, unknown=(more,))]
    return tuple(found)


def _change_of_folder(words: ShellWords) -> str | None:
    if len(words) == 2 and words[0].text == "cd" and words[1].kind == "literal":
        return words[1].text
    return None


def _below(folder: str, step: str) -> str:
    return step if not folder or step.startswith("/") else f"{folder}/{step}"


def _read(words: ShellWords, folder: str) -> DestructiveCommand | None:
    name = program_name(words[0].text)
    if hidden := tuple(word.text for word in words if word.kind == "script"):
        return DestructiveCommand(kind="remove", shown=words[0].text, folder=folder, unknown=hidden)
    if name in _ARGUMENT_RUNNERS:
        return _of_argument_runner(words, folder)
    if name == "find":
        return _of_find(words, folder)
    if name in ("rm", "shred"):
        return _of_rm(words, folder)
    if name == "rsync":
        return _of_rsync(words, folder)
    call = read_git_call([word.text for word in words])
    if call is None:
        return None
    check = _GIT.get(call.verb)
    made = None if check is None else check(call)
    if made is None:
        return None
    place = _below(folder, call.folder) if call.folder else folder
    unknown = tuple(word.text for word in words if word.kind != "literal")
    return DestructiveCommand(
        kind=made.kind,
        shown=_shown(words),
        folder=place,
        paths=made.paths,
        unknown=unknown,
        dry_runs=made.dry_runs if not unknown and call.plain else (),
        losses_are_files=made.losses_are_files,
    )


def _shown(words: ShellWords) -> str:
    return " ".join(word.text for word in words)[:300]


def _of_rm(words: ShellWords, folder: str) -> DestructiveCommand | None:
    """`rm` with -r, -f or both, and an operand; a plain `rm FILE` is an ordinary change."""
    texts = [word.text for word in words[1:]]
    end = texts.index("--") if "--" in texts else len(texts)
    options = [text for text in texts[:end] if text.startswith("-")]
    deep = program_name(words[0].text) == "shred" or any(_is_sweeping(one) for one in options)
    if not deep or not _operands(words[1:]):
        return None
    return _removal(words, words[1:], folder)


def _is_sweeping(option: str) -> bool:
    if option.startswith("--"):
        return len(option) > 2 and any(
            name.startswith(option) for name in ("--recursive", "--force")
        )
    return bool({"r", "R", "f"} & set(option))


def _removal(words: ShellWords, rest: Sequence[ShellWord], folder: str) -> DestructiveCommand:
    operands = _operands(rest)
    return DestructiveCommand(
        kind="remove",
        shown=_shown(words),
        folder=folder,
        paths=tuple(word.text for word in operands if word.kind == "literal"),
        patterns=tuple(word.text for word in operands if word.kind == "pattern"),
        unknown=tuple(word.text for word in operands if word.kind == "unknown"),
    )


def _operands(words: Sequence[ShellWord]) -> list[ShellWord]:
    found: list[ShellWord] = []
    only_operands = False
    for word in words:
        if only_operands or not word.text.startswith("-") or word.text == "-":
            found.append(word)
        elif word.text == "--":
            only_operands = True
    return found


def _of_argument_runner(words: ShellWords, folder: str) -> DestructiveCommand | None:
    """`xargs rm`, `parallel git checkout --`: the input says what is destroyed."""
    for inner in indirect_commands(words):
        for one in unwrap_layers(inner):
            name = program_name(one[0].text) if one[0].kind == "literal" else ""
            if name in _REMOVERS or (
                name not in _ARGUMENT_RUNNERS and _read((*one, PIPED_INPUT), folder) is not None
            ):
                what = f"what {program_name(words[0].text)} is fed"
                return DestructiveCommand(
                    kind="remove", shown=_shown(words), folder=folder, unknown=(what,)
                )
    return None


def _of_find(words: ShellWords, folder: str) -> DestructiveCommand | None:
    texts = [word.text for word in words]
    removes = any(
        one[0].kind == "literal" and program_name(one[0].text) in _REMOVERS
        for inner in indirect_commands(words)
        for one in unwrap_layers(inner)
    )
    if "-delete" not in texts and not removes:
        return None
    roots: list[ShellWord] = []
    for word in words[1:]:
        if word.text.startswith(("-", "(", "!")):
            break
        roots.append(word)
    # The tests of find are not evaluated: everything below its roots may be removed.
    return _removal(words, roots or [ShellWord(".")], folder)


def _of_rsync(words: ShellWords, folder: str) -> DestructiveCommand | None:
    """rsync removes what is not in the source: possibly anything below the last operand."""
    if not any(word.text.startswith(("--del", "--remove-source-files")) for word in words[1:]):
        return None
    operands = _operands(words[1:])
    sources = any(word.text.startswith("--remove-source-files") for word in words[1:])
    return _removal(words, operands if sources else operands[-1:], folder)


class _Made(Value):
    kind: DestructionKind
    paths: Words = ()
    dry_runs: tuple[Words, ...] = ()
    losses_are_files: bool = True


def _clean(call: GitCall) -> _Made | None:
    if call.has("-n", "--dry-run"):
        return None
    letters = [word for word in call.options if word not in ("--force", "--quiet", "--interactive")]
    kept = [word if word.startswith("--") else _without(word, "fqi") for word in letters]
    words = ["clean", "-n", *(word for word in kept if word not in ("", "-"))]
    if call.operands:
        words += ["--", *call.operands]
    return _Made(kind="clean", dry_runs=(tuple(words),))


def _without(cluster: str, letters: str) -> str:
    return "".join(letter for letter in cluster if letter not in letters)


_CHANGED: Words = ("diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv", "HEAD")


def _reset(call: GitCall) -> _Made | None:
    if not call.has("--hard", "--merge", "--keep"):
        return None
    runs: list[Words] = [_CHANGED]
    if call.operands and call.operands[0] not in ("HEAD", "@"):
        runs.append(("log", "--oneline", "-z", "-n", "50", f"{call.operands[0]}..HEAD"))
    return _Made(kind="discard", dry_runs=tuple(runs))


def _checkout(call: GitCall) -> _Made | None:
    """`checkout [REF] [--] PATHS`, `checkout -f`."""
    if call.has("-b", "-B", "--orphan"):
        return None
    if call.has("-f", "--force"):
        return _Made(kind="discard", dry_runs=(_CHANGED,))
    # Without `--` a word may be a branch or a path; for a word that is not a path git lists
    # nothing.
    after = call.arguments.index("--") + 1 if "--" in call.arguments else 0
    paths = call.arguments[after:] if after else call.operands
    if not paths:
        return None
    return _Made(kind="discard", dry_runs=((*_CHANGED, "--", *paths),))


def _restore(call: GitCall) -> _Made | None:
    if call.has("--staged") and not call.has("--worktree"):
        return None
    return _Made(kind="discard", dry_runs=((*_CHANGED, "--", *call.operands),))


def _rm(call: GitCall) -> _Made | None:
    """Without `-f` git keeps what is not recorded; with it, changes are lost with the files."""
    if not call.has("-f", "--force") or call.has("--cached", "-n", "--dry-run"):
        return None
    listed = ("ls-files", "--full-name", "-z", "--", *call.operands)
    return _Made(kind="discard", dry_runs=(listed,))


def _overwrite(option: str) -> Callable[[GitCall], _Made | None]:
    def check(call: GitCall) -> _Made | None:
        if not call.has(option):
            return None
        return _Made(kind="discard", dry_runs=(_CHANGED,))

    return check


def _switch(call: GitCall) -> _Made | None:
    if not call.has("--discard-changes", "--force", "-f"):
        return None
    return _Made(kind="discard", dry_runs=(_CHANGED,))


def _push(call: GitCall) -> _Made | None:
    forced = call.has("--force", "-f", "--force-with-lease", "--mirror", "--delete", "--prune")
    refs = call.operands[1:]
    if not forced and not any(ref.startswith(("+", ":")) for ref in refs):
        return None
    upstream = ("log", "--oneline", "-z", "-n", "50", "HEAD..@{upstream}")
    return _Made(kind="push", dry_runs=(upstream,), losses_are_files=False)


def _history(*options: str) -> Callable[[GitCall], _Made | None]:
    """A verb that rewrites history: always, or with one of these options or first words."""

    def check(call: GitCall) -> _Made | None:
        given = call.has(*(one for one in options if one.startswith("-")))
        if options and not given and not set(call.operands[:1]) & set(options):
            return None
        return _Made(kind="history", losses_are_files=False)

    return check


_GIT: dict[str, Callable[[GitCall], _Made | None]] = {
    "clean": _clean,
    "reset": _reset,
    "checkout": _checkout,
    "restore": _restore,
    "switch": _switch,
    "rm": _rm,
    "checkout-index": _overwrite("-f"),
    "read-tree": _overwrite("--reset"),
    "push": _push,
    "rebase": _history(),
    "filter-branch": _history(),
    "filter-repo": _history(),
    "commit": _history("--amend"),
    "branch": _history("-D", "-M", "-f", "--force"),
    "tag": _history("-d", "--delete", "-f", "--force"),
    "reflog": _history("expire", "delete"),
    "stash": _history("drop", "clear"),
    "gc": _history("--prune"),
    "prune": _history(),
    "update-ref": _history(),
    "replace": _history(),
    "worktree": _history("remove", "prune"),
}
