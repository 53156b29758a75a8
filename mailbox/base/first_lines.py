"""Reads the `#!` line of a script: which programs the kernel, and `env`, start for it. Pure."""

import re
import shlex
from collections.abc import Sequence

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_ENV_FLAGS = frozenset({"-i", "-", "--ignore-environment", "-v", "--debug", "-0", "--null"})
_ENV_VALUED = frozenset({"-u", "--unset"})


def interpreter_words(line: bytes) -> tuple[str, ...]:
    """The programs that a first line names, `env` and what `env` starts; () if it names none.

    Raises ValueError if what `env` would start cannot be told.
    """
    if not line.startswith(b"#!"):
        return ()
    program, _, argument = line[2:].decode("utf-8", "surrogateescape").strip(" \t\r").partition(" ")
    program, tab, more = program.partition("\t")
    argument = (more + " " + argument if tab else argument).strip()
    if not program:
        return ()
    if program.rpartition("/")[2] != "env":
        return (program,)
    return (program, _env_program(_env_words(argument)))


def _env_words(argument: str) -> list[str]:
    """`env` gets all after its name as one argument; `-S` splits it."""
    for option in ("-S", "--split-string=", "-vS"):
        if argument.startswith(option):
            return shlex.split(argument.removeprefix(option))
    return [argument] if argument else []


def _env_program(words: Sequence[str]) -> str:
    at = 0
    while at < len(words):
        word = words[at]
        if word in _ENV_VALUED:
            at += 2
        elif word in _ENV_FLAGS or word.startswith("--unset=") or _ASSIGNMENT.match(word):
            at += 1
        elif word.startswith("-"):
            raise ValueError(f"`env` has the option {word}, which is not known here")
        elif word.rpartition("/")[2] == "env":
            return _env_program(words[at + 1 :])
        else:
            return word
    raise ValueError("`env` is given no program")
