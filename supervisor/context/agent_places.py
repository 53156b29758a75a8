"""Where the processes of a run's agents may write, and what none of their commands may see."""

from pathlib import Path
from typing import NamedTuple

from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.spec import FolderIdentity, GuardedPlaces
from swarm.mailbox.protocol.values.limits import WorkspaceWrite

from ..agents.agent_record import AgentPlan
from ..agents.private_tmp import remove_private_tmp, set_caches_aside
from ..runs.folder_identity import identify_folder
from ..runs.paths import make_private_folder
from ..runs.short_tmp import ShortTmp
from .run_context import RunContext


class AgentPlaces(NamedTuple):
    """Found before the run began; the same to its end."""

    short_tmp: ShortTmp = ShortTmp()
    writable: WritablePlaces = WritablePlaces()  # where agents may write

    def guarded(self, running: RunContext) -> GuardedPlaces:
        """What no command of this run may see, and what none may change."""
        return GuardedPlaces(
            hidden_paths=self.hidden_paths(running),
            hidden_folders=self.hidden_folders(running),
            run_places=self.writable,
            protected=running.protected,
        )

    def hidden_paths(self, running: RunContext) -> tuple[str, ...]:
        """Paths that no command of this run may see, and that nobody reads on an agent's behalf."""
        request, places = running.request, running.paths
        return (
            str(places.sockets.parent),  # holds the sockets of other runs, too
            str(places.folder.parent),
            str(places.ca_folder / "ca.key"),
            *map(str, self._short_folders),
            *map(str, places.kept_apart),
            *(path for provider in request.gateway.providers for path in provider.secret_files),
            *request.deny_read,
        )

    def hidden_folders(self, running: RunContext) -> tuple[FolderIdentity, ...]:
        """The hidden paths that must keep leading to the same folder.

        One that somebody removed while the run lives is made anew, empty, so that agents can start.
        """
        places = running.paths
        found = (
            places.sockets.parent,
            places.folder.parent,
            *places.kept_apart,
            *self._short_folders,
        )
        return tuple(identify_folder(make_private_folder(one)) for one in found)

    @property
    def _short_folders(self) -> tuple[Path, ...]:
        """The folder in which all runs have their short folders for temporary files."""
        folder = self.short_tmp.folder
        return () if folder is None else (folder.parent,)

    def remove_tmp(self, running: RunContext, plan: AgentPlan) -> tuple[Path, ...]:
        """Remove an agent's private tmp folder after its process has ended, unless it holds files.

        The agent's next process makes it again. Thousands of empty folders would take 4 KiB each.
        Returns the caches that were in it, for `remove_caches`.
        """
        short = self.short_tmp.of_agent(plan.agent_id)
        folders = (running.paths.tmp / plan.agent_id, *(() if short is None else (short,)))
        caches = tuple(filter(None, map(set_caches_aside, folders)))
        policy = plan.limits.sandbox
        roots = policy.writable_roots if isinstance(policy, WorkspaceWrite) else ()
        for folder in folders:
            remove_private_tmp(folder, (plan.cwd, *plan.add_dirs, *roots))
        return caches


def made_or_none(folder: Path | None) -> str:
    """The path of a private folder, which is made; "" for None. Raises SwarmError."""
    return "" if folder is None else str(make_private_folder(folder))
