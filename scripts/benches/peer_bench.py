"""The same script on another agent: Codex, where its npm package is installed already.

Nothing is installed here. The same model server is asked, so that both do the same work; the rows
are keyed by the words of ours.
"""

import itertools
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench_harness import ModelServer, model_server, server_of
from measurements import Row
from process_watch import tree_pss

PEERS = ("codex",)
_LIMIT_S = 600


class PeerMissing(Exception):
    """The peer's program is not on this machine."""


def find(peer: str) -> str:
    """Its program. Raises NoPeer with how to get it."""
    path = shutil.which(peer) or os.environ.get("CODEX_BIN")
    if path is None:
        raise PeerMissing(
            "codex is not on PATH; `npm install -g @openai/codex` installs it, or set CODEX_BIN"
        )
    return path


def version(program: str) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def measure(bench: str, program: str, *, quick: bool) -> dict[str, float]:
    """What the peer needs for the rows of this bench; empty where it has no counterpart."""
    if bench == "spine":
        return dict(_spine(program, quick=quick))
    if bench == "agents":
        return dict(_team(program))
    return {}


def with_peer_figure(row: Row, theirs: dict[str, float]) -> Row:
    """The row with the installed peer's figure and the ratio of ours to it."""
    value = next((theirs[key] for key in theirs if row.what.startswith(key)), None)
    if value is None:
        return row
    words = f"{value:.4g} {row.unit} Codex here, ours {row.value / value:.2f} x"
    return row._replace(peer=words)


def turn_gaps(program: str, turns: int, policy: str) -> list[float]:
    """Milliseconds from each response's end to the next request."""
    with model_server("tools", turns) as server:
        _run(program, server, "-s", policy)
        requests = server.seen()["requests"]
    return [(b["began"] - a["answered"]) * 1000 for a, b in itertools.pairwise(requests)]


def _spine(program: str, *, quick: bool) -> Iterator[tuple[str, float]]:
    starts, sizes = [], []
    for _ in range(3 if quick else 9):
        with model_server("answer") as server:
            began = time.monotonic()
            _run(program, server)
            seen = server.seen()
        starts.append((seen["first_byte"] - began) * 1000)
        sizes.append(seen["requests"][0]["bytes"] / 1024)
    yield "start of swarm run to first byte of first request", statistics.median(starts)
    yield "first request with all tools", statistics.median(sizes)
    turns = 60 if quick else 210
    for name, policy in (("without", "danger-full-access"), ("with", "workspace-write")):
        gaps = turn_gaps(program, turns, policy)
        yield f"one tool turn running `true`, {name} sandbox", statistics.median(gaps[5:])
        late = statistics.median(gaps[-20:]) / statistics.median(gaps[10:30])
        yield f"turn {turns} beside turn 20, {name} sandbox", late


def _team(program: str) -> Iterator[tuple[str, float]]:
    with server_of("peer_model_server.py", "32", "3") as server, _home(server) as environment:
        began = time.monotonic()
        process = subprocess.Popen(_argv(program), env=environment, cwd=environment["HOME"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)  # fmt: skip
        peak = 0
        while process.poll() is None and time.monotonic() < began + _LIMIT_S:
            peak = max(peak, tree_pss(process.pid)[0])
            time.sleep(0.02)
        _end(process)
    with server_of("peer_model_server.py", "32", "3") as server:
        began = time.monotonic()
        _run(program, server)
        wall = time.monotonic() - began
        asked = server.seen()["requests"]
    if len(asked) < 32 * 4:
        raise RuntimeError(f"{len(asked)} requests came from 32 agents with 3 calls each")
    yield "32 sub-agents, three tool calls each: whole run", wall
    yield "  peak memory of its whole tree", peak / 2**20


def _run(program: str, server: ModelServer, *options: str) -> None:
    with _home(server) as environment:
        done = subprocess.run(
            _argv(program, *options),
            env=environment, cwd=environment["HOME"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the peer ended with {done.returncode}: {done.stderr[-800:]}")


def _argv(program: str, *options: str) -> list[str]:
    policy = options or ("-s", "danger-full-access")
    return [program, "exec", "--skip-git-repo-check", "--json", *policy, "bench:root <root> Begin."]


@contextmanager
def _home(server: ModelServer) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        (Path(folder) / "config.toml").write_text(
            'model = "bench"\nmodel_provider = "bench"\n'
            f'[model_providers.bench]\nname = "bench"\nbase_url = "{server.url}"\n'
            'wire_api = "responses"\n[agents]\nmax_threads = 64\n'
        )
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        yield kept | {"CODEX_HOME": folder, "HOME": folder}


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise RuntimeError(f"the peer's team did not end in {_LIMIT_S} s")
