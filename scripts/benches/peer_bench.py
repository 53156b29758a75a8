"""The same work on other agents: Codex and Claude Code, where their npm packages are installed.

Nothing is installed here. Each peer talks to a model server of its own wire that asks for the same
work; the rows are keyed by the words of ours.
"""

import itertools
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from bench_harness import ModelServer, model_server, server_of
from measurements import Row
from process_watch import tree_pss

_LIMIT_S = 600
_PROMPT = "bench:root <root> Begin."


class PeerMissing(Exception):
    """The peer's program is not on this machine."""


class Peer(Protocol):
    """One installed peer. `policies`: how a command is run, by the words of our rows."""

    title: str
    program: str
    policies: Mapping[str, tuple[str, ...]]

    def turns(self, count: int) -> AbstractContextManager[ModelServer]:
        """A server that asks for so many commands, one after another; none: it answers at once."""
        ...

    def team(self, agents: int, tools: int) -> AbstractContextManager[ModelServer]:
        """A server that asks for so many sub-agents in one response, with so many commands each."""
        ...

    def argv(self, options: tuple[str, ...]) -> list[str]: ...

    def home(self, folder: Path, url: str) -> dict[str, str]:
        """Settings below this new folder, and the variables that name them."""
        ...


class Codex:
    title = "Codex"
    policies: Mapping[str, tuple[str, ...]] = {
        "without": ("-s", "danger-full-access"),
        "with": ("-s", "workspace-write"),
    }

    def __init__(self, program: str) -> None:
        self.program = program

    def turns(self, count: int) -> AbstractContextManager[ModelServer]:
        return model_server("tools", count) if count else model_server("answer")

    def team(self, agents: int, tools: int) -> AbstractContextManager[ModelServer]:
        return server_of("peer_model_server.py", str(agents), str(tools))

    def argv(self, options: tuple[str, ...]) -> list[str]:
        return [self.program, "exec", "--skip-git-repo-check", "--json", *options, _PROMPT]

    def home(self, folder: Path, url: str) -> dict[str, str]:
        (folder / "config.toml").write_text(
            'model = "bench"\nmodel_provider = "bench"\n'
            f'[model_providers.bench]\nname = "bench"\nbase_url = "{url}"\n'
            'wire_api = "responses"\n[agents]\nmax_threads = 64\n'
        )
        return {"CODEX_HOME": str(folder)}


class ClaudeCode:
    title = "Claude Code"
    policies: Mapping[str, tuple[str, ...]] = {"without": ("--allowedTools", "Bash,Task,Agent")}

    def __init__(self, program: str) -> None:
        self.program = program

    def turns(self, count: int) -> AbstractContextManager[ModelServer]:
        return server_of("claude_model_server.py", "0", "0", str(count))

    def team(self, agents: int, tools: int) -> AbstractContextManager[ModelServer]:
        return server_of("claude_model_server.py", str(agents), str(tools), "0")

    def argv(self, options: tuple[str, ...]) -> list[str]:
        return [self.program, "-p", _PROMPT, "--model", "claude-sonnet-4-5", *options]

    def home(self, folder: Path, url: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": url.removesuffix("/v1"),
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CONFIG_DIR": str(folder),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }


PEERS: dict[str, type[Codex] | type[ClaudeCode]] = {"codex": Codex, "claude": ClaudeCode}
_PACKAGES = {"codex": "@openai/codex", "claude": "@anthropic-ai/claude-code"}


def find(name: str) -> Peer:
    """An installed peer. Raises PeerMissing with how to get it."""
    variable = f"{name.upper()}_BIN"
    path = os.environ.get(variable) or shutil.which(name)
    if path is None:
        raise PeerMissing(
            f"{name} is not on PATH; `npm install -g {_PACKAGES[name]}` installs it, or set "
            f"{variable}"
        )
    return PEERS[name](path)


def version(peer: Peer) -> str:
    argv = [peer.program, "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def measure(bench: str, peer: Peer, *, quick: bool) -> dict[str, float]:
    """What the peer needs for the rows of this bench; empty where it has no counterpart."""
    if bench == "spine":
        return dict(_spine(peer, quick=quick))
    if bench == "agents":
        return dict(_team(peer, quick=quick))
    return {}


def with_peer_figures(row: Row, theirs: dict[str, dict[str, float]]) -> Row:
    """The row with what each installed peer needs, by its title, and the ratio of ours to it."""
    words = []
    for title, figures in theirs.items():
        value = next((figures[key] for key in figures if row.what.startswith(key)), None)
        if value is not None:
            words.append(f"{value:.4g} {row.unit} {title}, ours {row.value / value:.2f} x")
    return row._replace(peer="; ".join(words)) if words else row


def turn_gaps(peer: Peer, turns: int, policy: str) -> list[float]:
    """Milliseconds from each response's end to the next request. `policy`: a key of its own."""
    with peer.turns(turns) as server:
        _run(peer, server, peer.policies[policy])
        requests = server.seen()["requests"]
    return [(b["began"] - a["answered"]) * 1000 for a, b in itertools.pairwise(requests)]


def _spine(peer: Peer, *, quick: bool) -> Iterator[tuple[str, float]]:
    starts, sizes = [], []
    for _ in range(3 if quick else 15):
        with peer.turns(0) as server:
            began = time.monotonic()
            _run(peer, server)
            requests = server.seen()["requests"]
        starts.append((requests[0]["began"] - began) * 1000)
        sizes.append(requests[0]["bytes"] / 1024)
    yield "start of swarm run to first byte of first request", statistics.median(starts)
    yield "first request with all tools", statistics.median(sizes)
    turns = 60 if quick else 210
    for name in peer.policies:
        gaps = turn_gaps(peer, turns, name)
        yield f"one tool turn running `true`, {name} sandbox", statistics.median(gaps[5:])
        late = statistics.median(gaps[-20:]) / statistics.median(gaps[10:30])
        yield f"turn {turns} beside turn 20, {name} sandbox", late


def _team(peer: Peer, *, quick: bool) -> Iterator[tuple[str, float]]:
    for agents, rounds, what in (
        (1, 3 if quick else 15, "one spawn to its first request"),
        (32, 1 if quick else 5, "32 spawns in one go, to the last first request"),
    ):
        yield what, statistics.median(_last_spawn_ms(peer, agents) for _ in range(rounds))
    yield "32 sub-agents, three tool calls each: whole run", _team_seconds(peer)
    yield "  peak memory of its whole tree", _team_memory(peer) / 2**20


def _last_spawn_ms(peer: Peer, agents: int) -> float:
    """From the response that wants them to the first request of the last of them."""
    with peer.team(agents, 0) as server:
        _run(peer, server)
        asked = server.seen()["requests"]
    wanted = next(one["answered"] for one in asked if one["kind"] == "root")
    first = [one["began"] for one in asked if one["kind"] == "leaf" and one["number"] == 0]
    if len(first) != agents:
        raise RuntimeError(f"{len(first)} of {agents} sub-agents of {peer.title} asked")
    return float(max(first) - wanted) * 1000


def _team_seconds(peer: Peer) -> float:
    with peer.team(32, 3) as server:
        began = time.monotonic()
        _run(peer, server)
        wall = time.monotonic() - began
        asked = server.seen()["requests"]
    if len(asked) < 32 * 4:
        raise RuntimeError(f"{len(asked)} requests came from 32 agents with 3 calls each")
    return wall


def _team_memory(peer: Peer) -> int:
    with peer.team(32, 3) as server, _home(peer, server) as environment:
        process = subprocess.Popen(
            peer.argv(peer.policies["without"]), env=environment, cwd=environment["HOME"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        peak, ends_at = 0, time.monotonic() + _LIMIT_S
        while process.poll() is None and time.monotonic() < ends_at:
            peak = max(peak, tree_pss(process.pid)[0])
            time.sleep(0.02)
        _end(process)
    return peak


def _run(peer: Peer, server: ModelServer, options: tuple[str, ...] = ()) -> None:
    with _home(peer, server) as environment:
        done = subprocess.run(
            peer.argv(options or peer.policies["without"]),
            env=environment, cwd=environment["HOME"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        if done.returncode:
            said = (done.stderr + done.stdout)[-800:]
            raise RuntimeError(f"{peer.title} ended with {done.returncode}: {said}")


@contextmanager
def _home(peer: Peer, server: ModelServer) -> Iterator[dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM") if name in os.environ}
        yield kept | peer.home(Path(folder), server.url) | {"HOME": folder}


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise RuntimeError(f"the peer's team did not end in {_LIMIT_S} s")
