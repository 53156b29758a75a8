"""The command-line options of `run` as one struct. Fields have the names of the options."""

from collections.abc import Callable
from typing import Literal, TypeVar

import click

from swarm.mailbox.protocol.values.base import Value
from swarm.mailbox.protocol.values.limits import MergeAtEnd
from swarm.roles.config.part_keys import PartOptions

from ....base.part_names import PART_OPTIONS
from ...console.terminal import ColorChoice
from .click_values import OptionValue

_F = TypeVar("_F", bound=OptionValue)  # a command, or the function that becomes one
SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
APPROVALS = ("untrusted", "on-failure", "on-request", "never")


class RunOptions(PartOptions):
    """The parsed options of `swarm run`, not yet resolved."""

    task: str | None = None
    prompt: str | None = None
    prompt_file: str | None = None
    run_id: str | None = None
    cd: str | None = None
    add_dir: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    role: str | None = None
    model: str | None = None
    provider: str | None = None
    effort: str | None = None
    profile: str | None = None
    config: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    strict_config: bool = False
    sandbox: str | None = None
    approval: str | None = None
    reviewer: str | None = None
    allow_commit: bool | None = None
    allow_domain: tuple[str, ...] = ()
    max_agents: int | None = None
    max_depth: int | None = None
    max_spawns: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    budget_requests: int | None = None
    deadline: str | None = None
    wait_for_limit: str | None = None
    waits_for_limits: bool = False  # by default: a person started it
    output_schema: str | None = None
    accept_truncated: bool = False
    require_sandbox: str | None = None
    ephemeral: bool = False
    isolate: Literal["run", "children"] | None = None
    hosts: tuple[str, ...] = ()
    merge: MergeAtEnd | None = None
    plan: bool = False
    keep_open: bool = False
    idle_timeout: str | None = None
    record: str | None = None
    replay: str | None = None
    mcp: tuple[str, ...] = ()
    mcp_config: str | None = None
    trust_once: bool = False
    reviews: bool = False  # True for a review of code


class ShowOptions(Value):
    """How a run is shown and what happens with its result; shared by `run` and `resume`."""

    as_json: bool = False
    as_codex: bool = False  # with `as_json`: only the lines that Codex writes, in its forms
    plain: bool = False
    color: ColorChoice = "auto"
    output_last_message: str | None = None
    detach: bool = False
    notify: str | None = None


def stack_options(options: list[Callable[[_F], _F]]) -> Callable[[_F], _F]:
    """One decorator for several options, in their order."""

    def decorate(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


mcp_config_option = click.option(
    "--mcp-config", metavar="FILE", help="Also the MCP servers of FILE, in the form of .mcp.json."
)

trust_once_option = click.option(
    "--trust-once",
    is_flag=True,
    help="Use this project's configuration as it is now, for this run alone; for CI.",
)

agent_options = stack_options(
    [
        click.option("--role", metavar="NAME", help="Role of the root agent (default: default)."),
        click.option("-m", "--model", help="Model; the provider's own default if not given."),
        click.option("--provider", help="openai, ollama, lmstudio, local, scripted:FILE or yours."),
        click.option("--effort", help="Effort: none, minimal, low, medium, high, xhigh, max."),
        click.option("--profile", metavar="NAME", help="Also read NAME.config.toml."),
        click.option(
            "-c",
            "--config",
            multiple=True,
            metavar="KEY=VALUE",
            help="Override a key of config.toml; VALUE is TOML, else text.",
        ),
        click.option(
            "--enable", multiple=True, metavar="FEATURE", help="As -c features.FEATURE=true."
        ),
        click.option(
            "--disable", multiple=True, metavar="FEATURE", help="As -c features.FEATURE=false."
        ),
        click.option(
            "--mcp",
            multiple=True,
            metavar="NAME",
            help="Only this MCP server, even if it is disabled; repeatable.",
        ),
        mcp_config_option,
        click.option("--strict-config", is_flag=True, help="Unknown keys are errors."),
    ]
)

part_options = stack_options(
    [
        click.option(
            one.name,
            metavar=one.value,
            help=one.help,
            multiple=one.repeats,
            type=click.IntRange(min=1) if one.is_number else None,
        )
        for one in PART_OPTIONS
    ]
)

keep_open_options = stack_options(
    [
        click.option(
            "--keep-open",
            is_flag=True,
            help="At its end the run waits for input (`swarm send`) instead of ending.",
        ),
        click.option(
            "--idle-timeout",
            metavar="SPAN",
            help="With --keep-open: end when nothing was said for so long.",
        ),
    ]
)

limit_options = stack_options(
    [
        click.option(
            "-s", "--sandbox", type=click.Choice(SANDBOXES), help="Default: workspace-write."
        ),
        click.option("-a", "--approval", type=click.Choice(APPROVALS), help="Default: on-request."),
        click.option(
            "--reviewer",
            type=click.Choice(["person", "guardian", "nobody"]),
            help="Who is asked. Default: person on a terminal, else guardian.",
        ),
        click.option(
            "--allow-commit",
            is_flag=True,
            default=None,
            help="Agents may record work in the repository: git add, commit, stash, branch, tag.",
        ),
        click.option(
            "--allow-domain",
            multiple=True,
            metavar="PATTERN",
            help="Commands may reach this host, through the network proxy; repeatable.",
        ),
        click.option("--max-agents", type=click.IntRange(min=1), help="Agents alive at once."),
        click.option("--max-depth", type=click.IntRange(min=0), help="Levels below the root."),
        click.option(
            "--max-spawns",
            type=click.IntRange(min=0),
            help="Agents that models may start in all (default: 1000).",
        ),
        click.option("--budget-tokens", type=click.IntRange(min=1), help="Tokens of the run."),
        click.option(
            "--budget-usd",
            type=click.FloatRange(min=0, min_open=True),
            help="Dollars of the run.",
        ),
        click.option("--budget-requests", type=click.IntRange(min=1), help="Requests of the run."),
        click.option("--deadline", metavar="SPAN", help="End the run after 90s, 30m, 2h …"),
        click.option(
            "--wait-for-limit",
            metavar="SPAN|never",
            help="Wait so long for a limit of the plan that resets (default: 6h; in CI never).",
        ),
        click.option(
            "--require-sandbox",
            metavar="fs,net",
            help="Fail with exit code 6 rather than run with a weaker sandbox.",
        ),
    ]
)

show_options = stack_options(
    [
        click.option("--json", "as_json", is_flag=True, help="One event a line as JSON on stdout."),
        click.option("--plain", is_flag=True, help="Appended lines instead of the live tree."),
        click.option(
            "-o", "--output-last-message", metavar="FILE", help="Write the final answer to FILE."
        ),
        click.option(
            "--detach", is_flag=True, help="Start, print the run id, continue in the background."
        ),
        click.option(
            "--notify",
            metavar="COMMAND",
            help="Run when an approval waits, and at the end, with a JSON argument.",
        ),
    ]
)
