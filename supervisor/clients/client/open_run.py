"""Start a run in the background, by the command line that a person would type.

The run belongs to no terminal and to no parent: if this process dies, it goes on.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

import anyio

from ...runs.client_errors import RunFailedToStart
from ...runs.paths import find_user_paths, paths_of_run
from .live_run import LiveRun

_START_LIMIT_S = 60.0  # `--detach` itself waits 30 s for the first record
_STOP_LIMIT_S = 30.0
_MAX_WORDS = 4000  # characters of a failed start's words that are passed on


class NewRunOptions(TypedDict, total=False):
    """What `swarm run` can be told by its options; what is left out is as the configuration says.

    `reviewer` is "person" if this client answers approvals, "guardian" or "nobody".
    """

    cwd: str | Path
    add_dirs: Sequence[str | Path]
    images: Sequence[str | Path]
    model: str
    provider: str
    effort: str
    role: str
    profile: str
    sandbox: str  # read-only, workspace-write, danger-full-access
    approval: str  # untrusted, on-failure, on-request, never
    reviewer: str
    max_agents: int
    budget_tokens: int
    budget_usd: float
    deadline: str  # as "30m"
    wait_for_limit: str  # as "6h" or "never", which is the default without a person
    output_schema: str | Path  # a file
    config: Mapping[str, str]  # keys of config.toml; values are TOML, else text
    ephemeral: bool
    options: Sequence[str]  # any further options of `swarm run`, as they are typed
    environment: Mapping[str, str]  # instead of this process's


_VALUES = {
    "cwd": "--cd", "model": "--model", "provider": "--provider", "effort": "--effort",
    "role": "--role", "profile": "--profile", "sandbox": "--sandbox", "approval": "--approval",
    "reviewer": "--reviewer", "max_agents": "--max-agents", "budget_tokens": "--budget-tokens",
    "budget_usd": "--budget-usd", "deadline": "--deadline", "output_schema": "--output-schema",
    "wait_for_limit": "--wait-for-limit",
}  # fmt: skip


def run_arguments(options: NewRunOptions) -> list[str]:
    """The arguments of `swarm` that start such a run, its task on stdin."""
    line = ["run", "--detach", "--prompt-file=-"]
    given: dict[str, object] = dict(options)
    line += [f"{flag}={given[name]}" for name, flag in _VALUES.items() if name in given]
    line += [f"--add-dir={folder}" for folder in options.get("add_dirs", ())]
    line += [f"--image={image}" for image in options.get("images", ())]
    line += [f"--config={key}={value}" for key, value in options.get("config", {}).items()]
    line += [] if options.get("reviewer") == "person" else ["--by-program"]
    line += ["--ephemeral"] if options.get("ephemeral") else []
    return [*line, *options.get("options", ())]


@asynccontextmanager
async def open_run(
    task: str, *, leave_running: bool = False, **options: Unpack[NewRunOptions]
) -> AsyncIterator[LiveRun]:
    """Start a run with this task, and end it when the block is left.

    Args:
        task: The task as text, at most 1 MiB; no front matter is read from it.
        leave_running: Leave the run as it is at the end of the block; attach to it again later.
        options: See `NewRunOptions`.

    Raises RunFailedToStart with the words and the exit code of `swarm run`.
    """
    environment = options.get("environment", os.environ)
    run = await start_in_background(run_arguments(options), task, environment)
    try:
        yield run
    finally:
        if not leave_running:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_STOP_LIMIT_S):
                await run.cancel()


class StartedRun(NamedTuple):
    """A run, and what its start warned of."""

    run: LiveRun
    warnings: tuple[str, ...]


async def start_in_background(
    arguments: Sequence[str], text: str, environment: Mapping[str, str]
) -> LiveRun:
    """As `start_with_warnings`, without the warnings."""
    return (await start_with_warnings(arguments, text, environment)).run


async def start_with_warnings(
    arguments: Sequence[str], text: str, environment: Mapping[str, str]
) -> StartedRun:
    """Run a `swarm` command that detaches, with `text` on its stdin; return the run it started.

    It is not cancelled before the run's id is known: a run that nobody knows would stay.
    """
    # -P: nothing of the present folder is imported
    command = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry", *arguments]
    with anyio.CancelScope(shield=True), anyio.move_on_after(_START_LIMIT_S):
        done = await anyio.run_process(
            command, input=text.encode(errors="replace"), check=False, env=dict(environment)
        )
        run_id = done.stdout.decode(errors="replace").strip()
        stderr = done.stderr.decode(errors="replace").strip()
        if done.returncode or not run_id:
            words = stderr.removeprefix("swarm: ")
            raise RunFailedToStart(
                words[-_MAX_WORDS:] or "the run did not start", exit_code=done.returncode or 1
            )
        run = LiveRun(paths_of_run(find_user_paths(dict(environment)), run_id))
        return StartedRun(run, _warnings(stderr[-_MAX_WORDS:]))
    raise RunFailedToStart(
        f"the run did not start within {_START_LIMIT_S:g} s; see `swarm ps`", exit_code=1
    )


def _warnings(stderr: str) -> tuple[str, ...]:
    begin = "swarm: warning: "
    lines = [line for line in stderr.splitlines() if line.startswith(begin)]
    return tuple(line.removeprefix(begin) for line in lines)
