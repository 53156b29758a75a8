"""Environment of the person's login shell: which shell to run, parsing its output, merging.

A login shell takes over 100 ms. So it is run once per run, and commands run in a plain `-c` of the
person's shell with the result. Start-up files only add to the run's own environment and remove
nothing, so commands also see an activated venv, nvm or cargo folder.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from swarm.mailbox.base.held_programs import Lookup, UnheldProgram, find_program, why_unheld

PRINT_ENVIRONMENT = r"printf '\0=swarm environment follows=\0'; exec /usr/bin/env -0"
MARKER = b"\0=swarm environment follows=\0"
_OF_THAT_SHELL = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "SWARM_COMMAND"})
_START_FILES = (
    ".profile", ".bash_profile", ".bash_login", ".bashrc", ".bash_logout", ".zshenv", ".zprofile",
    ".zshrc", ".zlogin", ".zlogout", ".kshrc",
)  # fmt: skip
_LOGIN_SHELLS = ("bash", "zsh", "sh", "dash", "ksh")


def find_shell(environment: Mapping[str, str]) -> str:
    """The person's shell if it is a supported one, else bash, else sh."""
    wanted = environment.get("SHELL", "")
    if wanted.startswith("/") and Path(wanted).name in _LOGIN_SHELLS and os.access(wanted, os.X_OK):
        return wanted
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def why_start_unheld(environment: Mapping[str, str], lookup: Lookup) -> str:
    """Why agents could exchange what a login shell reads at its start; "" if they cannot.

    Only its own files are looked at, not what these read.
    """
    found = find_program(find_shell(environment), lookup)
    if isinstance(found, UnheldProgram):
        return found.reason
    homes = {environment.get(name, "") for name in ("HOME", "ZDOTDIR")}
    files = (f"{home}/{name}" for home in homes if home.startswith("/") for name in _START_FILES)
    return next(filter(None, (why_unheld(path, lookup.places) for path in files)), "")


def shell_name(shell: str) -> str:
    """The shell's name, as a model reads it."""
    return Path(shell).name


def join_environments(own: Mapping[str, str], login: Mapping[str, str]) -> dict[str, str]:
    """The environment of commands: the run's own variables, plus those only the login shell has.

    `PATH` joins both: the run's own folders first, in their order, then those that only the login
    shell has. Relative folders of the login shell are not added: they would differ for each
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
    """The variables after the marker; {} if it is missing. Values not in UTF-8 are left out."""
    _, marker, listed = printed.partition(MARKER)
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
