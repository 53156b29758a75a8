"""Where the agents of one run may write, and what the run closes to all of them."""

import os
from collections.abc import Iterable, Mapping

import msgspec

from swarm.mailbox.base.held_programs import Lookup, find_writable_places
from swarm.mailbox.base.installation import (
    InstallationExposure,
    find_exposure,
    installation_paths,
)
from swarm.mailbox.base.writable_places import WritablePlaces, writable_roots
from swarm.mailbox.protocol.spec import ProviderSpec
from swarm.mailbox.protocol.values.limits import SandboxPolicy, WorkspaceWrite

from .run_request import RunRequest


def exposure_of(policy: SandboxPolicy, cwd: str, add_dirs: Iterable[str]) -> InstallationExposure:
    """How this installation lies to the folders of a run."""
    roots = (*writable_roots(policy, cwd), cwd, *add_dirs)
    return find_exposure(policy, map(os.path.realpath, roots), installation_paths())


def protected_paths(request: RunRequest) -> tuple[str, ...]:
    """Canonical paths that no command of the run may change, wherever it may write."""
    return exposure_of(request.sandbox, request.cwd, request.add_dirs).closed


def writable_places(request: RunRequest) -> WritablePlaces:
    """Where agents may write, or may have written in an earlier run.

    The project counts in a read-only run too: its mode can change while it lives.
    """
    return find_writable_places(
        request.sandbox,
        request.cwd,
        extra=(request.cwd, *request.add_dirs),
        shut=protected_paths(request),
    )


def program_lookup(request: RunRequest, *, cwd: str = "") -> Lookup:
    """Where programs of this run's person are looked for."""
    path = request.environment.get("PATH", "")
    return Lookup(path=path, cwd=cwd or request.cwd, places=writable_places(request))


def with_places(providers: Iterable[ProviderSpec], lookup: Lookup) -> tuple[ProviderSpec, ...]:
    """The providers; what gets their keys is told where agents may write."""
    return tuple(_with_place(one, lookup) for one in providers)


def _with_place(provider: ProviderSpec, lookup: Lookup) -> ProviderSpec:
    told = msgspec.structs.replace
    command, credentials = provider.key_command, provider.credentials
    if command is not None:
        command = told(command, path=lookup.path, places=lookup.places)
    if credentials is not None:
        credentials = told(credentials, path=lookup.path, places=lookup.places)
    return told(provider, key_command=command, credentials=credentials)


def project_lookup(environment: Mapping[str, str], *folders: str) -> Lookup:
    """The same where there is no run: agents write in these folders, of which the first is where
    relative names begin.
    """
    policy = WorkspaceWrite(writable_roots=folders)
    shut = exposure_of(policy, folders[0], ()).closed
    places = find_writable_places(policy, folders[0], shut=shut)
    return Lookup(path=environment.get("PATH", ""), cwd=folders[0], places=places)
