"""The commands of the parts; the list of them. Data alone: `swarm --help` reads nothing else."""

from typing import NamedTuple


class LazyCommand(NamedTuple):
    """Where a command is defined. `short` must be the first sentence of its own help (tested)."""

    module: str  # in the folder `cli/commands`; of a part, in its own folder below `supervisor`
    short: str
    attribute: str = ""  # "": the command's name, with _ for -


PART_COMMANDS: dict[str, LazyCommand] = {
    "leases": LazyCommand(
        "parts.leases.leases_command",
        "Show the heavy commands of all runs: which run, which wait for their turn, and why.",
    ),
}
PART_GROUPS: dict[str, tuple[str, ...]] = {"watch": ("leases",)}  # of the short help
