"""Loads the file layers of the configuration: system, user, profile, and trusted projects.

All code that needs the configuration reads it here, so that trust is decided in one place. A person
is asked only if the command passes `ask`; otherwise untrusted configuration is left out and
reported.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from swarm.mailbox.base.path_rules import is_within, may_write
from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import (
    DangerFullAccess,
    ProfilePolicy,
    ReadOnly,
    SandboxPolicy,
    WorkspaceWrite,
)
from swarm.roles.config.layers.config_loader import read_layers
from swarm.roles.config.layers.merge import Layer, merge_layers
from swarm.roles.config.layers.project_config import ProjectFolder, project_layers
from swarm.roles.config.layers.requirements import Requirements
from swarm.roles.config.layers.trust import (
    TrustStore,
    forbidden_by_config,
    read_trust,
    save_trust_decision,
)
from swarm.roles.config.schema import Toml
from swarm.roles.parts.plugins.plugin_store import PluginStore

from ....base.safe_text import clean_line
from ....runs.paths import find_user_paths
from .plugin_layers import (
    FoundPlugins,
    find_plugins,
    named_plugins,
    plugin_layers,
    with_description,
)
from .run_requirements import find_requirements

AskTrust = Callable[[Sequence[ProjectFolder]], bool | None]  # None: no answer, so nothing is saved


class ConfigQuery(Value):
    """Which configuration to read."""

    cwd: Path
    profile: str | None = None
    flags: Toml = {}  # `-c`: it may set the markers of the project's root
    trust_once: bool = False  # what nobody decided about counts, and nothing is remembered


def find_layers(
    environment: Mapping[str, str], wanted: ConfigQuery, *, ask: AskTrust | None = None
) -> tuple[Layer, ...]:
    """The file layers, lowest first.

    Args:
        environment: Determines the folders.
        wanted: The working folder and the profile.
        ask: Asks a person whether to trust the project.

    Raises:
        UsageError: No such profile.
        TrustNotSaved: The person said yes, but that could not be saved.
    """
    places = find_user_paths(dict(environment))
    low = read_layers(
        config_folder=places.config, profile=wanted.profile, system_folders=places.system
    )
    below = merge_layers([*low, Layer(name="-c", values=wanted.flags)]).values
    required = _has_plugins(environment, places.config)
    decide = _TrustCheck(places.config, below, ask, required, once=wanted.trust_once)
    projects = project_layers(wanted.cwd, below, config_folder=places.config, decide=decide)
    return (*decide.plugin_layers(projects), *low, *projects)


def _has_plugins(environment: Mapping[str, str], config_folder: Path) -> Requirements | None:
    """The requirements, if there may be a plugin; None: there is none."""
    exists = PluginStore(config_folder).folder.is_dir()
    return find_requirements(environment) if exists else None


class _TrustCheck:
    """Decides whether each project folder counts, by the trust store or by asking."""

    def __init__(
        self,
        config_folder: Path,
        below: Toml,
        ask: AskTrust | None,
        required: Requirements | None,
        *,
        once: bool,
    ) -> None:
        """`required`: the administrator's requirements; None: there are no plugins."""
        self._folder, self._below, self._ask, self._once = config_folder, below, ask, once
        self._required, self._found = required, FoundPlugins()
        self._was_called = False

    def plugin_layers(self, projects: Sequence[Layer]) -> tuple[Layer, ...]:
        """The layers of the plugins that count, after all decisions."""
        if not self._was_called:
            self(())
        if self._found == FoundPlugins():
            return ()
        return plugin_layers(self._found, read_trust(self._folder), self._below, projects)

    def __call__(self, folders: Sequence[ProjectFolder]) -> Sequence[str]:
        """One question for all folders, and for the plugins that may count here."""
        self._was_called = True
        if self._required is not None:
            named = named_plugins(folders)
            self._found = find_plugins(self._folder, self._below, self._required, also=named)
        store = read_trust(self._folder)
        every = (*(one.folder for one in self._found.plugins), *folders)
        new = [one for one in every if not self._ignored_reason(one, store)[1]]
        if new and self._ask is not None and not self._once and not store.problem:
            answer = self._ask([with_description(one, self._found) for one in new])
            if answer is not None:
                save_trust_decision(self._folder, new, trusted=answer)
                store = read_trust(self._folder)
        return [self._ignored_reason(one, store)[0] for one in folders]

    def _ignored_reason(self, one: ProjectFolder, store: TrustStore) -> tuple[str, bool]:
        """(why it does not count or "", whether the decision is final)."""
        if one.problem:
            return f"this project's configuration is ignored: {one.problem}", True
        if forbidden_by_config(one, self._below):
            return (
                "this project's configuration is ignored: your configuration marks the project "
                "as untrusted",
                True,
            )
        match store.trust_state(one):
            case "trusted":
                return "", True
            case "declined" | "unknown" if self._once:
                return "", True
            case "declined":
                return f"this project's configuration is ignored, as you said; {_HINT}", True
            case "unknown":
                return f"this project's configuration is {_unknown(one, store)}; {_HINT}", False


def _unknown(one: ProjectFolder, store: TrustStore) -> str:
    """Why content that nobody decided about does not count; it names what changed."""
    if store.problem:
        return f"not trusted and ignored ({store.problem})"
    if changes := store.changes(one):
        return f"not trusted any more and ignored, since it changed ({clean_line(str(changes))})"
    return "not trusted and ignored"


def writable_config_warning(config_folder: str, sandbox: SandboxPolicy, cwd: str) -> str | None:
    """A warning if the sandbox lets agents write the person's own configuration; else None.

    Whoever can change that configuration controls later runs, including what they trust.
    """
    own = os.path.realpath(config_folder)
    match sandbox:
        case ReadOnly():
            return None
        case DangerFullAccess():
            return (
                "there is no sandbox, so agents may write everything, also your own configuration "
                f"({own}) and every program that you or swarm start later; a sandbox keeps them "
                "from it"
            )
        case ProfilePolicy(rules=rules):
            within = any(rule.access == "write" and is_within(rule.path, own) for rule in rules)
            if not within and not may_write(sandbox, own):
                return None
            advice = "take the right to write there out of the permission profile"
        case WorkspaceWrite(writable_roots=roots):
            if not any(is_within(own, os.path.realpath(root)) for root in (cwd, *roots)):
                return None
            advice = "let them work in a folder that does not hold it"
    return (
        f"agents may write {own}, your own configuration, and so change what later runs may do; "
        f"{advice}"
    )


_HINT = "`swarm trust` shows it and asks"
