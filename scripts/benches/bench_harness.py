"""What every bench needs: a zero-latency model server, swarm started against it, facts of /proc."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SWARM = [sys.executable, "-P", "-m", "swarm.supervisor.clients.cli.entry"]


class ModelServer:
    """A started model server; `seen()` ends it and returns what it saw."""

    def __init__(self, process: subprocess.Popen[bytes], port_file: Path) -> None:
        self._process, self._port_file = process, port_file
        self.pid = process.pid
        self.url = f"http://127.0.0.1:{port_file.read_text()}/v1"

    def seen(self) -> dict[str, Any]:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)
        seen: dict[str, Any] = json.loads(Path(f"{self._port_file}.seen").read_text())
        return seen


@contextmanager
def model_server(mode: str, turns: int = 0, command: str = "true") -> Iterator[ModelServer]:
    """Start the server in a process of its own; it is ended with the block."""
    with server_of("model_server.py", mode, str(turns), command) as server:
        yield server


@contextmanager
def team_server(story: str, *numbers: int) -> Iterator[ModelServer]:
    """The same for teams: what each agent says is a story of team_model_server.py."""
    with server_of("team_model_server.py", story, ",".join(map(str, numbers))) as server:
        yield server


@contextmanager
def server_of(program: str, *arguments: str) -> Iterator[ModelServer]:
    """Any of the servers here, by its file; it is ended with the block."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = Path(folder) / "port"
        argv = [sys.executable, str(HERE / program), str(port_file), *arguments]
        process = subprocess.Popen(argv)
        try:
            while not port_file.exists():
                if process.poll() is not None:
                    raise RuntimeError("the model server did not start")
                time.sleep(0.005)
            yield ModelServer(process, port_file)
        finally:
            process.kill()
            process.wait()


@contextmanager
def swarm_home(url: str) -> Iterator[dict[str, str]]:
    """An environment with a home of its own whose provider is the server at `url`."""
    with tempfile.TemporaryDirectory(prefix="sw-") as folder:
        config = Path(folder) / "config.toml"
        config.write_text(
            'model = "bench"\nmodel_provider = "bench"\n'
            f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\n'
            'wire_api = "responses"\n'
        )
        environment = {
            name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")
        }
        yield environment | {"SWARM_HOME": folder, "XDG_RUNTIME_DIR": folder}


def run_swarm(
    environment: dict[str, str], *arguments: str, cwd: str, timeout_s: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run swarm to its end; its output is captured."""
    return subprocess.run(
        [*SWARM, *arguments],
        env=environment, cwd=cwd, capture_output=True, text=True, timeout=timeout_s,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def starts_in_turns(
    server: ModelServer, homes: Sequence[dict[str, str]], *, cwd: str, rounds: int
) -> tuple[list[list[float]], list[int]]:
    """Milliseconds from the command to its first request, for each home, without the first round.

    Also the bytes of each home's first request. Raises RuntimeError if a request is missing.
    """
    begins: list[float] = []
    for _ in range(rounds + 1):
        for environment in homes:
            begins.append(time.monotonic())
            run_swarm(environment, "run", "-p", "hello", "--plain", cwd=cwd)
    requests = server.seen()["requests"]
    if len(requests) != len(begins):
        raise RuntimeError(f"{len(requests)} requests for {len(begins)} runs")
    pairs = zip(begins, requests, strict=True)
    times = [(request["began"] - began) * 1000 for began, request in pairs][len(homes) :]
    sizes = [request["bytes"] for request in requests[: len(homes)]]
    return [times[at :: len(homes)] for at in range(len(homes))], sizes


def memory_bytes(pid: int) -> dict[str, int]:
    """What the kernel tells of one process's memory: Rss, Pss, Private_Dirty and so on."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields}


def pss_bytes(pid: int) -> int:
    """Proportional set size of one process."""
    return memory_bytes(pid).get("Pss", 0)


def cpu_seconds(pid: int, *, with_ended_children: bool = False) -> float:
    """User and system time of a process; of its children only those that have ended, if wanted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended_children else 13])) / os.sysconf("SC_CLK_TCK")


def newest_run(environment: dict[str, str]) -> Path:
    """The folder of the newest run. Raises FileNotFoundError while there is none."""
    runs = sorted((Path(environment["SWARM_HOME"]) / "state" / "runs").iterdir())
    if not runs:
        raise FileNotFoundError("no run has begun")
    return runs[-1]


def journal_of(environment: dict[str, str]) -> Iterator[dict[str, Any]]:
    """All records of the newest run, file by file."""
    runs = sorted((Path(environment["SWARM_HOME"]) / "state" / "runs").iterdir())
    for path in sorted((runs[-1] / "journal").glob("*.jsonl")):
        yield from _lines_of(path)


def journal_records(environment: dict[str, str], file: str) -> Iterator[dict[str, Any]]:
    """The records of one file of the newest run; `run` is the run's own."""
    return _lines_of(newest_run(environment) / "journal" / f"{file}.jsonl")


def _lines_of(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)
