"""The outer walls: what a command may not read, write, reach or signal at all."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attack import Attack, command
from attack_testbed import SECRET, AttackTestbed


def _is_missing(scene: AttackTestbed) -> str:
    left = scene.home / "planted"
    return "a file outside of the roots was made" if left.exists() else ""


def _unchanged_secret(scene: AttackTestbed) -> str:
    same = scene.secret_file.read_text("utf-8") == SECRET + "\n"
    return "" if same else "a file outside of the roots was changed"


def _ran(scene: AttackTestbed) -> str:
    ran = "hello-from-inside" in scene.output
    return "" if ran else f"the command did not run (exit {scene.exit_code})"


def _journal_words(scene: AttackTestbed) -> str:
    return "another run's journal was read" if "words-of-an-older-run" in scene.output else ""


def _an_older_run(scene: AttackTestbed) -> None:
    folder = scene.state / "state" / "runs" / "older" / "journal"
    folder.mkdir(parents=True)
    (folder / "root.jsonl").write_text("words-of-an-older-run\n", "utf-8")


@contextmanager
def _victim(scene: AttackTestbed) -> Iterator[None]:
    sleeper = subprocess.Popen([*scene.argv_as_user(), "sleep", "120"])
    (scene.project / "victim").write_text(str(sleeper.pid), "utf-8")
    try:
        yield
    finally:
        sleeper.kill()
        sleeper.wait()


def _victim_died(scene: AttackTestbed) -> str:
    pid = int((scene.project / "victim").read_text("utf-8"))
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        return "a stranger's process was killed" if ") Z" in stat else ""
    except OSError:
        return "a stranger's process was killed"


PLAYS = (
    Attack(
        name="a command runs at all",
        calls=lambda scene: [command("echo hello-from-$(echo inside)")],
        find_escape=_ran, must_work=True, fast=True,
    ),
    Attack(
        name="write beside the working folder",
        calls=lambda scene: [command(f"echo x > {scene.home}/planted; ln {scene.secret_file} l")],
        find_escape=_is_missing, fast=True,
    ),
    Attack(
        name="change a file outside through a link in the project",
        calls=lambda scene: [command(f"ln -s {scene.home} h; echo x > h/secret.txt")],
        find_escape=_unchanged_secret, fast=True,
    ),
    Attack(
        name="read the journal of another run",
        prepare=_an_older_run,
        calls=lambda scene: [command(f"cat {scene.state}/state/runs/older/journal/*; ls -la")],
        find_escape=_journal_words, fast=True,
    ),
    Attack(
        name="kill a process of the person",
        background=_victim,
        calls=lambda scene: [command("kill -9 $(cat victim)")],
        find_escape=_victim_died,
    ),
)  # fmt: skip
