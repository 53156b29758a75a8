"""A Ray cluster of three machines on one: each in a network namespace of its own, joined by wires.

All of it lies in a network namespace that this process enters, so nothing outside is changed. Needs
root and `ip`. A wire can be cut and mended.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC_PRIVATE = 0x4000 | 0x40000
HEAD, PORT = "10.77.0.1", 6399
ADDRESS = f"{HEAD}:{PORT}"
_SLOW_WIRE = Path(__file__).with_name("slow_wire.py")
_RAY = str(Path(sys.executable).with_name("ray"))
_START_LIMIT_S, _SETTLED_S = 60.0, 2.0
_HELD_TEXT = "sleep 100000"


def enter_namespaces() -> None:
    """Give this process a network and mounts of its own. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "no namespaces can be had: this needs root")
    libc.mount(None, b"/", None, _MS_REC_PRIVATE, None)
    run("ip", "link", "set", "lo", "up")
    run("ip", "addr", "add", f"{HEAD}/32", "dev", "lo")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


class Machine:
    """One namespace, and what Ray has in it. `number`: 1 and up."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number, self.address = number, f"10.77.{number}.2"
        self.home = folder / f"machine{number}"
        self.home.mkdir()
        self.environment: dict[str, str] = {}
        self._holder = subprocess.Popen(["unshare", "-n", *_HELD_TEXT.split()])
        self.prefix: list[str] = []  # a command that execs Ray
        self._raylet: subprocess.Popen[bytes] | None = None
        self._wire: subprocess.Popen[bytes] | None = None
        self._connect()

    def slow_down(self, delay_ms: float, loss: float) -> None:
        """From now on every packet takes so much longer, each way, and such a share is lost."""
        run("ip", "link", "del", f"v{self.number}")
        names = (f"v{self.number}", f"w{self.number}")
        wire = self._wire = subprocess.Popen(
            [sys.executable, "-P", str(_SLOW_WIRE), str(self._holder.pid), *names, str(delay_ms),
             str(loss)],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert wire.stdout is not None
        if wire.stdout.readline() != b"ready\n":
            raise OSError("no slow wire can be had: it needs /dev/net/tun")
        self._address()

    def _connect(self) -> None:
        here, there = f"v{self.number}", f"w{self.number}"
        pid = str(self._holder.pid)
        until(
            lambda: Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
        )
        run("ip", "link", "add", here, "type", "veth", "peer", "name", there)
        run("ip", "link", "set", there, "netns", pid)
        self._address()

    def _address(self) -> None:
        here, there = f"v{self.number}", f"w{self.number}"
        pid = str(self._holder.pid)
        run("ip", "addr", "add", f"10.77.{self.number}.1/24", "dev", here)
        run("ip", "link", "set", here, "up")
        if self.number == 1:  # Ray asks the kernel which address it has on the way out
            run("ip", "route", "add", "default", "dev", here, "src", HEAD)
        for words in (
            f"ip addr add {self.address}/24 dev {there}",
            f"ip link set {there} up",
            "ip link set lo up",
            f"ip route add default via 10.77.{self.number}.1",
        ):
            run("nsenter", "-t", pid, "-n", *words.split())

    def cut(self) -> None:
        """No packet gets through any more."""
        run("ip", "link", "set", f"v{self.number}", "down")

    def mend(self) -> None:
        run("ip", "link", "set", f"v{self.number}", "up")
        if self.number == 1:
            run("ip", "route", "replace", "default", "dev", "v1", "src", HEAD)

    def join(self) -> None:
        """Start Ray there; again, if it ends at once, as it may where several share a machine."""
        ends = time.monotonic() + _START_LIMIT_S
        lives_since = None
        while lives_since is None or time.monotonic() - lives_since < _SETTLED_S:
            if self.processes("raylet/raylet"):
                lives_since = lives_since or time.monotonic()
            elif self._raylet is None or self._raylet.poll() is not None:
                lives_since = None
                self._start_ray()
            if time.monotonic() > ends:
                raise TimeoutError(f"Ray does not start on machine {self.number}")
            time.sleep(0.1)

    def _start_ray(self) -> None:
        self._raylet = subprocess.Popen(
            ["nsenter", "-t", str(self._holder.pid), "-n", *self.prefix, _RAY, "start",
             f"--address={ADDRESS}", f"--node-ip-address={self.address}", "--num-cpus=1", "--block",
             "--disable-usage-stats", "--labels=side=away"],
            env={**os.environ, "SWARM_HOME": str(self.home), **self.environment},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    @contextmanager
    def program(self, *words: str) -> Iterator[None]:
        """Run a program in its network for the duration of the block."""
        started = subprocess.Popen(["nsenter", "-t", str(self._holder.pid), "-n", *words])
        try:
            yield
        finally:
            started.kill()
            started.wait()

    def processes(self, words: str) -> list[int]:
        """Pids of processes in this namespace whose command line holds these words."""
        mine = network_of(self._holder.pid)
        found = []
        for pid in pids():
            with suppress(OSError):
                if words in command_line(pid) and network_of(pid) == mine:
                    found.append(pid)
        return found

    def kill_raylet(self) -> None:
        """As if the machine had lost Ray."""
        for pid in self.processes("raylet/raylet"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """End everything in the namespace."""
        for pid in self.processes(""):
            if pid != self._holder.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._holder.kill()
        if self._wire is not None:
            self._wire.kill()
        for process in (self._holder, self._raylet, self._wire):
            if process is not None:
                process.wait()
        with suppress(subprocess.CalledProcessError):
            run("ip", "link", "del", f"v{self.number}")


def network_of(pid: str | int) -> Path:
    """Which network namespace it is in. Raises OSError."""
    return Path(f"/proc/{pid}/ns/net").readlink()


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    """Its words, or its title. Raises OSError."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def until(fact: Callable[[], object], limit_s: float = _START_LIMIT_S) -> None:
    """Look until it is true. Raises TimeoutError."""
    ends = time.monotonic() + limit_s
    while not fact():
        if time.monotonic() > ends:
            raise TimeoutError("it did not become true in time")
        time.sleep(0.05)


@contextmanager
def open_cluster(folder: Path, machines: int) -> Iterator[list[Machine]]:
    """A head without processors, and machines that have not joined yet."""
    found: list[Machine] = []
    head = None
    try:
        found.extend(Machine(number, folder) for number in range(1, machines + 1))
        head = subprocess.Popen(
            [_RAY, "start", "--head", f"--node-ip-address={HEAD}", f"--port={PORT}",
             "--num-cpus=1", "--block", "--include-dashboard=false", "--disable-usage-stats",
             "--labels=side=home", f"--temp-dir={folder}/ray"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "SWARM_HOME": str(folder / "head")},
        )  # fmt: skip
        (folder / "head").mkdir()
        until(_answers)
        yield found
    finally:
        for one in found:
            with suppress(OSError, subprocess.SubprocessError):
                one.mend()
            one.end()
        if head is not None:
            _end_session(head.pid)
            head.wait()


def _answers() -> bool:
    """The head's own raylet is there, too."""
    if not any("raylet/raylet" in title_of(pid) for pid in pids()):
        return False
    try:
        socket.create_connection((HEAD, PORT), timeout=1).close()
    except OSError:
        return False
    return True


def title_of(pid: int) -> str:
    with suppress(OSError):
        return command_line(pid)
    return ""


def _end_session(leader: int) -> None:
    """End all processes of the head: those of this namespace that are Ray's."""
    mine = network_of("self")
    for pid in pids():
        with suppress(OSError):
            is_ray = any(word in command_line(pid) for word in ("/ray/", "ray::", "ray start"))
            if pid == leader or (is_ray and network_of(pid) == mine):
                os.kill(pid, signal.SIGKILL)


def copy_of_swarm(target: Path, version: str) -> Path:
    """Another version of swarm, for `PYTHONPATH`."""
    here = Path(__file__).resolve().parents[2]
    for package in ("mailbox", "roles", "worker", "supervisor"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(here / package, target / "swarm" / package, ignore=ignored)
    file = target / "swarm" / "supervisor" / "base" / "version.py"
    text = file.read_text()
    start = text.index('VERSION = "')
    end = text.index("\n", start)
    file.write_text(f'{text[:start]}VERSION = "{version}"{text[end:]}')
    return target
