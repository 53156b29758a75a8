"""The commands and folders of the parts; the list of them. Data alone: `swarm --help` reads it."""

from typing import NamedTuple


class LazyCommand(NamedTuple):
    """Where a command is defined. `short` must be the first sentence of its own help (tested)."""

    module: str  # in the folder `cli/commands`; of a part, in its own folder below `supervisor`
    short: str
    attribute: str = ""  # "": the command's name, with _ for -


PART_COMMANDS: dict[str, LazyCommand] = {
    "login": LazyCommand(
        "parts.accounts.commands.login_command",
        "Store the key of a provider, or sign in to an account; later runs use it.",
    ),
    "logout": LazyCommand(
        "parts.accounts.commands.login_command",
        "Forget a stored key or login, and have it revoked.",
    ),
    "leases": LazyCommand(
        "parts.leases.commands.leases_command",
        "Show the heavy commands of all runs: which run, which wait for their turn, and why.",
    ),
    "hosts": LazyCommand(
        "parts.machines.commands.hosts_commands",
        "List and try other machines on which agents may work.",
    ),
    "memory": LazyCommand(
        "parts.memories.commands.memory_commands",
        "List, search, change and forget what runs learned in this project.",
    ),
}
PART_GROUPS: dict[str, tuple[str, ...]] = {  # of the short help
    "watch": ("leases",),
    "configure": ("login", "logout", "memory", "hosts"),
}
# How a run may end by the word of a part, and what its command then exits with.
PART_EXIT_CODES = {"unmet": 7}
# Options of `swarm log` that print the records of one part alone.
LOG_OPTIONS = {"findings": "Only what agents published for each other."}
# In the folder of state: no command of an agent ever sees them.
HIDDEN_FOLDERS = ("memories", "accounts")
