"""Reading a login shell's environment: which shell to ask, what it prints, what is kept. Pure.

A login shell costs over 100 ms; so one is asked once a run and commands run in a plain `-c` of the
person's shell with what it said. Guards: start-up files add to the run's own environment and take
nothing away from it, so an activated venv, nvm or cargo folder is there for commands as well.
"""

import os
from collections.abc import Mapping
from pathlib import Path

PRINT_ENVIRONMENT = r"printf '\0=swarm environment follows=\0'; exec /usr/bin/env -0"
_MARKER = b"\0=swarm environment follows=\0"
_OF_THAT_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SWARM_COMMAND"})
_LOGIN_SHELLS = ("bash", "zsh", "sh", "dash", "ksh")


def find_shell(environment: Mapping[str, str]) -> str:
    """The person's shell if it is one that we know how to ask, else bash, else sh."""
    wanted = environment.get("SHELL", "")
    if wanted.startswith("/") and Path(wanted).name in _LOGIN_SHELLS and os.access(wanted, os.X_OK):
        return wanted
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def shell_name(shell: str) -> str:
    """How a model is told of it."""
    return Path(shell).name


def join_environments(own: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    """What commands get: the run's own variables as they are, and what only the login shell knows.

    `PATH` is both: the run's own folders first and in their order, then those that only the login
    shell names. What is no absolute folder is not added: it would mean another one for each
    command.
    """
    joined = {**login, **own}
    if (path := _join_paths(own.get("PATH", ""), login.get("PATH", ""))) or "PATH" in joined:
        joined["PATH"] = path
    return joined


def _join_paths(own: str, login: str) -> str:
    known = own.split(":") if own else []
    added = dict.fromkeys(folder for folder in login.split(":") if folder.startswith("/"))
    return ":".join((*known, *(folder for folder in added if folder not in known)))


def parse_snapshot(printed: bytes) -> dict[str, str]:
    """Variables after the marker; {} when it is missing. Values that are not UTF-8 are left out."""
    _, marker, listed = printed.partition(_MARKER)
    if not marker or not listed.endswith(b"\0"):
        return {}
    found: dict[str, str] = {}
    for line in listed.split(b"\0"):
        name, equals, value = line.partition(b"=")
        try:
            if equals and name:
                found[name.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    return {name: value for name, value in found.items() if name not in _OF_THAT_SHELL}
