"""`--notify COMMAND`: run a command when an approval waits for a person and at the end of the run.

It receives one JSON argument and a few variables, none secret. It is limited in time and number,
runs beside the run, and its failure is only a warning.
"""

import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping

import click
import msgspec
import trio

from swarm.mailbox.errors import UsageError
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.records import ApprovalRequested, Record, RunCompleted

from ..console.approval_description import action_kind, describe_action
from ..run_request import RunRequest

_LIMIT_S = 10.0
_MOST_WAITING = 16  # approvals that wait for their notification; more are dropped
_Draw = Callable[[Callable[[], RunView]], Awaitable[None]]


class RunNotifier:
    """One per run. Made by `open_notifier`."""

    def __init__(self, words: list[str], *, run_id: str, environment: Mapping[str, str]) -> None:
        self._argv, self._run_id, self._environment = words, run_id, environment
        send, self._receive = trio.open_memory_channel[Record](_MOST_WAITING)
        self._send = send
        self._warned = False

    def on_feed(self, feed: AnyFeed) -> None:
        """Queue a notification for an approval of a person. Never waits."""
        if not isinstance(feed, Recorded):
            return
        body = feed.record.body
        if isinstance(body, ApprovalRequested) and body.reviewer == "person":
            try:
                self._send.send_nowait(feed.record)
            except trio.WouldBlock:
                self._warn("too many approvals at once")

    async def run_beside(self, draw: _Draw, current: Callable[[], RunView]) -> None:
        """Draw, and send notifications beside it, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_for_approvals)
            await draw(current)

    async def _run_for_approvals(self) -> None:
        async for record in self._receive:
            if isinstance(record.body, ApprovalRequested):
                about, variables = _about(record, record.body)
                await trio.to_thread.run_sync(self._call, about, variables, abandon_on_cancel=True)

    def finish(self, completed: RunCompleted) -> None:
        """Send the last notification; blocks for at most ten seconds."""
        about = {
            "type": "run.completed",
            "run": self._run_id,
            "status": completed.status,
            "message": completed.message,
            "last_message": completed.result,
        }
        self._call(about, {"SWARM_EVENT": "run.completed", "SWARM_STATUS": completed.status})

    def _call(self, about: Mapping[str, object], variables: Mapping[str, str]) -> None:
        told = {"run": self._run_id, **about}
        words = [*self._argv, msgspec.json.encode(told).decode()]
        environment = {**self._environment, "SWARM_RUN": self._run_id, **variables}
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, timeout=_LIMIT_S, check=False, env=environment,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            self._warn(str(error))
        else:
            if done.returncode != 0:
                self._warn(f"it ended with exit code {done.returncode}")

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            click.echo(f"swarm: warning: --notify: {why}", err=True)


def open_notifier(command: str | None, request: RunRequest) -> RunNotifier | None:
    """The notifier; None without a command or run id."""
    if command is None or request.run_id is None:
        return None
    return RunNotifier(
        split_command(command), run_id=request.run_id, environment=request.environment
    )


def _about(record: Record, body: ApprovalRequested) -> tuple[dict[str, object], dict[str, str]]:
    request = body.request
    what = describe_action(request.action)
    about: dict[str, object] = {
        "type": "approval.requested",
        "id": body.approval_id,
        "agent": record.agent,
        "kind": action_kind(request.action),
        "action": what,
        "cause": request.cause,
    }
    variables = {
        "SWARM_EVENT": "approval.requested",
        "SWARM_APPROVAL": body.approval_id,
        "SWARM_AGENT": record.agent,
        "SWARM_ACTION": what,
    }
    return about, variables


def split_command(command: str) -> list[str]:
    """Split a command like a shell does. Raises UsageError if it is empty or a quote is open."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--notify: {error}: {command}") from error
    if not words:
        raise UsageError("--notify: the command is empty")
    return words
