"""The list of commands and how one is loaded: only the chosen one is ever imported.

Rule: `swarm --help` and `--version` import click and this list, nothing more.
"""

import difflib
import importlib
from typing import Any, NamedTuple

import click

from swarm.mailbox.errors import UsageError


class Door(NamedTuple):
    """Where a command lives. `short` must be the first sentence of its own help (tested)."""

    place: str  # module below this package : attribute
    short: str


DOORS: dict[str, Door] = {
    "run": Door("run:run", "Run a task with a tree of agents."),
    "resume": Door("resume:resume", "Go on with a run after a crash, a stop or its end."),
    "review": Door(
        "review:review",
        "Review changes: findings with file, lines, priority and confidence.",
    ),
    "fork": Door("fork:fork", "Branch a new run off from a turn of another one."),
    "ps": Door("ps:ps", "List runs: id, state, agents, tokens, cost, age, size and task."),
    "watch": Door("watch:watch", "Watch a run: the live tree of its agents."),
    "show": Door("reading:show", "Show a run's tree, or one agent's transcript."),
    "log": Door("reading:log", "Print every record of a run in order."),
    "result": Door("reading:result", "Print the final answer of a run, an agent or all items."),
    "send": Door("steer:send", "Say something to an agent of a live run."),
    "approvals": Door(
        "approvals:approvals",
        "List what waits for an approval, and what a reviewer denied lately.",
    ),
    "approve": Door("approvals:approve", "Approve what an agent of a live run waits for."),
    "deny": Door("approvals:deny", "Deny what an agent of a live run waits for."),
    "interrupt": Door("steer:interrupt", "Stop the running turn of one agent, or of all."),
    "compact": Door("compact:compact", "Make the history of an agent of a live run shorter."),
    "undo": Door("undo:undo", "Put files back as they were before an agent's turns."),
    "diff": Door("undo:diff", "Show what a run's agents changed in files."),
    "set": Door("adjust:change", "Change how an agent of a live run works, from its next turn on."),
    "pause": Door("adjust:pause", "Hold one agent of a live run, or all: no further requests."),
    "continue": Door("adjust:go_on", "Let a paused agent, or the whole run, go on."),
    "rollback": Door("rollback:rollback", "Make an agent forget its last turns."),
    "kill": Door("steer:kill", "End an agent and all below it, or the whole run."),
    "name": Door("labels:name", "Give a run a name, or take it away."),
    "archive": Door("labels:archive", "Put runs away: they stay, and are left out of lists."),
    "export": Door("export:export", "Write a run's records into a redacted archive (.tar.gz)."),
    "rm": Door("ps:rm", "Delete runs that have ended."),
    "prune": Door("ps:prune", "Delete old runs and keep the newest."),
    "models": Door(
        "models:models", "What is known of models; files for the embedded one; trying one out."
    ),
    "roles": Door("roles:roles", "What agents can be."),
    "config": Door("config:config", "The effective configuration and where it is from."),
    "trust": Door(
        "trusting:trust",
        "Let a project's own configuration, rules and roles count, as they are now.",
    ),
    "features": Door("features:features", "Parts that can be switched on and off."),
    "doctor": Door("doctor:doctor", "Check what works on this machine, and how to mend the rest."),
    "sandbox": Door("tools:sandbox", "Run a command in the sandbox that agents get."),
    "apply-patch": Door("tools:apply_patch", "Apply a patch in the apply_patch format."),
    "parse-command": Door("tools:parse_command", "Say what a command does, in the words of a log."),
    "explain": Door("explaining:explain", "Say what would happen to a command here, and why."),
    "execpolicy": Door("execpolicy:execpolicy", "Rule files about commands."),
    "completion": Door("tools:completion", "Print the completion script of a shell."),
}


class DoorCommand(click.Command):
    """A command that also takes `--color`, so that it may stand on either side of the name."""

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
    """A group whose commands are imported when they are called or asked for help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(DOORS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        door = DOORS.get(cmd_name)
        if door is None:
            return None
        module, _, attribute = door.place.partition(":")
        command: click.Command = getattr(
            importlib.import_module(f"{__package__}.{module}"), attribute
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in DOORS and not name.startswith("-"):
            near = difflib.get_close_matches(name, DOORS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "`swarm --help` lists all commands"
            if name.endswith(".md"):
                hint = f"to run a task file: swarm run {name}"
            raise UsageError(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the list: importing all commands for one page would cost 300 ms."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, door.short) for name, door in DOORS.items()])
