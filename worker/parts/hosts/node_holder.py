"""Ray's actor: it starts a node and holds its pipe, and installs a lock of packages before.

It is sent as it is to machines whose Ray may have no swarm: the standard library is all it uses.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO

TIDY_LIMIT_S = 10.0
INSTALL_LIMIT_S = 900.0
_KEPT_S = 30 * 86_400.0  # an environment that no node used for so long is removed
_NODE = ("-P", "-m", "swarm.supervisor.parts.node.node_process")
_TAIL = 300  # of what an installer wrote
_DONE = "installed"
_OWN_METADATA = "swarm_supervisor-*.dist-info/entry_points.txt"
_OWN_COMMAND = "= swarm_command:"


class NodeHolder:
    """The actor: its process starts the node, a process of its own, and holds its input."""

    def __init__(self) -> None:
        self._node: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def install(self, files: str, python: str) -> str:
        """Install a lock: its files by name, as JSON. Returns its Python. Raises RuntimeError."""
        return install_lock(json.loads(files), python or sys.executable)

    def start(self, order: str, python: str) -> str:
        """The node's card, both in Base64 as they go through pipes. Raises RuntimeError."""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the node lives
        node = self._node = subprocess.Popen(
            [python or sys.executable, *_NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._said, start_new_session=True,
        )  # fmt: skip
        assert node.stdin is not None
        assert node.stdout is not None
        node.stdin.write(order.encode() + b"\n")
        node.stdin.flush()
        card = node.stdout.readline(64 * 1024).decode()
        if not card:
            code = node.wait(5)
            raise RuntimeError(f"the node ended at its start, with code {code}: {self.said()}")
        return card

    def said(self) -> str:
        """The end of what the node wrote to its standard error."""
        if self._said is None:
            return ""
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - 2000))
        return self._said.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Close the node's input, which ends it, and wait a while until it has tidied up."""
        if self._node is not None and self._node.stdin is not None:
            self._node.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._node.wait(TIDY_LIMIT_S)

    def end_of(self) -> str | None:
        """None while the node lives; else why it has ended."""
        if self._node is None or (code := self._node.poll()) is None:
            return None
        said = self.said().splitlines()[-1:]
        return f"its process has ended with code {code}" + (f": {said[0]}" if said else "")


def install_lock(files: dict[str, str], python: str) -> str:
    """Make an environment of what the lock names, once for each lock and machine.

    Returns the Python of the environment. Others wait meanwhile. Raises RuntimeError, OSError.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "swarm" / "environments"
    for one in (cache, folder.parent, folder):  # not by the umask of Ray's worker
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
    kind = json.dumps([python, sys.version, sorted(files.items())])
    mark = sha256(kind.encode()).hexdigest()[:16]
    made = folder / mark
    with (folder / f"{mark}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / _DONE).exists():
            shutil.rmtree(made, ignore_errors=True)
            _install(files, python, made, lock.fileno())
            check_environment(made)
        (made / _DONE).touch()
        _remove_old(folder)
    return str(made / "bin" / "python")


def _install(files: dict[str, str], python: str, made: Path, lock: int) -> None:
    uv = shutil.which("uv")
    with tempfile.TemporaryDirectory() as text:
        source = Path(text)
        for name, contents in files.items():
            (source / name).write_text(contents)
        if ("uv.lock" in files or "pylock.toml" in files) and uv is None:
            raise RuntimeError("this lock is uv's, and there is no uv: install it there")
        if "uv.lock" in files:
            _run(
                [uv or "", "sync", "--frozen", "--no-dev", "--no-install-project", "--python",
                 python, "--project", text],
                lock, UV_PROJECT_ENVIRONMENT=str(made),
            )  # fmt: skip
            return
        (name,) = files
        inside = str(made / "bin" / "python")
        if uv is None:
            _run([python, "-m", "venv", str(made)], lock)
            _run(
                [inside, "-m", "pip", "install", "--no-deps", "--no-input", "--quiet",
                 "--disable-pip-version-check", "-r", str(source / name)],
                lock,
            )  # fmt: skip
        else:
            _run([uv, "venv", "--quiet", "--python", python, str(made)], lock)
            _run(
                [uv, "pip", "install", "--no-deps", "--quiet", "--python", inside, "-r",
                 str(source / name)],
                lock,
            )  # fmt: skip


def check_environment(made: Path) -> None:
    """Raises RuntimeError if another package would be found as `swarm` there. Executes nothing."""
    folders = list(made.glob("lib*/python*/site-packages"))
    names = ("swarm/__init__.*", "swarm.py", "swarm.*so")
    strangers = [found for one in folders for name in names for found in one.glob(name)]
    if strangers:
        raise RuntimeError(
            f"its python_env has another package called `swarm` ({strangers[0]}), which hides this "
            "one; lock an environment without it"
        )
    texts = [
        path.read_text(errors="replace") for one in folders for path in one.glob(_OWN_METADATA)
    ]
    if not any(_OWN_COMMAND in text for text in texts):
        raise RuntimeError("its python_env has no swarm, or a stranger's package under its name")


def _run(command: list[str], lock: int, **more: str) -> None:
    """It keeps the lock as long as it runs, also without us. Raises RuntimeError."""
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=os.environ | more, pass_fds=(lock,), timeout=INSTALL_LIMIT_S, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        said = ended.stdout.decode(errors="replace").strip()[-_TAIL:]
        raise RuntimeError(f"its python_env could not be installed: {' '.join(said.split())}")


def _remove_old(folder: Path) -> None:
    for done in folder.glob(f"*/{_DONE}"):
        with suppress(OSError):  # another process is at it, or was
            if time.time() - done.stat().st_mtime <= _KEPT_S:
                continue
            with (folder / f"{done.parent.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(done.parent, ignore_errors=True)
