"""`swarm run`: parse, build one request, run it, map its status to an exit code."""

import os
import sys
from functools import partial
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import is_run_id
from swarm.mailbox.base.key_wiping import take_keys

from ....request.isolation_text import describe_isolation
from ....runs.paths import UserPaths, find_user_paths, paths_of_run
from ....views.budget_description import describe_widening
from ...console.terminal import ColorChoice, is_terminal
from ..base.mcp_prompts import expand_prompt_call
from ..base.model_offer import offer_capable_model
from ..base.optional_value import IsolatingCommand
from ..base.printing import say
from ..base.run_notifier import split_command
from ..base.sandboxed_script import run_sandboxed_script
from ..run_setup.click_values import OptionValue
from ..run_setup.mcp_settings import collect_credentials, credential_variables
from ..run_setup.options import (
    RunOptions,
    ShowOptions,
    agent_options,
    keep_open_options,
    limit_options,
    part_options,
    show_options,
    trust_once_option,
)
from ..run_setup.request_builder import PreparedRequest, build_request
from ..run_setup.reviewer_choice import find_answer_location
from ..run_setup.run_requirements import denied_paths
from ..run_setup.run_settings import load_settings
from ..run_setup.task_file import MAX_TASK_BYTES, read_task
from ..run_setup.task_trust import check_task_trust
from .run_execution import start_run
from .trust_command import ask_project_trust, ask_task_trust


@click.command("run", cls=IsolatingCommand)
@click.argument("task", required=False)
@click.option("-p", "--prompt", help="The task as text; stdin is then never read.")
@click.option(
    "--prompt-file",
    metavar="FILE",
    help="The task as plain text from FILE, or - for stdin; front matter has no meaning there.",
)
@click.option("--run-id", metavar="ID", help="The run's id, a UUIDv7 that no run has yet.")
@click.option("-C", "--cd", metavar="DIR", help="Where the agents work.")
@click.option("--add-dir", multiple=True, metavar="DIR", help="One more folder they may write.")
@click.option("-i", "--image", multiple=True, metavar="FILE", help="An image for the root agent.")
@agent_options
@limit_options
@click.option("--output-schema", metavar="FILE", help="JSON schema that the answer must fit.")
@click.option("--accept-truncated", is_flag=True, help="An answer cut by the model is an answer.")
@click.option(
    "--plan", is_flag=True, help="Only read and make a plan, until it is accepted: swarm accept."
)
@click.option(
    "--isolate",
    type=click.Choice(["run", "children"]),
    metavar="[=run|=children]",
    help="Work in a copy: the whole run (alone or =run), or what the root starts: swarm merge.",
)
@click.option(
    "--hosts", metavar="NAME", multiple=True, help="Agents in copies work on these other machines."
)
@click.option(
    "--merge",
    type=click.Choice(["auto", "ask", "leave"]),
    help="What the end does with their work: merge what fits, ask (default), leave it.",
)
@part_options
@keep_open_options
@click.option("--by-program", is_flag=True, hidden=True)  # no person started it
@show_options
@trust_once_option
@click.option("--ephemeral", is_flag=True, help="Keep nothing after the end.")
@click.option("--record", metavar="FILE", help="Save all model traffic of the tree.")
@click.option("--replay", metavar="FILE", help="Run the whole tree from such a file.")
@click.pass_obj
def run(color: ColorChoice, /, **given: OptionValue) -> int:
    """Run a task with a tree of agents.

    TASK is a Markdown file, or - for stdin. See docs/tasks.md for its front matter.
    On a terminal: up and down select an agent, Enter shows its transcript, Esc goes back, s sorts.

    \b
    Examples:
      swarm run task.md
      swarm run -p "What does this project do?" --json
      swarm run task.md --max-agents 8 --deadline 30m --detach
    """
    show = parse_show_options(given, color)
    options = msgspec.convert(
        {key: value for key, value in given.items() if key in RunOptions.__struct_fields__},
        RunOptions,
    )
    options = msgspec.structs.replace(options, waits_for_limits=not given["by_program"])
    environment = dict(os.environ)
    prepared = prepare_run(options, environment)
    if isolated := describe_isolation(prepared.request):
        say(isolated)
    for warning in prepared.warnings:
        say(f"warning: {warning}")
    if show.as_json and (widened := describe_widening(prepared.request.widened)):
        say(f"warning:{widened}")
    places = find_user_paths(environment)
    request = prepared.request
    if options.run_id is not None:
        check_run_id(options.run_id, places)
        request = msgspec.structs.replace(request, run_id=options.run_id)
    return start_run(request, show, places)


def check_run_id(run_id: str, places: UserPaths) -> None:
    """Raises UsageError for an id that is no UUIDv7, or that a run has already."""
    if not is_run_id(run_id):
        raise UsageError(f"--run-id {run_id[:80]!r} is no UUIDv7 as in `swarm ps --json`")
    if paths_of_run(places, run_id).folder.exists():
        raise UsageError(f"there is a run {run_id} already; `swarm resume` goes on with it")


def prepare_run(options: RunOptions, environment: dict[str, str]) -> PreparedRequest:
    """Read all input; take the keys out of `environment` and of this process.

    Raises UsageError before anything is started.
    """
    task = read_task(
        options.task,
        prompt=None if options.prompt is None else expand_prompt_call(options.prompt),
        prompt_file=options.prompt_file,
        read_stdin=read_stdin,
    )
    answering = find_answer_location(environment, on_terminal=_on_terminal())
    ask = ask_project_trust if answering == "terminal" else None
    settings = load_settings(options, task, environment, ask=ask)
    widened = check_task_trust(
        settings, answering=answering, ask=ask_task_trust if answering == "terminal" else None
    )
    if answering == "terminal" and options.replay is None:
        offer_capable_model(lambda: settings.config, environment)
    keys = take_keys(environment, settings.key_variables)
    for_hub = take_keys(environment, credential_variables(settings.config))
    hidden = denied_paths(settings.loaded.requirements)
    prepared = build_request(
        options, settings, environment=environment, run_lines=partial(run_sandboxed_script,
        hidden=hidden),
        answering=answering,
    )  # fmt: skip
    export_openai_base_url(settings.config.openai_base_url)
    request = msgspec.structs.replace(
        prepared.request,
        keys={**keys, **prepared.literal_keys},
        mcp_credentials=collect_credentials(
            prepared.request.mcp, prepared.mcp_literals, for_hub, keys, environment
        ),
        widened=widened,
    )
    return msgspec.structs.replace(prepared, request=request, literal_keys={}, mcp_literals={})


def _on_terminal() -> bool:
    """True if keys can be read and questions can be seen."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def export_openai_base_url(base_url: str | None) -> None:
    """Export `openai_base_url` to the environment, where the forked gateway reads it."""
    if base_url:
        os.environ["OPENAI_BASE_URL"] = base_url


def parse_show_options(given: dict[str, OptionValue], color: ColorChoice) -> ShowOptions:
    """The options that `run` and `resume` share, checked as far as possible now."""
    answer = given["output_last_message"]  # the present folder may be gone at the end
    show = ShowOptions(
        as_json=given["as_json"],
        plain=given["plain"],
        color=color,
        output_last_message=None if answer is None else str(Path(answer).absolute()),
        detach=given["detach"],
        notify=given["notify"],
    )
    if show.notify is not None:
        split_command(show.notify)
    if show.output_last_message is not None:
        folder = Path(show.output_last_message).parent
        if not folder.is_dir():
            raise click.BadParameter(f"there is no folder {folder}", param_hint="-o")
    return show


def read_stdin() -> bytes:
    """All of stdin, at most one byte more than a task may have."""
    if sys.stdin.isatty():
        say("reading the task from the terminal; end it with Ctrl-D")
    return sys.stdin.buffer.read(MAX_TASK_BYTES + 1)
