"""What a play is: an escape that was tried or found, written down so that it can be tried again.

A play prepares a scene (files, sockets, servers), lets a scripted model run commands or call tools
in a real `swarm run`, looks whether anything got out, and whether it was tried at all. A module
`attacks_<group>.py` beside this one holds `PLAYS`, a tuple of them; `main.py` finds it by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

from attack_testbed import AttackTestbed

Stack = Literal["bwrap", "landlock"]
BOTH: tuple[Stack, ...] = ("bwrap", "landlock")
Call = Mapping[str, object]  # name, arguments: as in docs/scripted.md
Turn = Mapping[str, object]  # agent, calls, text: likewise


AUTHOR = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}  # fmt: skip
_SIGN = "the-play-began"


def bare_command(script: str, **arguments: object) -> Call:
    """A shell command as the model would ask for it."""
    return {"name": "exec_command", "arguments": {"cmd": script, **arguments}}


def command(script: str, **arguments: object) -> Call:
    """The same, and it first prints a sign that it runs."""
    return bare_command(f"echo the-'play'-began; {script}", **arguments)


def commands_ran(scene: AttackTestbed) -> str:
    """For plays whose commands must run to try anything: why that did not happen, or ""."""
    if _SIGN in scene.output:
        return run_ended(scene)
    return f"its commands did not run (exit {scene.exit_code}): {scene.output[-300:]}"


def run_ended(scene: AttackTestbed) -> str:
    """For plays whose calls may all be refused."""
    if '"type":"run.completed"' in scene.output:
        return ""
    return f"the run did not end by itself (exit {scene.exit_code}): {scene.output[-300:]}"


def _nothing(scene: AttackTestbed) -> None:
    """For plays that need no more than the project."""


def _no_host(scene: AttackTestbed) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(frozen=True)
class Attack:
    """One escape. It got out when `escaped` returns words; where neither that nor `tried` does, the
    walls held.
    """

    name: str  # a sentence: what is tried
    calls: Callable[[AttackTestbed], Sequence[Call]]  # one request of the model each
    find_escape: Callable[[AttackTestbed], str]  # looks at the world outside after the run
    prepare: Callable[[AttackTestbed], None] = _nothing
    # Lives beside the run.
    background: Callable[[AttackTestbed], AbstractContextManager[None]] = _no_host
    options: Callable[[AttackTestbed], Sequence[str]] = lambda scene: ()
    others: Callable[[AttackTestbed], Sequence[Turn]] = lambda scene: ()  # what other agents answer
    tried: Callable[[AttackTestbed], str] = commands_ran  # why the run shows nothing, "" if it does
    not_on: Mapping[Stack, str] = field(default_factory=dict[Stack, str])  # and why
    fast: bool = False  # part of the selection that CI plays
    must_work: bool = False  # the opposite: `escaped` says what did *not* work inside the walls
    deadline_s: float = 60.0
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
