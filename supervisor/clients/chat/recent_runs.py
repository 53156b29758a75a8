"""The newest runs of this folder's project, as `/resume` offers them."""

import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from swarm.mailbox.base.ids import short_id

from ...base.number_format import render_age
from ...runs.paths import find_user_paths
from ...runs.project_runs import project_of, runs_of_project
from ...runs.run_metadata import is_run_alive

_MOST = 20


def list_recent_runs(environment: Mapping[str, str], cwd: Path) -> tuple[tuple[str, str], ...]:
    """Short ids and what each run is about; at most 20, newest first. Reads their `run.json`."""
    found = runs_of_project(find_user_paths(dict(environment)), project_of(cwd))
    return tuple(
        (
            short_id(about.run_id),
            f"{render_age(time.time() - about.started)}"
            f"{', at work' if is_run_alive(here) else ''}: {about.title}",
        )
        for here, about in islice(found, _MOST)
    )
