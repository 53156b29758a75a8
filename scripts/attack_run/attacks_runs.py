"""Sockets of runs: control, feed, mailbox and gateway let no command in, also with the network."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from attack import Attack, Call, command
from attack_testbed import AttackTestbed

from swarm.mailbox.base.process_tree import kill_descendants_once

_WAIT_S, _YIELD_MS = 30.0, 30_000
# Tries each socket of each run: as it is, and as ZeroMQ's callers do, who are handed the way in.
_KNOCK = """
import array, os, socket
def attempt(address):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(5)
        try:
            caller.connect(address)
        except OSError as error:
            return print(error, address)
        print("CONN" + "ECTED", address)
        try:
            said, beside, _, _ = caller.recvmsg(9, socket.CMSG_SPACE(4))
        except OSError as error:
            return print(error, address)
    for _, _, data in beside:
        held = array.array("i")
        held.frombytes(data)
        print("LET" + " IN", address)
        for way in (f"/proc/{os.getpid()}/fd/{held[0]}", f"/proc/self/fd/{held[0]}",
                    f"/dev/fd/{held[0]}"):
            attempt(way)
for line in open("/proc/net/unix"):
    path = line.rstrip().partition(" /")[2]
    if f"/{path}".startswith("SCENE"):
        attempt(f"/{path}")
for folder in open("runs").read().split():
    for name in ("c", "f", "s", "g1"):
        attempt(f"{folder}/{name}")
"""
_STEERING = ("send $RUN /root hello", "interrupt $RUN", "approvals $RUN", "kill $RUN")
_READY = "touch began; until [ -s other ]; do sleep 0.1; done"


def _reach(scene: AttackTestbed) -> list[Call]:
    script = _KNOCK.replace("SCENE", str(scene.folder))
    swarm = Path(sys.executable).with_name("swarm")
    words = "; ".join(f"timeout 5 {swarm} {one} 2>&1" for one in _STEERING)
    home, runtime = scene.home / "other", scene.home / "run"
    other = f"export SWARM_HOME={home} XDG_RUNTIME_DIR={runtime}"
    return [
        command(f"{_READY}; python3 - <<'END'\n{script}\nEND", yield_time_ms=_YIELD_MS),
        command(f"RUN=$(cat other); {words}; true"),
        command(f"{other}; RUN=$(cat other); {words}; true"),
    ]


class _AnotherRun:
    """It waits in a command. `apart`: with its folders in the home, unknown to the run that is
    played; `later`: it begins after that one.
    """

    def __init__(self, scene: AttackTestbed, *, apart: bool, later: bool) -> None:
        self._scene, self._later = scene, later
        self._extra: dict[str, str] = {}
        self._sockets = scene.runtime / "swarm"
        if apart:
            home, runtime = scene.home / "other", scene.home / "run"
            for folder in (home, runtime):
                folder.mkdir(mode=0o700)
            self._extra = {"SWARM_HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}
            self._sockets = runtime / "swarm"
        scene.chown_files()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns once its sockets are there, and their folder's name in the project."""
        if self._later and not _comes(lambda: (self._scene.project / "began").exists()):
            return
        before = set(self._sockets.glob("*"))
        script = self._scene.folder / "other.json"
        waiting = {"cmd": "sleep 100", "yield_time_ms": _YIELD_MS}
        calls = [{"name": "exec_command", "arguments": waiting}]
        script.write_text(json.dumps({"turns": [{"calls": calls}], "default": {"text": "done"}}))
        swarm = Path(sys.executable).with_name("swarm")
        words = [*self._scene.argv_as_user(), str(swarm), "run", "-p", "wait", "--provider"]
        words += [f"scripted:{script}", "-C", str(self._scene.home)]
        self._process = subprocess.Popen(
            words, env=self._scene.environment(self._extra), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

        def sockets() -> list[Path]:
            return [path.parent for path in set(self._sockets.glob("*/g1"))]

        if _comes(lambda: bool(set(sockets()) - before)):
            folder = (set(sockets()) - before).pop()
            (self._scene.project / "runs").write_text(str(folder), "utf-8")
            (self._scene.project / "other").write_text(folder.name, "utf-8")

    def end(self) -> None:
        """With all that it started."""
        if self._process is not None:
            kill_descendants_once(self._process.pid)
            self._process.kill()
            self._process.wait()


def _comes(there: Callable[[], bool]) -> bool:
    """Wait until it is so; False: it took too long."""
    deadline = time.monotonic() + _WAIT_S
    while not there():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _beside(*, apart: bool, later: bool) -> Callable[[AttackTestbed], AbstractContextManager[None]]:
    @contextmanager
    def host(scene: AttackTestbed) -> Iterator[None]:
        other = _AnotherRun(scene, apart=apart, later=later)
        starting = threading.Thread(target=other.start)
        starting.start()
        if not later:
            starting.join()
        try:
            yield
        finally:
            starting.join()
            other.end()

    return host


def _reached(scene: AttackTestbed) -> str:
    return "a socket of a run was reached" if "CONNECTED" in scene.output else _let_in(scene)


def _let_in(scene: AttackTestbed) -> str:
    if "LET IN" in scene.output:
        return "a run let a command in"
    if not _ran(scene):
        return "the play did not come to its point"
    folder = (scene.project / "runs").read_text("utf-8")
    return "" if Path(folder, "owner").exists() else "the other run was ended"


def _ran(scene: AttackTestbed) -> bool:
    return (scene.project / "runs").exists() and "/g1" in scene.output


def _writing(folder: Callable[[AttackTestbed], Path]) -> Callable[[AttackTestbed], Sequence[str]]:
    """With the network, and that folder as one more root."""
    network = ("-c", "sandbox_workspace_write.network_access=true", "-s", "workspace-write")
    return lambda scene: (*network, "--add-dir", str(folder(scene)))


PLAYS = (
    Attack(
        name="reach the sockets of this and another run with the network granted",
        background=_beside(later=False, apart=False), calls=_reach, find_escape=_reached,
        options=_writing(lambda scene: scene.project),
    ),
    Attack(
        name="the same where the command may write in all folders of the run",
        background=_beside(later=False, apart=False), calls=_reach, find_escape=_reached,
        options=_writing(lambda scene: scene.folder),
    ),
    Attack(
        name="reach the sockets of a run whose folders lie in a writable root",
        background=_beside(later=False, apart=True), calls=_reach, find_escape=_reached,
        options=_writing(lambda scene: scene.home),
    ),
    Attack(
        name="the same where that run begins later",
        background=_beside(apart=True, later=True), calls=_reach, find_escape=_let_in,
        options=_writing(lambda scene: scene.home),
    ),
)  # fmt: skip
