"""`swarm hooks list|test|trust|disable|enable|log`: the hooks that a run here would have."""

import os
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.bounded_formats import decode_json_as
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.protocol.events import HookRan
from swarm.mailbox.protocol.hooks import CommandHook, Hook, HookEvent
from swarm.roles.config.layers.toml_edit import ConfigEdit
from swarm.roles.parts.hooks.hook_combination import matching_hooks
from swarm.roles.parts.hooks.hook_file import EVENTS
from swarm.roles.parts.hooks.hook_input import ToolUse, other_use, patch_uses, shell_use
from swarm.roles.parts.hooks.hook_output import read_opinion

from ....base.safe_text import clean_block, clean_line
from ....journal.journal_reader import read_records
from ....runs.paths import find_user_paths
from ...console.log_lines import log_line
from ..base.hook_results import last_results
from ..base.hook_trial import example_input, try_hook
from ..base.lazy_commands import ColorCommand
from ..base.printing import print_columns, print_json
from ..base.run_choice import RunWanted, all_projects_option, choose_run
from ..run_setup.hook_settings import RunHooks, find_run_hooks
from ..run_setup.run_settings import load_config_here
from .config_edit_commands import edit_user_config
from .trust_command import trust

_SHELL_NAMES = ("Bash", "exec_command", "shell")
_EXAMPLE_NAMES = {
    "SessionStart": "startup",
    "PreCompact": "manual",
    "PostCompact": "manual",
    "Notification": "permission_prompt",
    "SessionEnd": "other",
}
_EDIT_NAMES = ("apply_patch", "Write", "Edit", "MultiEdit", "edit_file")


@click.group("hooks")
def hooks() -> None:
    """List, try and switch off hooks: programs that run in a session.

    \b
    Example:
      swarm hooks list
    """


def _load() -> RunHooks:
    loaded = load_config_here()
    found = find_run_hooks(loaded, find_user_paths(dict(os.environ)).config)
    for warning in (*loaded.warnings, *found.warnings):
        click.echo(f"swarm: warning: {clean_line(warning, limit=400)}", err=True)
    return found


@hooks.command("list", cls=ColorCommand)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a hook.")
def list_hooks(*, as_json: bool) -> None:
    """All hooks of this folder, in the order in which their results are combined.

    LAST is how each ended the last time, in the newest of this folder's runs in which it ran.

    \b
    Example:
      swarm hooks list
    """
    found = _load()
    rows = [(hook, "managed" if hook.managed else "on") for hook in found.hooks]
    rows += found.inactive
    last = last_results(find_user_paths(dict(os.environ)), Path(os.path.realpath(Path.cwd())))
    if as_json:
        for hook, state in rows:
            ended = msgspec.to_builtins(last.get(hook.hook_id))
            print_json({**msgspec.to_builtins(hook), "state": state, "last": ended})
        return
    if not rows:
        click.echo("no hooks here; see docs/hooks.md for how to write one")
        return
    print_columns(
        ("ID", "EVENT", "MATCHER", "STATE", "TIMEOUT", "FAILS", "LAST", "COMMAND", "FROM"),
        [
            (
                hook.hook_id,
                hook.event,
                hook.matcher or "*",
                f"{state}, network" if hook.network else state,
                f"{hook.timeout_s:g} s",
                "closed" if hook.fails_closed else "open",
                last[hook.hook_id].status if hook.hook_id in last else "-",
                clean_line(hook.line),
                hook.source,
            )
            for hook, state in rows
        ],
    )


@hooks.command("test", cls=ColorCommand)
@click.argument("event", type=click.Choice(EVENTS), metavar="EVENT")
@click.option("--tool", default="Bash", show_default=True, help="The tool of the call.")
@click.option("--input", "given", default="true", help="A command, a file's path, or JSON.")
@click.option("--prompt", default="hello", show_default=True, help="For UserPromptSubmit.")
def test_hooks(event: str, *, tool: str, given: str, prompt: str) -> None:
    """Run the hooks of EVENT once, in the read-only sandbox, and say what each would decide.

    \b
    Example:
      swarm hooks test PreToolUse --tool Bash --input 'rm -rf build'
      swarm hooks test PreToolUse --tool Edit --input .env
    """
    cwd = Path(os.path.realpath(Path.cwd()))
    name = msgspec.convert(event, HookEvent)
    concerned = matching_hooks(_load().hooks, name, _names(event, _tool_uses(tool, given, cwd)))
    if not concerned:
        click.echo("no hook concerns this; `swarm hooks list` shows all")
        return
    for hook in concerned:
        if not isinstance(hook.action, CommandHook):
            click.echo(f"{hook.hook_id} {clean_line(hook.line)}: starts no command; not tried")
            continue
        for use in _uses_for(hook, tool, given, cwd):
            end = try_hook(hook, cwd, example_input(hook, cwd, use, prompt))
            opinion = read_opinion(hook.event, end, hook.form)
            text = opinion.reason or opinion.context or opinion.message
            outcome = opinion.decision or "no opinion"
            shown = outcome if opinion.status in ("completed", "blocked") else opinion.status
            click.echo(f"{hook.hook_id} {clean_line(hook.line)}: {shown}")
            if text:
                click.echo(clean_block(text))


def _names(event: str, use: ToolUse) -> tuple[str, ...]:
    if event in _EXAMPLE_NAMES:
        return (_EXAMPLE_NAMES[event],)
    return ("default",) if event.startswith("Subagent") else use.names


def _uses_for(hook: Hook, tool: str, given: str, cwd: Path) -> tuple[ToolUse, ...]:
    if hook.form == "claude" and tool in _EDIT_NAMES:
        from swarm.mailbox.protocol.changes import FileChange  # only for this example

        change = FileChange(path=str(cwd / given), kind="update", unified_diff="@@\n-old\n+new\n")
        return patch_uses((change,), "", tool=tool, form="claude")
    return (_tool_uses(tool, given, cwd),)


def _tool_uses(tool: str, given: str, cwd: Path) -> ToolUse:
    if tool in _SHELL_NAMES:
        return shell_use(given, tool="exec_command")
    if tool in _EDIT_NAMES:
        patch = f"*** Begin Patch\n*** Update File: {given}\n@@\n-old\n+new\n*** End Patch"
        (use,) = patch_uses((), patch, tool=tool, form="codex")
        return use
    try:
        return other_use(tool, decode_json_as(given, dict[str, object]))
    except msgspec.DecodeError:
        return other_use(tool, {"input": given})


@hooks.command("trust", cls=ColorCommand)
@click.option("-y", "--yes", is_flag=True, help="Trust without a question; for scripts.")
@click.pass_context
def trust_hooks(context: click.Context, *, yes: bool) -> None:
    """Trust this project's hooks as they are now, with all else that it brings: `swarm trust`.

    \b
    Example:
      swarm hooks trust
    """
    context.invoke(trust, folder=None, revoke=False, yes=yes, as_list=False)


@hooks.command("disable", cls=ColorCommand)
@click.argument("hook_id")
def disable_hook(hook_id: str) -> None:
    """Switch a hook off, in your own configuration. A managed one stays on.

    \b
    Example:
      swarm hooks disable 4f21c0aa17be
    """
    _switch(hook_id, enabled=False)


@hooks.command("enable", cls=ColorCommand)
@click.argument("hook_id")
def enable_hook(hook_id: str) -> None:
    """Switch a hook on again.

    \b
    Example:
      swarm hooks enable 4f21c0aa17be
    """
    _switch(hook_id, enabled=True)


def _switch(hook_id: str, *, enabled: bool) -> None:
    found = _load()
    known = {hook.hook_id: hook for hook in (*found.hooks, *(one for one, _ in found.inactive))}
    hook = known.get(hook_id)
    if hook is None:
        raise UsageError(f"there is no hook {hook_id!r} here; `swarm hooks list` shows all")
    if hook.managed and not enabled:
        raise UsageError(f"{hook_id} is managed ({hook.source}) and cannot be switched off")
    edit = ConfigEdit(
        steps=("hooks", "state", hook_id, "enabled"), value=None if enabled else False
    )
    edit_user_config(edit, None)
    click.echo(f"{hook_id} is {'on' if enabled else 'off'} in runs that start from now on")


@hooks.command("log", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--json", "as_json", is_flag=True, help="The records, one a line.")
@all_projects_option
def log_hooks(run: str | None, *, as_json: bool, all_projects: bool) -> None:
    """Every hook that ran in a run, in order, with what it decided.

    Without RUN: in the newest one of this project.

    \b
    Example:
      swarm hooks log 4f21c0aa
    """
    here = choose_run(RunWanted(run=run, all_projects=all_projects))
    shown = 0
    for record in read_records(here):
        if isinstance(record.body, HookRan):
            click.echo(log_line(record, as_json=as_json))
            shown += 1
    if not shown:
        click.echo("no hook ran in this run", err=True)
