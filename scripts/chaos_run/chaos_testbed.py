"""Where one play is performed: folders, a small disk, the environment, and who lives there.

Rule: whatever was started here carries the stage's mark or the run's id, and is gone with it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from fault_controls import FaultControls

from swarm.mailbox.base.ids import new_uuid7, short_id
from swarm.mailbox.base.process_tree import descendants_of, is_zombie
from swarm.supervisor.runs.paths import RunPaths

HERE = Path(__file__).parent
_MCP_SERVER = "counting_server.py"
DISK_BYTES = 24 * 1024 * 1024
_STARTED = 19  # of proc(5) stat, counted after the name
_CONFIG = """\
model = "chaos"
model_provider = "chaos"
[model_providers.chaos]
name = "chaos"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
request_max_retries = 40
stream_max_retries = 40
stream_idle_timeout_ms = 3000
[mcp_servers.counter]
command = "{python}"
args = ["{tools}/{server}", "{work}/effects"]
env = {{ CHAOS_MARK = "{mark}" }}
writable_roots = ["{work}"]
supports_parallel_tool_calls = true
"""


class RunProcess(NamedTuple):
    """A process of the run. `title` is its command line."""

    pid: int
    title: str


class ChaosTestbed:
    """Made by `open_chaos_testbed`."""

    def __init__(self, folder: Path, *, has_disk: bool) -> None:
        self.folder, self.has_disk = folder, has_disk
        self.mark = f"chaos-{new_uuid7()}"
        self.work, self.home = folder / "work", folder / "home"
        self.tmp, self.runtime = folder / "tmp", folder / "r"
        self.state = self.home / "state"
        self.served, self.tools = folder / "served", folder / "tools"
        for each in (self.work, self.state, self.tmp, self.runtime, self.tools):
            each.mkdir(parents=True, mode=0o700)
        self.controls = FaultControls(folder / "page")
        self._seen: dict[int, int] = {}  # pid → when it started

    def environment(self, seed: str) -> dict[str, str]:
        """What the command sees."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SHELL": "/bin/sh",
            "SWARM_HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.tmp),
            "CHAOS_MARK": self.mark,
            "CHAOS_SEED": seed,
        }

    def start_model(self, seed: str) -> "subprocess.Popen[bytes]":
        """Start the model server and write the configuration that names it. However we end, it
        follows: its stdin is a lifeline, and the caller's to close."""
        port_file = self.folder / "port"
        argv = [sys.executable, "-P", str(HERE / "chaos_model_server.py"), str(port_file),
                str(self.folder / "page"), str(self.served), seed]  # fmt: skip
        with (self.folder / "model.err").open("wb") as err:
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=err)
        while not port_file.exists():
            if process.poll() is not None:
                raise RuntimeError((self.folder / "model.err").read_text())
            time.sleep(0.01)
        config = _CONFIG.format(
            port=port_file.read_text(), python=sys.executable, work=self.work, mark=self.mark,
            server=_MCP_SERVER, tools=self.tools,
        )  # fmt: skip
        # where agents do not write: a server that they could exchange would get no folder to write
        shutil.copy(HERE / _MCP_SERVER, self.tools / _MCP_SERVER)
        (self.home / "config.toml").write_text(config)
        return process

    # --- the run ------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The only run of this stage that has begun; "" while there is none. A supervisor that is
        killed before it has written the run's first file leaves nothing to go on with.
        """
        found = sorted((self.state / "runs").glob("*/run.json"))
        return found[0].parent.name if found else ""

    @property
    def places(self) -> RunPaths:
        """The run's files and sockets."""
        sockets = self.runtime / "swarm" / short_id(self.run_id)
        return RunPaths(folder=self.state / "runs" / self.run_id, sockets=sockets)

    def list_processes(self, supervisor: int | None) -> list[RunProcess]:
        """Every process of the run but the supervisor itself. Zombies do not count."""
        below = descendants_of(supervisor) if supervisor is not None else []
        for pid in below:
            with suppress(OSError):
                self._seen[pid] = _started(pid)
        run, mark = short_id(self.run_id) if self.run_id else "no run", self.mark.encode()
        found: list[RunProcess] = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or (pid := int(entry.name)) == supervisor:
                continue
            with suppress(OSError):
                raw = (entry / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
                title = raw.decode(errors="replace")
                ours = (
                    (title.startswith("swarm: ") and run in title)
                    or self._seen.get(pid) == _started(pid)
                    or b"CHAOS_MARK=" + mark in (entry / "environ").read_bytes()
                )
                if ours and not is_zombie(pid):
                    found.append(RunProcess(pid, title))
        return found

    def kill_processes(self) -> None:
        """Kill whatever is left of the run."""
        for _ in range(5):
            for one in self.list_processes(None):
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)

    def leftovers(self) -> list[str]:
        """Files that an ended run may not leave: sockets, and all temporary ones."""
        sockets = self.runtime / "swarm"
        left = [*sockets.iterdir()] if sockets.is_dir() else []
        return sorted(str(one.relative_to(self.folder)) for one in (*left, *self.tmp.iterdir()))

    # --- the disk -----------------------------------------------------------------------------

    def fill_disk(self) -> None:
        """Leave not one byte free where the run writes."""
        with (self.state / "filler").open("ab", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(64 * 1024))
        with (self.state / "filler").open("ab", buffering=0) as filler, suppress(OSError):
            while True:
                filler.write(bytes(512))

    def free_disk(self) -> None:
        """Give the space back."""
        (self.state / "filler").unlink(missing_ok=True)


@contextmanager
def open_chaos_testbed(*, wants_disk: bool) -> Iterator[ChaosTestbed]:
    """A stage of its own; with `wants_disk` on a small disk, which needs a mount namespace."""
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    stage = ChaosTestbed(folder, has_disk=wants_disk)
    try:
        if wants_disk:
            _mount(stage.state)
        yield stage
    finally:
        stage.kill_processes()
        if wants_disk:
            subprocess.run(["umount", "-l", str(stage.state)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mount(folder: Path) -> None:
    options = f"size={DISK_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", str(folder)], check=True)


def enter_mount_namespace() -> bool:
    """Be in a mount namespace of our own, by starting again in one; False where that is refused."""
    if os.environ.get("CHAOS_MOUNTS"):
        return os.environ["CHAOS_MOUNTS"] == "yes"
    flags = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--mount"]
    words = ["unshare", *flags, "--propagation", "private"]
    with suppress(OSError):
        probe = "mount -t tmpfs chaos /mnt"
        done = subprocess.run([*words, "sh", "-c", probe], capture_output=True, check=False)
        if done.returncode == 0:
            os.environ["CHAOS_MOUNTS"] = "yes"
            os.execvp(words[0], [*words, sys.executable, "-P", *sys.argv])
    os.environ["CHAOS_MOUNTS"] = "no"
    return False


def _started(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_bytes()
    return int(stat.rpartition(b") ")[2].split()[_STARTED])
