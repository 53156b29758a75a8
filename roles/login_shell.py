"""Reading a login shell's environment: which shell to ask, what it prints, what is kept. Pure.

A login shell costs over 100 ms; so one is asked once a run and commands run in a plain `bash -c`
with what it said.
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
