"""What a run came to, with links to its files as the configuration wants them."""

import msgspec

from swarm.mailbox.base.errors import SwarmError

from ....runs.paths import RunPaths
from ...console.file_links import FileOpener
from ...console.run_summary import RunOutcome
from ..base.outcome_facts import find_outcome
from ..run_setup.run_settings import load_config_here


def find_opener() -> FileOpener:
    """`file_opener` of the configuration here; `none` where it cannot be read."""
    try:
        return load_config_here(lenient=True).config.file_opener
    except (SwarmError, OSError):
        return "none"


def find_shown_outcome(here: RunPaths) -> RunOutcome:
    """As `find_outcome`, for a person to look at. Never raises."""
    return msgspec.structs.replace(find_outcome(here), opener=find_opener())
