"""What skills, hooks and plugins cost: at the start of a run, and in each tool turn.

The cost is the difference of runs with and without them, which take turns, so that both see the
machine at the same pace. A model server that takes 50 ms to write a call stands for a model: swarm
prepares a hook's sandbox in that time. Beside it stands one that answers at once.
"""

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_harness import model_server, run_swarm, starts_in_turns, swarm_home
from core_bench import turn_gaps
from measurements import Row

_SKILLS, _HOOKS, _PLUGINS = 200, 20, 10
_LIST_BYTES = 4_000  # at least, of the list of skills in a request
_OF_A_PLUGIN = 10  # skills; the other half are the person's own, likewise the hooks


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row."""
    yield from start_cost(3 if quick else 21)
    turns, rounds = (40, 1) if quick else (120, 5)
    for mode, pace in (("paced", "model writes 50 ms"), ("tools", "model writes at once")):
        yield from turn_cost(turns, rounds, mode, pace)


def start_cost(rounds: int) -> Iterator[Row]:
    """From the command to the first byte of the first request."""
    with (
        model_server("answer") as server,
        swarm_home(server.url) as plain,
        swarm_home(server.url) as full,
        tempfile.TemporaryDirectory() as cwd,
    ):
        prepare(Path(full["SWARM_HOME"]), full, cwd)
        (empty, filled), sizes = starts_in_turns(server, (plain, full), cwd=cwd, rounds=rounds)
    if sizes[1] < sizes[0] + _LIST_BYTES:
        raise RuntimeError("the skills are not in the first request")
    yield Row.of("start of swarm run to its first request, without any", empty, None, "ms")
    many = f"{_SKILLS} skills, {_HOOKS} hooks, {_PLUGINS} plugins"
    yield Row.of(f"the same with {many}", filled, None, "ms")
    cost = statistics.median(filled) - statistics.median(empty)
    yield Row("  what they add", cost, 15, "ms")


def turn_cost(turns: int, rounds: int, mode: str, pace: str) -> Iterator[Row]:
    """A tool turn with a hook of `/bin/true`, with hooks for other tools, and without hooks."""
    with_true = {"hooks.json": json.dumps(_hooks("^Bash$", 1))}
    with_others = {"hooks.json": json.dumps(_hooks("^NoSuchTool$", _HOOKS))}
    found: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for costs, files in zip(found, ({}, with_others, with_true), strict=True):
            costs.append(statistics.median(turn_gaps(turns, [], home_files=files, mode=mode)[5:]))
    without, others, hooked = found
    script_ms = script_time()
    yield Row.of(f"one tool turn with sandbox, {pace}", without, None, "ms")
    yield Row.of(f"the same with {_HOOKS} hooks for other tools", others, None, "ms")
    least = statistics.median(without)
    yield Row("  what they add", statistics.median(others) - least, 0.5, "ms")
    yield Row.of("the same with a PreToolUse hook of /bin/true", hooked, None, "ms")
    yield Row("  the script alone, in the shell", script_ms, None, "ms")
    added = statistics.median(hooked) - least - script_ms
    yield Row("  what the hook adds beyond its script", added, 6 if mode == "paced" else None, "ms")


def script_time() -> float:
    """Milliseconds that a shell takes for the hook's script, without swarm."""
    times = []
    for _ in range(60):
        began = time.monotonic()
        subprocess.run(["/bin/bash", "-c", "/bin/true"], check=True, close_fds=False)
        times.append((time.monotonic() - began) * 1000)
    return statistics.median(times)


def prepare(home: Path, environment: dict[str, str], cwd: str) -> None:
    """Skills and hooks of the person, and installed plugins that bring as many again."""
    for number in range(_SKILLS - _PLUGINS * _OF_A_PLUGIN):
        _write_skill(home / "skills", f"own-{number}")
    own_hooks = _hooks("^NoSuchTool$", _HOOKS - _PLUGINS)
    (home / "hooks.json").write_text(json.dumps(own_hooks))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(_PLUGINS):
            plugin = Path(folder) / f"plugin-{number}"
            _write_plugin(plugin, number)
            added = run_swarm(environment, "plugin", "add", str(plugin), "--yes", cwd=cwd)
            added.check_returncode()


def _write_plugin(plugin: Path, number: int) -> None:
    manifest = {"name": f"plugin-{number}", "version": "1.0.0", "description": "Measured."}
    for path, content in (
        (".claude-plugin/plugin.json", manifest),
        ("hooks/hooks.json", _hooks("NoSuchTool", 1)),
    ):
        (plugin / path).parent.mkdir(parents=True)
        (plugin / path).write_text(json.dumps(content))
    for skill in range(_OF_A_PLUGIN):
        _write_skill(plugin / "skills", f"its-{number}-{skill}")


def _write_skill(folder: Path, name: str) -> None:
    skill = folder / name
    skill.mkdir(parents=True)
    text = "".join(f"{line}. Do what the step says.\n" for line in range(60))
    head = f"---\nname: {name}\ndescription: Does {name} when {name} is asked for.\n---\n"
    (skill / "SKILL.md").write_text(head + text)


def _hooks(matcher: str, count: int) -> dict[str, object]:
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": "/bin/true"}]}
    return {"hooks": {"PreToolUse": [entry] * count}}
