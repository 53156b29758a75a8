"""Files of strangers that a person's commands read: none costs much time or memory, or ends badly.

Each play writes one kind of nuisance (deep, long, wide, endless …) in the place of every file that
swarm reads in a project that nobody has trusted, one after the other, and starts what reads it.
"""

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from attack import Attack, Call, command, run_ended
from attack_testbed import AttackTestbed

_MOST_CPU_S, _MOST_WALL_S = 20.0, 60.0
_MOST_KIB = 600 << 10  # resident, of one process; a start alone takes 60 MiB
_LONG = 1 << 20
_NAMES = "abcdefghij"
_FAULTS = (
    "Traceback (most recent",
    "a fault of swarm",
    "report it",
    "RecursionError",
    "MemoryError",
)

Write = Callable[[Path], object]


class Reader(NamedTuple):
    """A file that is read, and the commands that read it."""

    file: str  # below the project
    commands: tuple[tuple[str, ...], ...]
    head: str = ""  # what stands before the nuisance, so that it is read as what it should be
    tail: str = ""


_RUN = ("run", "-p", "x", "--ephemeral", "--provider", "PROVIDER")
_TRUST = ("trust", "--yes")
READERS = (
    Reader(".swarm/config.toml", (_TRUST, ("config", "list"))),
    Reader(".swarm/rules/a.rules", (_TRUST, _RUN)),
    Reader(".swarm/hooks.json", (_TRUST, ("hooks", "list")), '{"hooks": {"Stop": ', "}}"),
    Reader(".swarm/agents/worker.toml", (_TRUST, ("roles", "list")), "name = 'a'\n"),
    Reader(".agents/skills/x/SKILL.md", (_TRUST, ("skills", "list")), "---\nname: x\n",
           "\n---\nx\n"),
    Reader(".claude/agents/x.md", (_TRUST, ("roles", "list")), "---\nname: x\n", "\n---\nx\n"),
    Reader(".claude/commands/x.md", (_TRUST, ("commands", "list")), "---\n", "\n---\nx\n"),
    Reader(".mcp.json", (_TRUST, ("mcp", "list")), '{"mcpServers": ', "}"),
    Reader("AGENTS.md", (_RUN,)),
    Reader("Makefile", (("init", "--from-files", "--yes"),)),
    Reader("package.json", (("init", "--from-files", "--yes"),), '{"scripts": ', "}"),
    Reader("pyproject.toml", (("init", "--from-files", "--yes"),)),
    Reader("task.md", (("run", "task.md", "--ephemeral", "--provider", "PROVIDER"),), "---\n",
           "\n---\nx\n"),
    Reader("items.csv", (("run", "csv.md", "--ephemeral", "--provider", "PROVIDER"),), "item,b\n"),
    Reader("plugin/.claude-plugin/plugin.json", (("plugin", "add", "plugin", "--yes"),),
           '{"name": "evil", "version": ', "}"),
    Reader("market/.claude-plugin/marketplace.json",
           (("plugin", "marketplace", "add", "market", "--yes"),),
           '{"name": "m", "plugins": ', "}"),
    Reader(".gitignore", (("review", "--provider", "PROVIDER"),)),
    Reader(".gitattributes", (("review", "--provider", "PROVIDER"),)),
    Reader("result.schema.json", (
        (*_RUN, "--output-schema", "result.schema.json"),), '{"type": "object", "properties": ',
        "}"),
)  # fmt: skip


def _text(unit: str, size: int = _LONG) -> str:
    return unit * (size // len(unit))


_DEEP = {
    ".toml": f"[a.{_text('a.', 40_000)}a]\nx = {_text('[', 40_000)}\n{_text('a.', 40_000)}",
    ".json": _text('{"a":', 200_000) + "1",
    ".md": _text("[", 50_000) + "\n" + "a: " + _text("&a [", 50_000) + "\n" + _text("- ", 50_000),
    ".rules": "x = " + _text("(", 50_000) + _text("-", 50_000) + _text("[", 50_000),
    "": _text("(", 50_000) + _text("**/", 50_000) + "\n",
}  # fmt: skip
_WIDE = {
    ".toml": "".join(f"k{number} = {number}\n[t{number}]\n" for number in range(40_000)),
    ".json": "{" + ",".join(f'"k{number}":[]' for number in range(60_000)) + "}",
    ".md": "".join(f"k{number}: v\n" for number in range(60_000)),
    ".rules": "".join(f'prefix_rule(["p{number}"], decision="allow")\n' for number in range(9_000)),
    ".csv": "a,b\n" * 250_000,
    "": "".join(f"**/a*b*c*{number}*\n" for number in range(40_000)),
}  # fmt: skip
_COSTLY = {
    ".toml": _text('x = """\\"') + _text("1.", 100_000),
    ".json": _text("1", 500_000) + _text("\\u0000", 200_000),
    ".md": "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(f"{two}: &{two} [{', '.join(['*' + one] * 9)}]\n" for one, two in pairwise(_NAMES))
    + "k: 1" + _text(":00", 3_000),
    ".rules": "def f(n):\n    return f(n - 1) + f(n - 2)\nx = [a for a in range(10 ** 9)]\n"
    "y = 'a' * 10 ** 10\nz = [[b for b in range(10 ** 6)] for a in range(10 ** 6)]\n"
    "w = 10 ** 10 ** 10\nf(40)\n",
    ".csv": '"' + _text("a\n"),
    "": _text("*a", 2_000) + "b\n" + _text("[[:alpha:]]*", 2_000) + "\n" + _text("a: a\n", 100_000),
}  # fmt: skip


def _kind(reader: Reader, table: Mapping[str, str]) -> str:
    return table.get(Path(reader.file).suffix, table[""])


def _written(table: Mapping[str, str]) -> Callable[[Reader], Write]:
    def make(reader: Reader) -> Write:
        text = reader.head + _kind(reader, table) + reader.tail
        return lambda path: path.write_text(text, "utf-8")

    return make


def _bytes(data: bytes) -> Callable[[Reader], Write]:
    return lambda reader: lambda path: path.write_bytes(reader.head.encode() + data)


def _sparse(_: Reader) -> Write:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.truncate(64 << 30)

    return write


def _link(target: str) -> Callable[[Reader], Write]:
    return lambda _: lambda path: path.symlink_to(target)


NUISANCES: dict[str, Callable[[Reader], Write]] = {
    "nested deeper than any reader goes": _written(_DEEP),
    "with more entries than anybody counts": _written(_WIDE),
    "whose few words stand for much": _written(_COSTLY),
    "of one endless line": _bytes(b"a" * (8 * _LONG)),
    "of bytes that are no text": _bytes(bytes(range(256)) * 8_192),
    "of 64 GB that take no place": _sparse,
    "that is a pipe to which nobody writes": lambda _: os.mkfifo,
    "that is a device without an end": _link("/dev/zero"),
    "that is a link to itself": lambda reader: lambda path: path.symlink_to(path),
    "that is a folder": lambda _: lambda path: path.mkdir(),
}


class Cost(NamedTuple):
    said: str
    code: int
    cpu_s: float
    most_kib: int

    def problem(self) -> str:
        if self.code == -signal.SIGKILL:
            return f"did not end within {_MOST_WALL_S:g} s"
        if any(words in self.said for words in _FAULTS):
            return f"ended as a fault: {self.said.strip()[-200:]}"
        if self.cpu_s > _MOST_CPU_S:
            return f"took {self.cpu_s:.0f} s of the processor"
        return f"took {self.most_kib >> 10} MiB" if self.most_kib > _MOST_KIB else ""


def measure(scene: AttackTestbed, words: Sequence[str]) -> Cost:
    """Run it in the project, with what it and its children cost."""
    process = subprocess.Popen(
        scene.swarm(*words), env=scene.environment({}), cwd=scene.project, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    )  # fmt: skip
    assert process.stdout is not None
    timer = threading.Timer(_MOST_WALL_S, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        said = process.stdout.read(4 * _LONG)
        while process.stdout.read(_LONG):  # the rest only has to end
            pass
        _, status, used = os.wait4(process.pid, 0)
    finally:
        timer.cancel()
        process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = used.ru_utime + used.ru_stime
    return Cost(said.decode("utf-8", "replace"), process.returncode, cpu_s, used.ru_maxrss)


def _read_all(nuisance: str) -> Callable[[AttackTestbed], str]:
    def find(scene: AttackTestbed) -> str:
        provider = scene.script("said", [])
        task = "---\nfan_out:\n  each: {csv: items.csv}\n  prompt: do {item}\n---\nx\n"
        (scene.project / "csv.md").write_text(task, "utf-8")
        problems: list[str] = []
        for reader in READERS:
            path = scene.project / reader.file
            path.parent.mkdir(parents=True, exist_ok=True)
            NUISANCES[nuisance](reader)(path)
            for words in reader.commands:
                given = [provider if word == "PROVIDER" else word for word in words]
                if why := measure(scene, given).problem():
                    problems.append(f"{reader.file}: swarm {words[0]} {why}")
            _remove(path)
        return "; ".join(problems)

    return find


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def _look(_: AttackTestbed) -> Sequence[Call]:
    return [command("true")]


PLAYS = tuple(
    Attack(
        name=f"a file that swarm reads in a project is one {nuisance}",
        calls=_look, find_escape=_read_all(nuisance), tried=run_ended,
    )
    for nuisance in NUISANCES
)  # fmt: skip
