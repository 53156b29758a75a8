"""The commands and folders of the parts; the list of them. Data alone: `swarm --help` reads it."""

from typing import NamedTuple


class LazyCommand(NamedTuple):
    """Where a command is defined. `short` must be the first sentence of its own help (tested)."""

    module: str  # in the folder `cli/commands`; of a part, in its own folder below `supervisor`
    short: str
    attribute: str = ""  # "": the command's name, with _ for -


class RunOption(NamedTuple):
    """An option of `swarm run`, with the field of `PartOptions` that it fills."""

    name: str
    value: str  # what it takes, in words
    help: str
    is_number: bool = False
    repeats: bool = False


PART_OPTIONS = (
    RunOption("--goal", "TEXT", "The run goes on until its check passes; what it is, in words."),
    RunOption("--verify", "COMMAND", "A command of that check; repeatable.", repeats=True),
    RunOption("--goal-rounds", "N", "How often the check may fail (default: 10).", is_number=True),
    RunOption("--judge", "ROLE", "An agent of this role, which only reads, judges the goal."),
    RunOption("--protect", "PATH", "What no agent may change; repeatable.", repeats=True),
)
PART_COMMANDS: dict[str, LazyCommand] = {
    "login": LazyCommand(
        "parts.accounts.commands.login_command",
        "Store the key of a provider, or sign in to an account; later runs use it.",
    ),
    "logout": LazyCommand(
        "parts.accounts.commands.login_command",
        "Forget a stored key or login, and have it revoked.",
    ),
    "goal": LazyCommand(
        "parts.goals.commands.goal_command",
        "Show, set, pause or clear the goal of a run.",
    ),
    "top": LazyCommand(
        "clients.top.top_command",
        "All your live runs on one screen, grouped by what they need.",
    ),
    "leases": LazyCommand(
        "parts.leases.commands.leases_command",
        "Show the heavy commands of all runs: which run, which wait for their turn, and why.",
    ),
    "hosts": LazyCommand(
        "parts.machines.commands.hosts_commands",
        "List and try other machines on which agents may work.",
    ),
    "wakeups": LazyCommand(
        "parts.wakeups.commands.wakeup_commands",
        "Show what the agents of a live run wait for without a process, and take it back.",
    ),
    "memory": LazyCommand(
        "parts.memories.commands.memory_commands",
        "List, search, change and forget what runs learned in this project.",
    ),
}
PART_GROUPS: dict[str, tuple[str, ...]] = {  # of the short help
    "watch": ("top", "leases", "goal", "wakeups"),
    "configure": ("login", "logout", "memory", "hosts"),
}
# How a run may end by the word of a part, and what its command then exits with.
PART_EXIT_CODES = {"unmet": 7}
# What a person is told to type after such an end.
PART_NEXT = {"unmet": ("swarm goal {run}", "swarm resume {run} -p TEXT")}
# Options of `swarm log` that print the records of one part alone.
LOG_OPTIONS = {
    "findings": "Only what agents published for each other.",
    "wakeups": "Only wake-ups: made, fired, over.",
    "goal": "Only what became of the run's goal.",
    "notices": "Only what a person elsewhere was told.",
}
# In the folder of state: no command of an agent ever sees them.
HIDDEN_FOLDERS = ("memories", "accounts")
