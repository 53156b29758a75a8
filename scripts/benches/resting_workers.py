"""A team whose agents have made their calls and wait for their model, which never answers."""

import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench_harness import SWARM, ModelServer, newest_run, swarm_home, team_server
from process_watch import journal_files, tree_cpu_seconds

FREE = ("-s", "danger-full-access")
_LOOK_S, _QUIET_CPU_S = 1.0, 0.05
_END_LIMIT_S = 900.0


class RestingWorkers(NamedTuple):
    """The run that was started, and what it was started with."""

    run: "subprocess.Popen[bytes]"
    server: ModelServer
    environment: dict[str, str]
    said: Path
    calls: int  # of the agents, and of the root, which has one for each agent

    def wait(self, limit_s: float, *, quiet: bool = True) -> None:
        """Until all calls have ended and the tree has been quiet for a second.

        An unused prewarmed sandbox ends after 5 seconds, and is part of what is measured. Many
        agents are never quiet: their heartbeats take more than that. Raises RuntimeError.
        """
        until = time.monotonic() + limit_s
        while time.monotonic() < until and self.run.poll() is None:
            before = tree_cpu_seconds(self.run.pid)
            time.sleep(_LOOK_S)
            is_quiet = tree_cpu_seconds(self.run.pid) - before <= _QUIET_CPU_S
            if (is_quiet or not quiet) and self._calls_ended() >= self.calls:
                return
        raise RuntimeError(f"the agents did not come to rest: {self.said.read_text()[-800:]}")

    def _calls_ended(self) -> int:
        try:
            files = journal_files(newest_run(self.environment))
        except FileNotFoundError:
            return 0
        return sum(path.read_bytes().count(b'"type":"call_ended"') for path in files)


@contextmanager
def resting_workers(
    agents: int, tools: int, flags: Sequence[str] = (), *, thinks_ms: int = 0
) -> Iterator[RestingWorkers]:
    """Start the agents in one go, each with so many calls; the run is ended with the block.

    `thinks_ms`: what the root's model takes for its first answer.
    """
    with (
        team_server("workers_at_rest", agents, tools, thinks_ms) as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        bounds = ["--max-agents", str(agents + 1), "--max-spawns", str(agents)]
        argv = [*SWARM, "run", "-p", "bench:root <root> Begin.", "--plain", *bounds, *flags]
        said = Path(cwd).with_suffix(".log")
        with said.open("wb") as out:
            run = subprocess.Popen(
                argv, env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        try:
            yield RestingWorkers(run, server, environment, said, agents * (1 + tools))
        finally:
            run.terminate()
            run.wait(_END_LIMIT_S)
            said.unlink()
