"""`swarm review`: reviews changes in a separate read-only run, with findings as data."""

import os
from functools import partial
from pathlib import Path

import click
import msgspec

from swarm.mailbox.base.errors import UsageError
from swarm.roles.role_loader import REVIEW_ROLE

from ....parts.review.review_target import FoundReviewTarget, ReviewTargetOptions, find_target
from ....request.run_request import CodeReview
from ....runs.paths import find_user_paths
from ...console.terminal import ColorChoice
from ..base.lazy_commands import ColorCommand
from ..base.sandboxed_script import run_sandboxed_script
from ..run_setup.click_values import OptionValue
from ..run_setup.options import RunOptions, agent_options, limit_options, show_options
from ..run_setup.run_settings import find_cwd
from .run_command import parse_show_options, prepare_run
from .run_execution import start_run


@click.command("review", cls=ColorCommand)
@click.option("--uncommitted", is_flag=True, help="What is not committed yet (the default).")
@click.option("--base", metavar="BRANCH", help="The changes against this branch.")
@click.option("--commit", metavar="SHA", help="The changes of this commit.")
@click.option("-p", "--prompt", help="What to review, or to look at beside the changes.")
@click.option("-C", "--cd", metavar="DIR", help="Where the repository is.")
@click.option(
    "--run", "run_id", metavar="RUN", help="Within this live run, by a child of its agent."
)
@click.option("--agent", metavar="AGENT", help="With --run: who gets the findings; the root.")
@agent_options
@limit_options
@show_options
@click.option("--ephemeral", is_flag=True, help="Keep nothing after the end.")
@click.pass_obj
def review(color: ColorChoice, /, **given: OptionValue) -> int:
    """Review changes: findings with file, lines, priority and confidence.

    Reads and never writes. --json has them as data, in the line `review.exited`.

    \b
    Examples:
      swarm review
      swarm review --base main -p "Mind the error paths."
      swarm review --commit HEAD --json
    """
    if given["run_id"] is not None:
        return _review_in_live_run(given)
    if given["agent"] is not None:
        raise UsageError("--agent goes with --run")
    from ....parts.review.review_output import SCHEMA

    show = parse_show_options(given, color)
    if given["sandbox"] not in {None, "read-only"}:
        raise UsageError("a review is read-only; leave --sandbox out")
    if given["prompt"] is not None and not given["prompt"].strip():
        raise UsageError("the prompt is empty")
    target = _find_target(given, find_cwd(given["cd"]))
    options = msgspec.convert(
        {key: value for key, value in given.items() if key in RunOptions.__struct_fields__}
        | {
            "prompt": target.prompt,
            "role": given["role"] or REVIEW_ROLE,
            "reviews": True,
            "sandbox": "read-only",
        }
        | {"approval": given["approval"] or "never", "max_agents": given["max_agents"] or 1},
        RunOptions,
    )
    environment = dict(os.environ)
    prepared = prepare_run(options, environment)
    for warning in prepared.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    request = msgspec.structs.replace(
        prepared.request,
        task="review",
        output_schema=SCHEMA,
        review=CodeReview(target=target.kind, hint=target.hint, broken=target.broken),
    )
    return start_run(request, show, find_user_paths(environment))


def _review_in_live_run(given: dict[str, OptionValue]) -> int:
    import trio

    from swarm.mailbox.protocol.control import ReviewWork

    from ..base.control_client import fetch_run_view, resolve_live_run, send_request_for_message

    run = given["run_id"]
    target = _find_target(given, Path(trio.run(fetch_run_view, resolve_live_run(run)).cwd))
    request = ReviewWork(
        agent=given["agent"] or "",
        prompt=target.prompt,
        target=target.kind,
        hint=target.hint,
        broken=target.broken,
    )
    click.echo(send_request_for_message(run, request), err=True)
    return 0


def _find_target(given: dict[str, OptionValue], cwd: Path) -> FoundReviewTarget:
    """What to review in the repository at `cwd`, which is read in the read-only sandbox."""
    selected = ReviewTargetOptions(
        uncommitted=given["uncommitted"], base=given["base"], commit=given["commit"],
        words=given["prompt"] or "",
    )  # fmt: skip
    shown = "looking at the repository"
    return find_target(selected, partial(run_sandboxed_script, cwd=cwd, shown=shown, own=True))
