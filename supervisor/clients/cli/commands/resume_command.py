"""`swarm resume`: runs the saved request with the present keys, and optionally a new prompt."""

import os
import sys
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH, short_id
from swarm.mailbox.base.key_wiping import take_keys
from swarm.mailbox.base.quantities import parse_option
from swarm.mailbox.protocol.control import ChangeSettings
from swarm.mailbox.protocol.values.limits import Budget, Limits
from swarm.roles.config.layers.config_loader import load_config
from swarm.roles.config.layers.merge import Layer

from ....agents.agent_record import AgentPlan
from ....agents.rights_widening import PLAN_ACCEPTED
from ....agents.run_providers import run_providers
from ....agents.settings_change import changed_plan, check_requirements
from ....parts.part_setup import with_limit_wait
from ....request.run_request import NextInput, RunRequest
from ....request.saved_request import load_request
from ....runs.paths import RunPaths, find_user_paths
from ....runs.run_metadata import is_run_alive, read_metadata
from ...console.terminal import ColorChoice, is_ci, is_terminal
from ..base.early_processes import close_early_processes
from ..base.lazy_commands import ColorCommand
from ..base.printing import say
from ..base.run_choice import (
    all_projects_option,
    choose_run_to_change,
    take_run_wanted,
    yes_option,
)
from ..run_setup.click_values import OptionValue
from ..run_setup.config_layers import ConfigQuery, find_layers
from ..run_setup.folder_change import move_request, with_project_parts
from ..run_setup.mcp_settings import (
    collect_credentials,
    credential_variables,
    rebuild_mcp,
)
from ..run_setup.options import (
    APPROVALS,
    SANDBOXES,
    ShowOptions,
    keep_open_options,
    mcp_config_option,
    show_options,
    stack_options,
)
from ..run_setup.provider_specs import build_providers
from ..run_setup.request_builder import checked_images, idle_seconds
from ..run_setup.reviewer_choice import NO_PERSON_WARNING
from ..run_setup.run_requirements import apply_requirements_to_saved, find_requirements
from ..run_setup.run_settings import find_cwd, key_variables, mcp_file_layers, override_layer
from ..run_setup.task_file import read_task
from .chat_command import can_chat, open_chat, typed_options
from .run_command import export_openai_base_url, parse_show_options, read_stdin
from .run_execution import start_run
from .trust_command import ask_project_trust

# What finds the run, or is passed on in another way.
_NOT_PASSED_ON = ("last", "all_projects", "yes", "prompt", "prompt_file", "keep_open")
# They change the root's settings; the others stay as the run recorded them.
settings_change_options = stack_options(
    [
        click.option("-m", "--model", help="Another model, as NAME or PROVIDER:NAME."),
        click.option("--effort", help="Another reasoning effort."),
        click.option("-s", "--sandbox", type=click.Choice(SANDBOXES), help="A narrower sandbox."),
        click.option(
            "-a", "--approval", type=click.Choice(APPROVALS), help="A stricter approval policy."
        ),
    ]
)  # fmt: skip


def parse_settings_change(given: dict[str, OptionValue]) -> ChangeSettings | None:
    """The request that these options make; None if none is given."""
    names = ("model", "effort", "sandbox", "approval")
    change = {name: given[name] for name in names if given[name] is not None}
    if given.get("accept_plan"):
        change["plan"] = False
    return ChangeSettings(agent=ROOT_PATH, **change) if change else None


def _check_change(request: RunRequest, change: ChangeSettings | None) -> None:
    """Raises UsageError before anything starts for a change that the run itself would refuse."""
    if change is not None:
        limits = Limits(sandbox=request.sandbox, approval=request.approvals.approval)
        plan = AgentPlan(
            path=ROOT_PATH, agent_id="", role=request.role, limits=limits, cwd=request.cwd
        )
        check_requirements(
            plan,
            changed_plan(plan, change, providers=run_providers(request)),
            request.approvals.held,
        )


@click.command("resume", cls=ColorCommand)
@click.argument("run", required=False)
@click.option("--last", is_flag=True, help="The newest run of this project, as without RUN.")
@all_projects_option
@yes_option
@click.option("-p", "--prompt", help="The next prompt for the root agent.")
@click.option(
    "--prompt-file", metavar="FILE", help="The next prompt from FILE, or - for stdin, as text."
)
@click.option("-i", "--image", multiple=True, metavar="FILE", help="An image with the prompt.")
@click.option("--budget-tokens", type=click.IntRange(min=1), help="A new bound for the run.")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), help="Likewise.")
@click.option("--budget-requests", type=click.IntRange(min=1), help="Likewise.")
@click.option("--deadline", metavar="SPAN", help="End it after 90s, 30m, 2h … from now.")
@click.option(
    "--wait-for-limit",
    metavar="SPAN|never",
    help="Wait so long for a limit of the plan that resets.",
)
@click.option("-c", "--config", multiple=True, metavar="KEY=VALUE", help="As for `swarm run`.")
@click.option(
    "-C", "--cd", metavar="DIR", help="Where the project is now, if it was renamed or moved."
)
@mcp_config_option
@settings_change_options
@click.option("--accept-plan", is_flag=True, help="End plan mode: the plan is carried out.")
@keep_open_options
@show_options
@click.pass_context
def resume(ctx: click.Context, /, run: str | None, *, last: bool, **given: OptionValue) -> int:
    """Continue a run after a crash, a stop or its end.

    The model is told that unfinished work was interrupted; nothing runs twice. Settings stay as
    the run recorded them, except for the options given here. On a terminal it opens a conversation
    with the run, unless an option says how the run is shown.

    \b
    Examples:
      swarm resume 4f21c0aa
      swarm resume --last -p "Now write the tests."
      swarm resume 4f21c0aa -C ../new-name
    """
    if last and run is not None:
        raise UsageError("give a run or --last, not both")
    color: ColorChoice = ctx.obj or "auto"
    show = parse_show_options(given, color)
    environment = dict(os.environ)
    places = find_user_paths(environment)
    here = choose_run_to_change(take_run_wanted(run, given), "resume", live=False)
    given["prompt"] = _next_prompt(given.pop("prompt"), given.pop("prompt_file"))
    images = checked_images(given.pop("image"))
    if images and given["prompt"] is None:
        raise UsageError("--image goes with a prompt: give -p or --prompt-file, too")
    if show == ShowOptions(color=color) and can_chat():
        return _talk(ctx, here, given["prompt"])
    request = rebuild_request(here, environment, given)
    return start_run(with_images(request, images), show, places)


def _talk(ctx: click.Context, here: RunPaths, prompt: str | None) -> int:
    """Open a conversation with the run. Before that, work that did not end well goes on."""
    close_early_processes()  # the run gets its own
    run_id, color = here.folder.name, ctx.obj or "auto"
    options = typed_options(ctx, but=_NOT_PASSED_ON)
    if is_run_alive(here):
        if options:
            raise UsageError(_alive_text(here))
        return open_chat(color, run=run_id, words=prompt or "")
    if not options and read_metadata(here).status == "completed":
        return open_chat(color, run=run_id, words=prompt or "")
    if ctx.params["cd"] is not None:  # the run in the background has nobody to ask
        query = ConfigQuery(cwd=find_cwd(ctx.params["cd"]))
        find_layers(os.environ, query, ask=ask_project_trust)
    import anyio  # for a terminal alone, as the conversation

    from ...client.open_run import start_in_background

    line = ["resume", run_id, "--detach", "--keep-open", *options]
    line += [] if prompt is None else ["--prompt-file=-"]
    say(f"run {short_id(run_id)} goes on")
    anyio.run(start_in_background, line, prompt or "", dict(os.environ))
    return open_chat(color, run=run_id)


def _next_prompt(prompt: str | None, file: str | None) -> str | None:
    """The next prompt as text; None: there is none. Raises UsageError."""
    if file is None:
        return prompt
    return read_task(None, prompt=prompt, prompt_file=file, read_stdin=read_stdin).body


def _alive_text(here: RunPaths) -> str:
    short = short_id(here.folder.name)
    return (
        f"run {short} is alive; speak to it with `swarm send {short} root TEXT`, "
        f"watch it with `swarm watch {short}`"
    )


def rebuild_request(
    here: RunPaths, environment: dict[str, str], given: dict[str, OptionValue]
) -> RunRequest:
    """The saved request, ready to run now. Takes the keys out of `environment`.

    Raises UsageError: the run is alive, of another version, its folder is gone, or there is no
    input.
    """
    if is_run_alive(here):
        raise UsageError(_alive_text(here))
    read_metadata(here)
    request, layers = _find_project(here, environment, given)
    required = find_requirements(environment)
    config = load_config(layers, requirements=required).config
    keys = take_keys(environment, key_variables(config))
    for_hub = take_keys(environment, credential_variables(config))
    warnings: list[str] = []
    mcp = rebuild_mcp(
        request.mcp,
        config,
        layers,
        environment=environment,
        required=required,
        warnings=warnings,
    )
    for warning in warnings:
        say(f"warning: {warning}")
    providers, literal = build_providers(config, [])
    export_openai_base_url(config.openai_base_url)
    request = msgspec.structs.replace(
        _with_options(request, given, environment),
        gateway=msgspec.structs.replace(request.gateway, providers=providers),
        keys={**keys, **literal},
        mcp=mcp.settings,
        mcp_credentials=collect_credentials(mcp.settings, mcp.literals, for_hub, keys, environment),
        environment=environment,
        run_id=here.folder.name,
        resumes=True,
    )
    request = apply_requirements_to_saved(request, required)
    _check_change(request, request.next_input.settings)
    return request


def _find_project(
    here: RunPaths, environment: dict[str, str], given: dict[str, OptionValue]
) -> tuple[RunRequest, tuple[Layer, ...]]:
    """The saved request, moved to where its project is now, and the configuration there.

    Raises UsageError: its folder is gone, or it cannot go on in the one that was named.
    """
    request = load_request(here)
    goes_elsewhere = given.get("cd") is not None and find_cwd(given["cd"]) != Path(request.cwd)
    if goes_elsewhere:
        request = move_request(here, request, find_cwd(given["cd"]))
    cwd = Path(request.cwd)
    if not cwd.is_dir():
        raise UsageError(
            f"{cwd}, where this run worked, is gone; if the folder was renamed or moved, name it: "
            f"swarm resume {short_id(here.folder.name)} -C DIR"
        )
    override = override_layer(given["config"], cwd)
    query = ConfigQuery(cwd=cwd, flags=override.values)
    is_asked = goes_elsewhere and is_terminal(sys.stdin) and is_terminal(sys.stderr)
    layers = find_layers(environment, query, ask=ask_project_trust if is_asked else None)
    layers = (*layers, *mcp_file_layers(given.get("mcp_config"), layers), override)
    if goes_elsewhere:
        loaded = load_config(layers, requirements=find_requirements(environment))
        request = with_project_parts(request, loaded, environment)
    return request, layers


def _with_options(
    request: RunRequest, given: dict[str, OptionValue], environment: dict[str, str]
) -> RunRequest:
    """The saved request with what the command line changes. Raises UsageError."""
    prompt = given["prompt"]
    if given.get("accept_plan"):
        prompt = PLAN_ACCEPTED if prompt is None else prompt
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty")
    if request.approvals.reviewer == "person" and is_ci(environment):
        say(f"warning: {NO_PERSON_WARNING}")
        nobody = msgspec.structs.replace(request.approvals, reviewer="nobody")
        request = msgspec.structs.replace(request, approvals=nobody)
    deadline = given["deadline"]
    keep_open = request.lifetime.keep_open or given["keep_open"]
    idle_timeout_s = idle_seconds(given["idle_timeout"], keep_open=keep_open)
    if idle_timeout_s is None:
        idle_timeout_s = request.lifetime.idle_timeout_s
    request = with_limit_wait(request, given.get("wait_for_limit"))
    return msgspec.structs.replace(
        request,
        budget=Budget(
            tokens=given["budget_tokens"] or request.budget.tokens,
            usd=given["budget_usd"] or request.budget.usd,
            requests=given["budget_requests"] or request.budget.requests,
        ),
        deadline_s=parse_option("--deadline", deadline) if deadline else request.deadline_s,
        lifetime=msgspec.structs.replace(
            request.lifetime, keep_open=keep_open, idle_timeout_s=idle_timeout_s
        ),
        next_input=NextInput(prompt=prompt, settings=parse_settings_change(given)),
    )


def with_images(request: RunRequest, images: tuple[str, ...]) -> RunRequest:
    """They go with the next prompt."""
    next_input = msgspec.structs.replace(request.next_input, images=images)
    return msgspec.structs.replace(request, next_input=next_input)
