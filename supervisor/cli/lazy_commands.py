"""The list of commands, and a click group that imports only the chosen command.

`swarm --help` and `--version` import click and this list, nothing more.
"""

import difflib
import importlib
from typing import Any, NamedTuple

import click

from swarm.mailbox.errors import UsageError


class LazyCommand(NamedTuple):
    """Where a command is defined. `short` must be the first sentence of its own help (tested)."""

    target: str  # module below this package : attribute
    short: str


LAZY_COMMANDS: dict[str, LazyCommand] = {
    "run": LazyCommand("commands.run_command:run", "Run a task with a tree of agents."),
    "resume": LazyCommand(
        "commands.resume_command:resume", "Go on with a run after a crash, a stop or its end."
    ),
    "review": LazyCommand(
        "commands.review_command:review",
        "Review changes: findings with file, lines, priority and confidence.",
    ),
    "fork": LazyCommand(
        "commands.fork_command:fork", "Branch a new run off from a turn of another one."
    ),
    "ps": LazyCommand(
        "commands.run_list_commands:ps",
        "List runs: id, state, agents, tokens, cost, age, size and task.",
    ),
    "watch": LazyCommand(
        "commands.watch_command:watch", "Watch a run: the live tree of its agents."
    ),
    "show": LazyCommand(
        "commands.journal_commands:show", "Show a run's tree, or one agent's transcript."
    ),
    "log": LazyCommand("commands.journal_commands:log", "Print every record of a run in order."),
    "result": LazyCommand(
        "commands.journal_commands:result",
        "Print the final answer of a run, an agent or all items.",
    ),
    "send": LazyCommand("commands.steer_commands:send", "Say something to an agent of a live run."),
    "approvals": LazyCommand(
        "commands.approval_commands:approvals",
        "List what waits for an approval, and what a reviewer denied lately.",
    ),
    "approve": LazyCommand(
        "commands.approval_commands:approve", "Approve what an agent of a live run waits for."
    ),
    "deny": LazyCommand(
        "commands.approval_commands:deny", "Deny what an agent of a live run waits for."
    ),
    "interrupt": LazyCommand(
        "commands.steer_commands:interrupt", "Stop the running turn of one agent, or of all."
    ),
    "compact": LazyCommand(
        "commands.compact_command:compact", "Make the history of an agent of a live run shorter."
    ),
    "undo": LazyCommand(
        "commands.undo_commands:undo", "Put files back as they were before an agent's turns."
    ),
    "diff": LazyCommand(
        "commands.undo_commands:diff", "Show what a run's agents changed in files."
    ),
    "set": LazyCommand(
        "commands.agent_settings_commands:set_agent_settings",
        "Change how an agent of a live run works, from its next turn on.",
    ),
    "pause": LazyCommand(
        "commands.agent_settings_commands:pause",
        "Hold one agent of a live run, or all: no further requests.",
    ),
    "continue": LazyCommand(
        "commands.agent_settings_commands:continue_agent",
        "Let a paused agent, or the whole run, go on.",
    ),
    "rollback": LazyCommand(
        "commands.rollback_command:rollback", "Make an agent forget its last turns."
    ),
    "kill": LazyCommand(
        "commands.steer_commands:kill", "End an agent and all below it, or the whole run."
    ),
    "name": LazyCommand("commands.label_commands:name", "Give a run a name, or take it away."),
    "archive": LazyCommand(
        "commands.label_commands:archive", "Put runs away: they stay, and are left out of lists."
    ),
    "export": LazyCommand(
        "commands.export_command:export", "Write a run's records into a redacted archive (.tar.gz)."
    ),
    "rm": LazyCommand("commands.run_list_commands:rm", "Delete runs that have ended."),
    "prune": LazyCommand(
        "commands.run_list_commands:prune", "Delete old runs and keep the newest."
    ),
    "models": LazyCommand(
        "commands.models_commands:models",
        "What is known of models; files for the embedded one; trying one out.",
    ),
    "roles": LazyCommand("commands.roles_commands:roles", "What agents can be."),
    "config": LazyCommand(
        "commands.config_commands:config", "The effective configuration and where it is from."
    ),
    "trust": LazyCommand(
        "commands.trust_command:trust",
        "Let a project's own configuration, rules and roles count, as they are now.",
    ),
    "features": LazyCommand(
        "commands.features_commands:features", "Parts that can be switched on and off."
    ),
    "doctor": LazyCommand(
        "commands.doctor_command:doctor",
        "Check what works on this machine, and how to mend the rest.",
    ),
    "sandbox": LazyCommand(
        "commands.worker_tool_commands:sandbox", "Run a command in the sandbox that agents get."
    ),
    "apply-patch": LazyCommand(
        "commands.worker_tool_commands:apply_patch", "Apply a patch in the apply_patch format."
    ),
    "parse-command": LazyCommand(
        "commands.worker_tool_commands:parse_command",
        "Say what a command does, in the words of a log.",
    ),
    "explain": LazyCommand(
        "commands.explain_command:explain", "Say what would happen to a command here, and why."
    ),
    "execpolicy": LazyCommand(
        "commands.execpolicy_commands:execpolicy", "Rule files about commands."
    ),
    "completion": LazyCommand(
        "commands.worker_tool_commands:completion", "Print the completion script of a shell."
    ),
}


class ColorCommand(click.Command):
    """A command that also accepts `--color`, so that it may stand on either side of the name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--color"],
                type=click.Choice(["auto", "always", "never"]),
                expose_value=False,
                is_eager=True,
                callback=_set_color,
                help="As `swarm --color`.",
            )
        )


def _set_color(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.obj = value
        ctx.color = None if value == "auto" else value == "always"


class LazyGroup(click.Group):
    """A group that imports a command only when it is called or its help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(LAZY_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        door = LAZY_COMMANDS.get(cmd_name)
        if door is None:
            return None
        module, _, attribute = door.target.partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"{__package__}.{module}"), attribute
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in LAZY_COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, LAZY_COMMANDS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "`swarm --help` lists all commands"
            if name.endswith(".md"):
                hint = f"to run a task file: swarm run {name}"
            raise UsageError(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them: importing all of them would take 300 ms."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, door.short) for name, door in LAZY_COMMANDS.items()])
