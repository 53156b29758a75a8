"""The list of commands, and a click group that imports only the chosen command.

`swarm --help` and `--version` import click and this list, nothing more.
"""

import importlib
import os

import click

from swarm.mailbox.base.errors import UsageError

from ....base.part_names import PART_COMMANDS, PART_GROUPS, LazyCommand
from ..run_setup.click_values import OptionValue
from .command_words import ALIASES, suggest_command

LAZY_COMMANDS: dict[str, LazyCommand] = {
    "chat": LazyCommand("chat_command", "Talk with an agent that works in this folder."),
    "run": LazyCommand("run_command", "Run a task with a tree of agents."),
    "resume": LazyCommand("resume_command", "Continue a run after a crash, a stop or its end."),
    "exec": LazyCommand(
        "codex_exec_command",
        "Run a prompt as `codex exec` does, for its SDKs and scripts.",
        "exec_run",
    ),
    "acp": LazyCommand(
        "acp_command", "Serve an editor over the Agent Client Protocol on stdin and stdout."
    ),
    "mcp-server": LazyCommand(
        "mcp_server_command",
        "Offer runs as tools to an MCP client, on stdin and stdout or over HTTP.",
    ),
    "review": LazyCommand(
        "review_command", "Review changes: findings with file, lines, priority and confidence."
    ),
    "fork": LazyCommand("fork_command", "Start a new run from a turn of another one."),
    "ps": LazyCommand(
        "run_list_commands", "List runs: id, state, agents, tokens, cost, age, size and task."
    ),
    "watch": LazyCommand("watch_command", "Watch a run: the live tree of its agents."),
    "show": LazyCommand(
        "journal_commands",
        "Show what a run's agents came to, or one agent's transcript or context.",
    ),
    "log": LazyCommand("journal_commands", "Print every record of a run in order."),
    "result": LazyCommand(
        "journal_commands", "Print the final answer of a run, an agent or all items."
    ),
    "send": LazyCommand("steer_commands", "Send a message to an agent of a live run."),
    "approvals": LazyCommand(
        "approval_commands", "List what waits for an approval, and what a reviewer denied lately."
    ),
    "approve": LazyCommand("approval_commands", "Approve what an agent of a live run waits for."),
    "deny": LazyCommand("approval_commands", "Deny what an agent of a live run waits for."),
    "interrupt": LazyCommand("steer_commands", "Stop the running turn of one agent, or of all."),
    "compact": LazyCommand("steer_commands", "Shorten the history of an agent of a live run."),
    "undo": LazyCommand("undo_commands", "Put files back as they were before an agent's turns."),
    "merge": LazyCommand(
        "merge_commands", "Merge what agents changed in their copies into the project."
    ),
    "branch": LazyCommand("merge_commands", "Make a git branch of an agent's change."),
    "diff": LazyCommand("undo_commands", "Show what a run's agents changed in files."),
    "set": LazyCommand(
        "steer_commands",
        "Change the model, effort or rights of an agent of a live run.",
        "set_agent_settings",
    ),
    "pause": LazyCommand(
        "steer_commands", "Pause one agent of a live run, or all: no further requests."
    ),
    "continue": LazyCommand(
        "steer_commands", "Continue a paused agent, or the whole run.", "continue_agent"
    ),
    "rollback": LazyCommand("rollback_command", "Make an agent forget its last turns."),
    "accept": LazyCommand(
        "plan_commands",
        "Accept the plan of an agent in plan mode: it gets its rights and carries it out.",
    ),
    "end": LazyCommand(
        "steer_commands", "End a run that stays open, in order, with its last answer."
    ),
    "kill": LazyCommand("steer_commands", "End an agent and all below it, or the whole run."),
    **PART_COMMANDS,
    "name": LazyCommand("run_list_commands", "Give a run a name, or remove it."),
    "archive": LazyCommand(
        "run_list_commands", "Archive runs: they are kept, and left out of lists."
    ),
    "export": LazyCommand(
        "run_list_commands", "Write a run's records into a redacted archive (.tar.gz)."
    ),
    "rm": LazyCommand("run_list_commands", "Delete runs that have ended."),
    "prune": LazyCommand("run_list_commands", "Delete old runs and keep the newest."),
    "init": LazyCommand("init_command", "Draft AGENTS.md for a project, and show it first."),
    "models": LazyCommand(
        "models_commands", "List known models, download model files, try a model."
    ),
    "roles": LazyCommand("roles_commands", "List the roles of agents, and explain one."),
    "skills": LazyCommand(
        "skills_commands", "List, show, check and make skills: folders with a SKILL.md."
    ),
    "commands": LazyCommand(
        "command_file_commands", "List and show command files: prompts that you call by /NAME."
    ),
    "hooks": LazyCommand(
        "hooks_commands", "List, try and switch off hooks: programs that run in a session."
    ),
    "plugin": LazyCommand(
        "plugin_commands", "Add, list, show and switch plugins: skills, hooks, servers in one."
    ),
    "config": LazyCommand(
        "config_commands", "Show and change the configuration, with the origin of each value."
    ),
    "trust": LazyCommand(
        "trust_command",
        "Trust a project's own configuration, rules and roles as they are now.",
    ),
    "mcp": LazyCommand("mcp_commands", "List, add and try MCP servers."),
    "features": LazyCommand("features_commands", "List features, and switch them on and off."),
    "doctor": LazyCommand(
        "doctor_command", "Check what works on this machine, and how to fix the rest."
    ),
    "sandbox": LazyCommand("worker_tool_commands", "Run a command in the sandbox that agents get."),
    "apply-patch": LazyCommand("worker_tool_commands", "Apply a patch in the apply_patch format."),
    "parse-command": LazyCommand(
        "worker_tool_commands", "Say what a command does: read, list, search, or unknown."
    ),
    "explain": LazyCommand("explain_command", "Say what would happen to a command here, and why."),
    "execpolicy": LazyCommand("execpolicy_commands", "Check commands against rule files."),
    "completion": LazyCommand("worker_tool_commands", "Print the completion script of a shell."),
}


COMMAND_GROUPS: dict[str, tuple[str, ...]] = {  # of the short help
    "run": ("chat", "run", "resume", "fork", "exec", "acp", "mcp-server", "init"),
    "watch": (
        "ps", "watch", "show", "log", "result", "export", "name", "archive", "rm", "prune",
        *PART_GROUPS["watch"],
    ),
    "steer": (
        "send", "approvals", "approve", "deny", "interrupt", "pause", "continue", "set", "accept",
        "compact", "rollback", "end", "kill",
    ),
    "review": ("diff", "merge", "branch", "undo", "review"),
    "configure": (
        "config", "models", "roles", "skills", "commands", "mcp", "hooks", "plugin",
        "trust", "features", *PART_GROUPS["configure"],
    ),
    "machine": (
        "doctor", "sandbox", "explain", "execpolicy", "parse-command", "apply-patch", "completion",
    ),
}  # fmt: skip
_WITH_ALL = "swarm.help_all"


class ColorCommand(click.Command):
    """A command that also accepts `--color`, so that it may stand on either side of the name."""

    def __init__(self, *args: OptionValue, **kwargs: OptionValue) -> None:
        super().__init__(*args, **kwargs)
        if "_SWARM_COMPLETE" in os.environ:  # a shell asks what may stand at the cursor
            from .shell_choices import complete_known_words

            complete_known_words(self.params)
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
        found = LAZY_COMMANDS.get(cmd_name)
        if found is None:
            return None
        is_part = cmd_name in PART_COMMANDS
        folder = "swarm.supervisor" if is_part else "swarm.supervisor.clients.cli.commands"
        module = importlib.import_module(f"{folder}.{found.module}")
        command: click.Command = getattr(module, found.attribute or cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in LAZY_COMMANDS:
            args = [ALIASES.get(args[0], args[0]), *args[1:]]
        name = args[0]
        if name == "status":
            args = [
                "show" if any(not word.startswith("-") for word in args[1:]) else "ps",
                *args[1:],
            ]
            name = args[0]
        if name not in LAZY_COMMANDS and not name.startswith("-"):
            commands = {known: one.short for known, one in LAZY_COMMANDS.items()}
            hint = suggest_command(name, commands)
            raise UsageError(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`--help --all` lists every command with what it does; `help` and `version` are known."""
        if args[:1] == ["help"]:
            named = [word for word in args[1:2] if not word.startswith("-")]
            args = [*named, "--help", *args[1 + len(named) :]]
        elif args[:1] == ["version"]:
            args = ["--version"]
        if args[:1] in (["-h"], ["--help"]) and "--all" in args:
            ctx.meta[_WITH_ALL] = True
            args = args[:1]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them: importing all of them would take 300 ms."""
        if ctx.meta.get(_WITH_ALL):
            with formatter.section("Commands"):
                formatter.write_dl([(name, one.short) for name, one in LAZY_COMMANDS.items()])
            return
        with formatter.section("Commands (swarm --help --all says what each does)"):
            formatter.write_dl([(group, " ".join(names)) for group, names in _groups()])


def _groups() -> list[tuple[str, tuple[str, ...]]]:
    """The groups with their commands; what stands in none is in the last."""
    placed = {name for names in COMMAND_GROUPS.values() for name in names}
    rest = tuple(name for name in LAZY_COMMANDS if name not in placed)
    groups = [
        (group, tuple(name for name in names if name in LAZY_COMMANDS))
        for group, names in COMMAND_GROUPS.items()
    ]
    return [*groups[:-1], (groups[-1][0], (*groups[-1][1], *rest))]
