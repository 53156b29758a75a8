"""The `notify` key: starts a program after each turn of the root, with one JSON argument.

It is the person's own program and receives nothing secret. Nobody waits for it, and its result
changes nothing.
"""

import subprocess
from collections import deque
from collections.abc import Mapping, Sequence

import click
import msgspec

from swarm.mailbox.ids import ROOT_PATH
from swarm.mailbox.protocol.control import AnyFeed, Recorded
from swarm.mailbox.protocol.events import TurnCompleted
from swarm.mailbox.protocol.ops import TextInput
from swarm.mailbox.protocol.records import AgentSpawned, InputPosted

_TEXT_CHARS = 8_000  # of one message: an argument may hold 128 KiB
_MOST_MESSAGES = 8
_MOST_RUNNING = 8


class TurnNotifier:
    """Listens to the run's feed. Never waits and raises nothing."""

    def __init__(self, argv: Sequence[str], *, cwd: str, environment: Mapping[str, str]) -> None:
        self._argv, self._cwd, self._environment = list(argv), cwd, dict(environment)
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
                    [*self._argv, msgspec.json.encode(about).decode().replace("\0", "")],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, env=self._environment, start_new_session=True,
                )
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._warn(str(error))

    def _warn(self, why: str) -> None:
        if not self._warned:
            self._warned = True
            click.echo(f"swarm: warning: notify: {why}", err=True)
