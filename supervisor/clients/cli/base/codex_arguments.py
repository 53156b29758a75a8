"""The command line of `codex exec`, as far as it is not click's: unknown options, words, stdin.

Source: Codex `exec/src/cli.rs` and `exec/src/lib.rs`. Newer versions of its SDKs may give options
that are not known here: they are left out, and named in a warning. Pure.
"""

from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

from swarm.mailbox.base.errors import UsageError

_SUBCOMMANDS = ("resume", "fork", "review")


class KnownArguments(NamedTuple):
    """The arguments that are known, in order, and the unknown options as they were given."""

    arguments: list[str]
    unknown: list[str]


def split_unknown(
    arguments: Sequence[str], *, flags: Collection[str], valued: Collection[str]
) -> KnownArguments:
    """Take unknown options out, each with the word behind it: it is most likely its value.

    Args:
        arguments: What was typed.
        flags: Known options without a value.
        valued: Known options whose value is the next word, unless it is given as `--x=value`.
    """
    known: list[str] = []
    unknown: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            known += [word, *words]
            break
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if len(word) < 2 or not word.startswith("-") or name in flags:
            known.append(word)
        elif name in valued:
            known.append(word)
            if word == name and words:
                known.append(words.pop(0))
        else:
            has_value = "=" not in word and words and not words[0].startswith("-")
            value = [words.pop(0)] if has_value and words[0] not in _SUBCOMMANDS else []
            unknown.append(" ".join([word, *value]))
    return KnownArguments(known, unknown)


class ExecWords(NamedTuple):
    """What the words behind the options mean."""

    resumes: bool
    session: str | None  # None with `--last`
    prompt: str | None


def parse_words(words: Sequence[str], *, last: bool) -> ExecWords:
    """`[PROMPT]` or `resume [SESSION_ID] [PROMPT]`. Raises UsageError."""
    if not words or words[0] not in _SUBCOMMANDS:
        if len(words) > 1:
            raise UsageError(f"one prompt at most, in quotes; {words[1]!r} is a second word")
        return ExecWords(resumes=False, session=None, prompt=words[0] if words else None)
    if words[0] != "resume":
        raise UsageError(f"`swarm exec {words[0]}` is `swarm {words[0]}` here")
    rest = list(words[1:])
    session = None if last or not rest else rest.pop(0)
    if len(rest) > 1:
        raise UsageError(f"one prompt at most, in quotes; {rest[1]!r} is a second word")
    if session is None and not last:
        raise UsageError("say which session to resume: its id, or --last")
    return ExecWords(resumes=True, session=session, prompt=rest[0] if rest else None)


def stdin_use(
    prompt: str | None, *, is_terminal: bool, resumes: bool
) -> Literal["prompt", "appended", "unused", "missing"]:
    """What stdin is for: the prompt, text behind it, nothing; or there is no prompt anywhere."""
    if prompt == "-":
        return "prompt"
    if prompt is None:
        return "missing" if is_terminal else "prompt"
    return "unused" if is_terminal or resumes else "appended"


def append_stdin(prompt: str, text: str) -> str:
    """The prompt with the text of stdin behind it."""
    if not text.strip():
        return prompt
    return f"{prompt}\n\n<stdin>\n{text}{'' if text.endswith(chr(10)) else chr(10)}</stdin>"
