"""The layers below a run's own: system, user, profile, and the project's where it is trusted.

Rule: whoever needs the configuration reads it here, so that trust is judged in one place. Nobody is
asked but by a door that says so; elsewhere what is not trusted is left out, and that is said.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swarm.mailbox.protocol.base import Value
from swarm.mailbox.protocol.limits import DangerFullAccess, ReadOnly, SandboxPolicy, WorkspaceWrite
from swarm.roles.config.config_loader import read_layers
from swarm.roles.config.merge import Layer, merge_layers
from swarm.roles.config.project_config import ProjectFolder, project_layers
from swarm.roles.config.schema import Toml
from swarm.roles.config.trust import (
    TrustStore,
    forbidden_by_config,
    read_trust,
    save_trust_decision,
)

from ...runs.paths import find_user_paths

AskTrust = Callable[
    [Sequence[ProjectFolder]], bool | None
]  # None: no answer, so nothing is remembered


class ConfigQuery(Value):
    """Which configuration is meant."""

    cwd: Path
    profile: str | None = None
    flags: Toml = {}  # `-c`: they may name the project's root


def find_layers(
    environment: Mapping[str, str], wanted: ConfigQuery, *, ask: AskTrust | None = None
) -> tuple[Layer, ...]:
    """The file layers, lowest first.

    Args:
        environment: Names the folders.
        wanted: Where, and with which profile.
        ask: Puts the question of trust to a person.

    Raises:
        UsageError: No such profile.
        TrustNotSaved: The person said yes, but that cannot be noted.
    """
    places = find_user_paths(dict(environment))
    low = read_layers(
        config_folder=places.config, profile=wanted.profile, system_folders=places.system
    )
    below = merge_layers([*low, Layer(name="-c", values=wanted.flags)]).values
    judge = _TrustCheck(places.config, below, ask)
    return (
        *low,
        *project_layers(wanted.cwd, below, config_folder=places.config, judge=judge),
    )


class _TrustCheck:
    """Whether each project folder counts: by the book, and by the person where one is there."""

    def __init__(self, config_folder: Path, below: Toml, ask: AskTrust | None) -> None:
        self._folder, self._below, self._ask = config_folder, below, ask

    def __call__(self, folders: Sequence[ProjectFolder]) -> Sequence[str]:
        book = read_trust(self._folder)
        new = [one for one in folders if not self._ignored_reason(one, book)[1]]
        if new and self._ask is not None and not book.problem:
            answer = self._ask(new)
            if answer is not None:
                save_trust_decision(self._folder, new, trusted=answer)
                book = read_trust(self._folder)
        return [self._ignored_reason(one, book)[0] for one in folders]

    def _ignored_reason(self, one: ProjectFolder, book: TrustStore) -> tuple[str, bool]:
        """(why it does not count or "", whether that is settled)."""
        if one.problem:
            return f"this project's configuration is ignored: {one.problem}", True
        if forbidden_by_config(one, self._below):
            return (
                "this project's configuration is ignored: your configuration marks the project "
                "as untrusted",
                True,
            )
        match book.trust_state(one):
            case "trusted":
                return "", True
            case "declined":
                return f"this project's configuration is ignored, as you said; {_HINT}", True
            case "unknown":
                why = f" ({book.problem})" if book.problem else ""
                return (
                    f"this project's configuration is not trusted and ignored{why}; {_HINT}",
                    False,
                )


def writable_config_warning(config_folder: str, sandbox: SandboxPolicy, cwd: str) -> str | None:
    """What to tell where agents may write the person's own configuration; None where they cannot.

    Whoever changes it decides what later runs may do, also whom they trust.
    """
    if isinstance(sandbox, ReadOnly):
        return None
    own = Path(os.path.realpath(config_folder))
    roots = sandbox.writable_roots if isinstance(sandbox, WorkspaceWrite) else ()
    if isinstance(sandbox, DangerFullAccess) or not any(
        own.is_relative_to(os.path.realpath(root)) for root in (cwd, *roots)
    ):
        return None
    return (
        f"agents may write {own}, your own configuration, and so change what later runs may do; "
        "let them work in a folder that does not hold it"
    )


_HINT = "`swarm trust` shows it and asks"
