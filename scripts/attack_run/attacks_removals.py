"""Runs that are removed: none goes without a yes, and none takes anything else with it."""

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from attack import Attack, Call, command, run_ended
from attack_testbed import AttackTestbed

_ANSWERS = {"no": b"n\n", "nothing": b"\n", "another word": b"delete\n", "the end": b"\x04",
            "Ctrl-C": b"\x03", "wrong words": b"x\nyess\nn\n"}  # fmt: skip
_LIMIT_S = 20.0


def _runs(scene: AttackTestbed) -> Path:
    return scene.state / "state/runs"


def _begin(scene: AttackTestbed, name: str, *options: str, turns: Sequence[object] = ()) -> str:
    """A run of the person's that has ended; returns its id."""
    before = {path.name for path in _runs(scene).glob("*")}
    provider = scene.script(name, turns)  # type: ignore[arg-type]
    words = ("run", "-p", name, "--provider", provider, "-C", str(scene.project), *options)
    scene.run_program(scene.swarm(*words), deadline_s=60.0)
    (new,) = {path.name for path in _runs(scene).glob("*")} - before
    return new


def _prepare(scene: AttackTestbed) -> None:
    """Runs that must stay (a name, unmerged work, an open question), and one that may go."""
    spawn = {"task_name": "one", "message": "work", "fork_turns": "none", "isolation": "copy"}
    wait = {"targets": ["one"], "timeout_ms": 30_000, "for": "all"}
    turns = [
        {"agent": "/root", "calls": [{"name": "spawn_agent", "arguments": spawn}]},
        {"agent": "/root", "calls": [{"name": "wait_agent", "arguments": wait}]},
        {"agent": "/root/one", "calls": [command("echo work > unmerged")]},
    ]
    named = _begin(scene, "named")
    scene.run_program(scene.swarm("name", named, "keep this"))
    work = _begin(scene, "work", "--reviewer", "nobody", turns=turns)
    plain = _begin(scene, "plain")
    (scene.folder / "stays").write_text(f"{named} {work}", "utf-8")
    (scene.folder / "plain").write_text(plain, "utf-8")
    _plant_links(scene)


def _plant_links(scene: AttackTestbed) -> None:
    """In the folder of runs: links to the person's folders, and a run whose parts lead there."""
    (scene.home / "kept").mkdir(exist_ok=True)
    (scene.home / "kept/file").write_text("mine\n", "utf-8")
    plain = _runs(scene) / (scene.folder / "plain").read_text("utf-8")
    (_runs(scene) / "20200101T000000-00000001").symlink_to(scene.home)
    for name in ("blobs", "kept", "tmp", "diffs"):
        with suppress(FileExistsError):
            (plain / name).symlink_to(scene.home / "kept")


def _missing(scene: AttackTestbed, *more: str) -> str:
    wanted = ((scene.folder / "stays").read_text("utf-8").split(), more)
    gone = [
        one for some in wanted for one in some if not (_runs(scene) / one / "run.json").exists()
    ]
    if gone:
        return f"a run was removed: {gone[0]}"
    for file in (scene.home / "kept/file", scene.secret_file):
        if not file.exists():
            return f"{file} of the person went with a run"
    return ""


def _on_terminal(scene: AttackTestbed, words: Sequence[str], keys: bytes) -> str:
    """Run it on a terminal of its own, and type the keys once it asks; what was seen there."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "-c", "-w", *scene.swarm(*words)], stdin=child, stdout=child, stderr=child,
        env={**scene.environment({}), "TERM": "xterm"}, cwd=scene.project,
    )  # fmt: skip
    os.close(child)
    seen, typed, end = b"", False, time.monotonic() + _LIMIT_S
    try:
        while time.monotonic() < end and select.select([parent], [], [], _LIMIT_S)[0]:
            try:
                seen += os.read(parent, 65_536)
            except OSError:
                break
            if not typed and b"elete" in seen and b"[y/N]" in seen:
                typed = bool(os.write(parent, keys))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(parent)
    return seen.decode("utf-8", "replace")


def _without_yes(scene: AttackTestbed) -> str:
    """Nothing may go, whatever is answered that is no yes, and where nobody can be asked."""
    plain = (scene.folder / "plain").read_text("utf-8")
    asked: list[tuple[str, tuple[str, ...]]]
    asked = [(what, ("prune", "--keep", "0")) for what in _ANSWERS]
    asked += [("no", ("rm", plain)), ("the end", ("prune", "--keep", "0", "--force"))]
    for what, words in asked:
        seen = _on_terminal(scene, words, _ANSWERS[what])
        if "[y/N]" not in seen:
            return f"nobody was asked by {words[0]}: {seen[-300:]}"
        if found := _missing(scene, plain):
            return f"{found} ({what})"
    for words in (("prune", "--keep", "0"), ("prune", "--keep", "0", "--dry-run"),
                  ("rm", "--dry-run", plain), ("prune", "--keep", "0", "--force")):  # fmt: skip
        _, code = scene.run_program(scene.swarm(*words))
        if (found := _missing(scene, plain)) or (code == 0 and "--dry-run" not in words):
            return found or f"swarm {' '.join(words)} says that it did it"
    return ""


def _with_yes(scene: AttackTestbed) -> str:
    """A yes for the list does not cover runs that must be named by their id."""
    named, work = (scene.folder / "stays").read_text("utf-8").split()
    plain = (scene.folder / "plain").read_text("utf-8")
    ways = (
        ("prune", "--keep", "0", "--yes"), ("prune", "--older", "0s", "--keep", "0", "-y"),
        ("rm", "--yes", "keep this"), ("rm", "--yes", named[:-1]), ("rm", "--yes", work),
        ("rm", "--yes", "20200101T000000-00000001"), ("rm", "--yes", ".."), ("rm", "-y", "../.."),
        ("rm", "--yes", str(scene.home)),
    )  # fmt: skip
    for words in ways:
        scene.run_program(scene.swarm(*words))
        if found := _missing(scene):
            return f"{found} ({' '.join(words)})"
    return "a run that may go stayed" if (_runs(scene) / plain).exists() else ""


def _play(name: str, find_escape: Callable[[AttackTestbed], str]) -> Attack:
    return Attack(
        name=name, prepare=_prepare, calls=_look, find_escape=find_escape, tried=run_ended,
        deadline_s=120.0, fast=False,
    )  # fmt: skip


def _look(_: AttackTestbed) -> Sequence[Call]:
    return [command("true")]


PLAYS = (
    _play("runs go without a yes, or where nobody can be asked", _without_yes),
    _play("a yes for old runs takes those with a name or unmerged work, or what links lead to",
          _with_yes),
)  # fmt: skip
