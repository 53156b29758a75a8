"""`swarm review`: a review of changes as a run of its own, read-only, with findings as data."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from swarm.mailbox.errors import UsageError
from swarm.roles.loader import REVIEW_ROLE

from ..places import find_places
from ..request import CodeReview
from .doors import DoorCommand
from .options import RunOptions, bound_options, show_options, who_options
from .run import prepare, show_of
from .settings import find_cwd
from .starting import start_run


@click.command("review", cls=DoorCommand)
@click.option("--uncommitted", is_flag=True, help="What is not committed yet (the default).")
@click.option("--base", metavar="BRANCH", help="The changes against this branch.")
@click.option("--commit", metavar="SHA", help="The changes of this commit.")
@click.option("-p", "--prompt", help="What to review, or to look at beside the changes.")
@click.option("-C", "--cd", metavar="DIR", help="Where the repository is.")
@click.option(
    "--run", "run_id", metavar="RUN", help="Within this live run, by a child of its agent."
)
@click.option("--agent", metavar="AGENT", help="With --run: who gets the findings; the root.")
@who_options
@bound_options
@show_options
@click.option("--ephemeral", is_flag=True, help="Keep nothing after the end.")
@click.pass_obj
def review(color: str, /, **said: Any) -> int:
    """Review changes: findings with file, lines, priority and confidence.

    Reads and never writes. --json has them as data, in the line `review.exited`.

    \b
    Examples:
      swarm review
      swarm review --base main -p "Mind the error paths."
      swarm review --commit HEAD --json
    """
    if said["run_id"] is not None:
        return _review_within(said)
    if said["agent"] is not None:
        raise UsageError("--agent goes with --run")
    from ..review.output import SCHEMA
    from ..review.target import Wish, find_target
    from .sandboxed import run_lines

    show = show_of(said, color)
    if said["sandbox"] not in {None, "read-only"}:
        raise UsageError("a review is read-only; leave --sandbox out")
    if said["prompt"] is not None and not said["prompt"].strip():
        raise UsageError("the prompt is empty")
    cwd = find_cwd(said["cd"])
    wish = Wish(
        uncommitted=said["uncommitted"], base=said["base"], commit=said["commit"],
        words=said["prompt"] or "",
    )  # fmt: skip
    target = find_target(wish, partial(_look, cwd=cwd, run=run_lines))
    options = msgspec.convert(
        {key: value for key, value in said.items() if key in RunOptions.__struct_fields__}
        | {
            "prompt": target.prompt,
            "role": said["role"] or REVIEW_ROLE,
            "reviews": True,
            "sandbox": "read-only",
        }
        | {"approval": said["approval"] or "never", "max_agents": said["max_agents"] or 1},
        RunOptions,
    )
    environment = dict(os.environ)
    prepared = prepare(options, environment)
    for warning in prepared.warnings:
        click.echo(f"swarm: warning: {warning}", err=True)
    request = msgspec.structs.replace(
        prepared.request,
        task="review",
        output_schema=SCHEMA,
        review=CodeReview(target=target.kind, hint=target.hint),
    )
    return start_run(request, show, find_places(environment))


def _review_within(said: dict[str, Any]) -> int:
    import trio

    from swarm.mailbox.protocol.control import ReviewWork

    from ..review.target import Wish, find_target
    from .asking import find_live, get_view, tell
    from .sandboxed import run_lines

    run = said["run_id"]
    cwd = Path(trio.run(get_view, find_live(run)).cwd)
    wish = Wish(
        uncommitted=said["uncommitted"], base=said["base"], commit=said["commit"],
        words=said["prompt"] or "",
    )  # fmt: skip
    target = find_target(wish, partial(_look, cwd=cwd, run=run_lines))
    order = ReviewWork(
        agent=said["agent"] or "", prompt=target.prompt, target=target.kind, hint=target.hint
    )
    click.echo(tell(run, order), err=True)
    return 0


def _look(script: str, *, cwd: Path, run: Any) -> str:
    output: str = run(script, cwd, shown="looking at the repository")
    return output
