"""Opens a person's memories for a command: whose they are, with edits of the files taken over."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from swarm.mailbox.parts.memories.memory_messages import MemorySettings
from swarm.roles.config.layers.features import resolve_features
from swarm.roles.parts.memories.memory_settings import check_memory_settings

from ....base.safe_text import clean_line
from ....clients.cli.run_setup.options import stack_options
from ....clients.cli.run_setup.run_settings import find_cwd, load_config_here
from ....runs.paths import find_user_paths
from ..consolidation import Consolidation
from ..memory_context import known_project
from ..memory_database import using_database
from ..memory_facts import GLOBAL
from ..memory_paths import MemoryPaths, find_project, find_top
from ..memory_store import MemoryStore

WAIT_S = 10.0


class OpenMemories(NamedTuple):
    store: MemoryStore
    paths: MemoryPaths
    files: Consolidation
    project: str
    settings: MemorySettings

    def rewrite(self) -> None:
        """Write the project's files as the database is now."""
        outputs = self.store.select(
            self.project,
            most=self.settings.most_raw,
            used_since=self.settings.unused_since(time.time()),
        )
        written = self.files.write_files(self.project, outputs)
        self.store.remember_written(self.project, written)


of_project = stack_options(  # the options that say whose memories are meant
    [
        click.option("-C", "--cd", "cd", metavar="DIR", help="The project; default: here."),
        click.option("--global", "is_global", is_flag=True, help="Memories of all projects."),
    ]
)


def settings_here() -> MemorySettings:
    loaded = load_config_here(lenient=True)
    for problem in loaded.problems:
        click.echo(f"swarm: warning: {clean_line(problem, limit=400)}", err=True)
    config = loaded.config
    switched = resolve_features(config.features, pins={}, warn_of_unstable=False)
    return check_memory_settings(table=config.memories, is_enabled=switched.is_enabled("memories"))


def _project_at(store: MemoryStore, folder: str) -> str:
    own, top = find_project(folder)
    return store.project_at(top) or own


@contextmanager
def open_memories(cd: str | None, *, is_global: bool) -> Iterator[OpenMemories]:
    """The person's memories, with edits of files taken over. Raises MemoriesBusy, SwarmError."""
    environment, settings = dict(os.environ), settings_here()
    places = find_user_paths(environment)
    paths = MemoryPaths(places)
    folder = str(find_cwd(cd))
    project = GLOBAL if is_global or settings.scope == "global" else ""
    project = project or known_project(paths.folder, folder)
    with paths.writing(wait_s=WAIT_S), using_database(paths.database) as base:
        store = MemoryStore(base)
        project = project or _project_at(store, folder)
        if project != GLOBAL and not store.paths_of(project):
            store.know_path(find_top(folder), project)  # so that it has a name in texts
        files = Consolidation(store, paths, summary_tokens=settings.summary_tokens)
        opened = OpenMemories(store, paths, files, project, settings)
        if files.absorb_edits(project, now=time.time()):
            opened.rewrite()
        yield opened
