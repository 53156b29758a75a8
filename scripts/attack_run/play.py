"""What a play is: an escape that was tried or found, written down so that it can be tried again.

A play prepares a scene (files, sockets, servers), lets a scripted model run commands or call tools
in a real `swarm run`, and then looks whether anything got out. A module `plays_<group>.py` beside
this one holds `PLAYS`, a tuple of them; `main.py` finds it by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from scene import Scene

Stack = Literal["bwrap", "landlock"]
BOTH: tuple[Stack, ...] = ("bwrap", "landlock")
Call = Mapping[str, object]  # name, arguments: as in docs/scripted.md


def command(script: str, **arguments: object) -> Call:
    """A shell command as the model would ask for it."""
    return {"name": "exec_command", "arguments": {"cmd": script, **arguments}}


def _nothing(scene: Scene) -> None:
    """For plays that need no more than the project."""


def _no_host(scene: Scene) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Play:
    """One escape. It got out when `escaped` returns words; "" means that the walls held."""

    name: str  # a sentence: what is tried
    calls: Callable[[Scene], Sequence[Call]]  # one request of the model each
    escaped: Callable[[Scene], str]  # looks at the world outside after the run
    prepare: Callable[[Scene], None] = _nothing
    host: Callable[[Scene], AbstractContextManager[None]] = _no_host  # lives beside the run
    options: Callable[[Scene], Sequence[str]] = lambda scene: ()
    stacks: tuple[Stack, ...] = BOTH
    fast: bool = False  # part of the selection that CI plays
    must_work: bool = False  # the opposite: `escaped` says what did *not* work inside the walls
    deadline_s: float = 60.0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
