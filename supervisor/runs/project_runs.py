"""The runs of one project, newest first.

A run belongs to the project in whose folders it works: the nearest folder above with a `.git`, or
its own folder.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from swarm.mailbox.base.errors import UsageError
from swarm.roles.base.guidance import find_project_root

from .paths import RunPaths, UserPaths, paths_of_run
from .run_metadata import RunMetadata, read_metadata

_MARKERS = (".git",)


def project_of(folder: Path) -> Path:
    """The root of the project that this folder belongs to."""
    return find_project_root(Path(os.path.realpath(folder)), _MARKERS)


def runs_of_project(
    places: UserPaths, project: Path | None
) -> Iterator[tuple[RunPaths, RunMetadata]]:
    """The runs of this project (None: of all), newest first; without those that are unreadable."""
    names = sorted((entry.name for entry in places.runs.iterdir()), reverse=True) \
        if places.runs.is_dir() else []  # fmt: skip
    for name in names:
        here = paths_of_run(places, name)
        try:
            about = read_metadata(here)
        except UsageError:
            continue
        if project is None or project_of(Path(about.cwd)) == project:
            yield here, about
