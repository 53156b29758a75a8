"""The outer walls: what a command may not read, write, reach or signal at all."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from play import Play, command
from scene import SECRET, Scene


def _is_missing(scene: Scene) -> str:
    left = scene.home / "planted"
    return "a file outside of the roots was made" if left.exists() else ""


def _unchanged_secret(scene: Scene) -> str:
    same = scene.secret_file.read_text("utf-8") == SECRET + "\n"
    return "" if same else "a file outside of the roots was changed"


def _ran(scene: Scene) -> str:
    ran = "hello-from-inside" in scene.said
    return "" if ran else f"the command did not run (exit {scene.exit_code})"


def _journal_words(scene: Scene) -> str:
    return "another run's journal was read" if "words-of-an-older-run" in scene.said else ""


def _an_older_run(scene: Scene) -> None:
    folder = scene.state / "state" / "runs" / "older" / "journal"
    folder.mkdir(parents=True)
    (folder / "root.jsonl").write_text("words-of-an-older-run\n", "utf-8")


@contextmanager
def _victim(scene: Scene) -> Iterator[None]:
    sleeper = subprocess.Popen([*scene.words_as_user(), "sleep", "120"])
    (scene.project / "victim").write_text(str(sleeper.pid), "utf-8")
    try:
        yield
    finally:
        sleeper.kill()
        sleeper.wait()


def _victim_died(scene: Scene) -> str:
    pid = int((scene.project / "victim").read_text("utf-8"))
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        return "a stranger's process was killed" if ") Z" in stat else ""
    except OSError:
        return "a stranger's process was killed"


PLAYS = (
    Play(
        name="a command runs at all",
        calls=lambda scene: [command("echo hello-from-$(echo inside)")],
        escaped=_ran, must_work=True, fast=True,
    ),
    Play(
        name="write beside the working folder",
        calls=lambda scene: [command(f"echo x > {scene.home}/planted; ln {scene.secret_file} l")],
        escaped=_is_missing, fast=True,
    ),
    Play(
        name="change a file outside through a link in the project",
        calls=lambda scene: [command(f"ln -s {scene.home} h; echo x > h/secret.txt")],
        escaped=_unchanged_secret, fast=True,
    ),
    Play(
        name="read the journal of another run",
        prepare=_an_older_run,
        calls=lambda scene: [command(f"cat {scene.state}/state/runs/older/journal/*; ls -la")],
        escaped=_journal_words, fast=True,
    ),
    Play(
        name="kill a process of the person",
        host=_victim,
        calls=lambda scene: [command("kill -9 $(cat victim)")],
        escaped=_victim_died,
    ),
)  # fmt: skip
