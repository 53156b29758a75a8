"""The programs that a person is notified with; each gets one JSON argument and nothing secret.

`--notify COMMAND` runs when an approval waits for a person and at the end of the run, limited in
time and number. The `notify` key's program is started after each turn of the root and never waited
for. A failure of either is only a warning.
"""

import shlex
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import trio

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AnyFeed, Recorded, RunView
from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import (
    AgentSpawned,
    ApprovalRequested,
    InputPosted,
    Record,
    RunCompleted,
)

from ....parts.part_lines import describe_long_wait
from ....request.persons_command import PersonsCommand
from ....request.run_request import RunRequest
from ....views.approval_description import action_kind, describe_action
from .printing import say

_LIMIT_S = 10.0
_MOST_WAITING = 16  # approvals that wait for their notification; more are dropped
_TEXT_CHARS = 8_000  # of one message: an argument may hold 128 KiB
_MOST_MESSAGES = 8
_MOST_RUNNING = 8
_Draw = Callable[[Callable[[], RunView]], Awaitable[None]]


class RunNotifier:
    """The command of `--notify`; one per run."""

    def __init__(self, command: PersonsCommand, *, run_id: str) -> None:
        self._command, self._run_id = command, run_id
        send, self._receive = trio.open_memory_channel[Record](_MOST_WAITING)
        self._send = send
        self._warned = False

    def on_feed(self, feed: AnyFeed) -> None:
        """Queue a notification for an approval of a person, or a wait. Never waits."""
        if not isinstance(feed, Recorded):
            return
        body = feed.record.body
        is_question = isinstance(body, ApprovalRequested) and body.reviewer == "person"
        if is_question or describe_long_wait(body):
            try:
                self._send.send_nowait(feed.record)
            except trio.WouldBlock:
                self._warn("too much at once to be told of")

    async def run_beside(self, draw: _Draw, current: Callable[[], RunView]) -> None:
        """Draw, and send notifications beside it, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run_for_approvals)
            await draw(current)

    async def _run_for_approvals(self) -> None:
        async for record in self._receive:
            if (told := _tell(record)) is not None:
                about, variables = told
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
        content = {"run": self._run_id, **about}
        if isinstance(held := self._command.find(), str):
            self._warn(held)
            return
        argv = [*held.argv, msgspec.json.encode(content).decode()]
        environment = {**held.environment, "SWARM_RUN": self._run_id, **variables}
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
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
            say(f"warning: --notify: {why}")


def open_notifier(command: str | None, request: RunRequest) -> RunNotifier | None:
    """The notifier; None without a command or run id."""
    if command is None or request.run_id is None:
        return None
    argv = split_command(command)
    return RunNotifier(PersonsCommand(argv, request), run_id=request.run_id)


def _tell(record: Record) -> tuple[dict[str, object], dict[str, str]] | None:
    if isinstance(record.body, ApprovalRequested):
        return _about(record, record.body)
    if not (text := describe_long_wait(record.body)):
        return None
    return {"type": "run.waits", "message": text}, {"SWARM_EVENT": "run.waits"}


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
        argv = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--notify: {error}: {command}") from error
    if not argv:
        raise UsageError("--notify: the command is empty")
    return argv


class TurnNotifier:
    """The `notify` key's program, started by the run's feed. Never waits and raises nothing."""

    def __init__(self, command: PersonsCommand, *, cwd: str) -> None:
        self._command, self._cwd = command, cwd
        self._root_id = ""
        self._inputs: deque[str] = deque(maxlen=_MOST_MESSAGES)
        self._running: list[subprocess.Popen[bytes]] = []
        self._warned = False

    def on_feed(self, feed: AnyFeed) -> None:
        """Handle one record of the run; transient events are ignored."""
        if not isinstance(feed, Recorded) or feed.record.agent != ROOT_PATH:
            return
        match feed.record.body:
            case AgentSpawned(agent_id=agent_id):
                self._root_id = agent_id
            case InputPosted(parts=parts):
                texts = [part.text for part in parts if isinstance(part, TextInput)]
                self._inputs.append("\n".join(texts)[:_TEXT_CHARS])
            case TurnCompleted() as ended:
                self._start(ended)
            case _:
                pass

    def _start(self, ended: TurnCompleted) -> None:
        self._running = [one for one in self._running if one.poll() is None]
        if len(self._running) >= _MOST_RUNNING:
            self._warn(f"{_MOST_RUNNING} of them still run; it was not started again")
            return
        if isinstance(held := self._command.find(), str):
            self._warn(held)
            return
        last = ended.last_message
        about = {
            "type": "agent-turn-complete",
            "thread-id": self._root_id,
            "turn-id": ended.turn_id,
            "cwd": self._cwd,
            "input-messages": list(self._inputs),
            "last-assistant-message": None if last is None else last[:_TEXT_CHARS],
        }
        try:
            self._running.append(
                subprocess.Popen(
                    [*held.argv, msgspec.json.encode(about).decode().replace("\0", "")],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, env=held.environment, start_new_session=True,
                )
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._warn(str(error))

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            say(f"warning: notify: {why}")


def open_turn_notifier(request: RunRequest) -> TurnNotifier | None:
    """The notifier of the `notify` key; None without one."""
    if not request.notify:
        return None
    return TurnNotifier(PersonsCommand(request.notify, request), cwd=request.cwd)
