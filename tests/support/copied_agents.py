"""Scripts of agents in copies of the project, and the runs that play them."""

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

LIMIT_S = 60

BASE = "".join(f"line {number}\n" for number in range(10))


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


def spawn(name: str, **more: object) -> dict[str, object]:
    return call("spawn_agent", task_name=name, message="work", fork_turns="none", **more)


def turns(agent: str, *commands: str) -> list[dict[str, object]]:
    """One command after the other, then an answer."""
    asked = [{"agent": agent, "calls": [call("exec_command", cmd=one)]} for one in commands]
    return [*asked, {"agent": agent, "text": "done"}]


def root(*names: str, **more: object) -> list[dict[str, object]]:
    return [
        {"agent": "/root", "calls": [spawn(name, **more) for name in names]},
        {"agent": "/root", "calls": [call("wait_agent", targets=list(names), timeout_ms=30_000,
                                          **{"for": "all"})]},
        {"agent": "/root", "text": "done", "repeat": "forever"},
    ]  # fmt: skip


async def play(rig, *turns: dict[str, object], words: tuple[str, ...] = ()) -> str:
    started = await rig.run(rig.script(*turns), *words, sandbox="workspace-write")
    ended = await started.wait_end()
    assert ended.code == 0, ended.err
    return ended.err


async def swarm(rig, *words: str, code: int = 0) -> str:
    ended = await (await rig.start(*words)).wait_end()
    assert ended.code == code, ended.err + ended.out
    return ended.out + ended.err


@pytest.fixture
def project(rig):
    (rig.work / "text").write_text(BASE)
    (rig.work / "gone").write_text("gone\n")
    return rig.work


class GitOf(NamedTuple):
    folder: Path

    def __call__(self, *words: str) -> str:
        settings = ("-c", "user.name=x", "-c", "user.email=x@x")
        done = subprocess.run(["git", *settings, *words], cwd=self.folder, capture_output=True,
                              check=True)  # fmt: skip
        return done.stdout.decode()


def make_repository(project: Path) -> GitOf:
    git = GitOf(project)
    git("init", "-q", "-b", "main")
    git("config", "user.name", "mason")
    git("config", "user.email", "mason@localhost")
    git("add", "-A")
    git("commit", "-qm", "base")
    return git
