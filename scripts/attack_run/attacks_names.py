"""Protected names: a planted `.git` runs code at the person's next `git status`."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attack import AUTHOR, Attack, bare_command, command, commands_ran
from attack_testbed import AttackTestbed

_PLANT = (
    "mkdir {0}; cp -r /tmp/g {0}; mv seed {0}; ln -s seed {0}; echo 'gitdir: seed' > {0}; "
    "ln seed/config {0}; mkfifo {0}"
)
_EVIL = (
    "mkdir -p seed/objects seed/refs; echo 'ref: refs/heads/m' > seed/HEAD; "
    "printf '[core]\\nfsmonitor = touch /tmp/ran\\n' > seed/config; "
)


_FOLLOWED_BY_GIT = (
    "echo ../seed > .git/commondir; mkdir .git/rebase-merge .git/sequencer .git/objects/x; "
    "echo x > .git/rebase-merge/git-rebase-todo; echo /tmp > .git/objects/x/alternates; "
    "echo /tmp > .git/objects/info/alternates; echo it-was-tried"
)


def _names(scene: AttackTestbed) -> str:
    # Where letter case counts, `.GIT` is no repository; where it does not, this sees it.
    there = os.path.lexists(scene.project / ".git")
    return "a .git was left in the project" if there else ""


def _no_repository(scene: AttackTestbed) -> None:
    """The project is none."""
    subprocess.run(["rm", "-rf", str(scene.project / ".git")], check=True)


def _take_aside_names(scene: AttackTestbed) -> None:
    _no_repository(scene)
    for number in range(1, 1000):
        (scene.project / f".git.moved-aside-{number}").touch()


def _closed_folder(scene: AttackTestbed) -> None:
    _no_repository(scene)
    scene.project.chmod(0o555)


def _repository(scene: AttackTestbed) -> None:
    words = ["git", "init", "-q", "."]
    subprocess.run(words, cwd=scene.project, check=True)
    subprocess.run(["chown", "-R", f"--reference={scene.project}", ".git"], cwd=scene.project,
                   check=True)  # fmt: skip


def _own_hooks(scene: AttackTestbed) -> None:
    """The person's hooks lie in the tree, as many tools have it: what they do is an agent's."""
    _repository(scene)
    (scene.project / "own").mkdir()
    scene.chown_files()
    scene.git("config", "core.hooksPath", "own")


def _hook_ran(scene: AttackTestbed) -> str:
    return commands_ran(scene) or ("" if "it-was-tried" in scene.output else "no hook ran")


def _git_files_made(scene: AttackTestbed) -> str:
    git = Path(scene.project, ".git")
    names = ("commondir", "rebase-merge", "rebase-apply", "sequencer", "objects/info/alternates",
             "objects/x/alternates", "config.worktree", "hooks/post-commit")  # fmt: skip
    left = [name for name in names if os.path.lexists(git / name)]
    return f"{left} were made in .git" if left else ""


def _reference_made(scene: AttackTestbed) -> str:
    return "a reference was made" if Path(scene.project, ".git/refs/heads/made").exists() else ""


def _bare_nested_root(scene: AttackTestbed) -> None:
    """A root below the project, a folder deeper."""
    _no_repository(scene)
    (scene.project / "x" / "a").mkdir(parents=True)
    scene.chown_files()


_MOVE = """
import ctypes, os
def attempt(do, *args):
    try:
        do(*args)
        print("done", args)
    except OSError as error:
        print(error, args)
libc = ctypes.CDLL(None)
os.makedirs("other/a", exist_ok=True)
attempt(os.rename, "x", "y")
attempt(os.rename, "x/a", "b")
libc.renameat2(-100, b"x", -100, b"other", 2)  # RENAME_EXCHANGE
libc.renameat2(-100, b"x/a", -100, b"other/a", 2)
attempt(os.rename, "other", "x")
attempt(os.rmdir, "x/a")
for place in ("x/a", "y/a", "b", "other/a", "other", "a"):
    for name in (".git", ".GIT", ".swarm"):
        attempt(os.mkdir, f"{place}/{name}")
"""


def _left_in_nested(scene: AttackTestbed) -> str:
    if not (scene.project / "x" / "a").is_dir():
        return "the nested root was moved"
    # Where letter case counts `.GIT` is none; where it does not, this sees it.
    left = [name for name in (".git", ".swarm") if os.path.lexists(scene.project / "x/a" / name)]
    return f"{left} were made in the nested root" if left else ""


def _worked(scene: AttackTestbed) -> str:
    return "" if "all-of-it-worked" in scene.output else f"work failed: {scene.output[-300:]}"


def _nested(scene: AttackTestbed) -> None:
    (scene.project / "sub/x/a/.git/hooks").mkdir(parents=True)


def _hooked(scene: AttackTestbed) -> str:
    found = list(scene.project.glob("sub/*/a/.git/hooks/*"))
    return "a hook was put into a protected .git" if found else ""


@contextmanager
def _killed_supervisor(scene: AttackTestbed) -> Iterator[None]:
    """As soon as a command says that it has tried, nothing of the supervisor tidies up."""
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.02):
            if (scene.project / "now").exists():
                os.kill(scene.pid, signal.SIGKILL)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _names_after_another_run(scene: AttackTestbed) -> str:
    """What is left is an empty folder at most, and the next run's first command removes it."""
    git = scene.project / ".git"
    if os.path.lexists(git) and (not git.is_dir() or any(git.iterdir())):
        return "a .git was left in the project"
    was_killed, said = scene.exit_code, scene.output
    scene.run([command("true")], [], deadline_s=30.0, extra={})
    scene.exit_code, scene.output = was_killed, said
    return _names(scene)


def _was_killed(scene: AttackTestbed) -> str:
    return "" if scene.exit_code == -signal.SIGKILL else f"not killed, exit {scene.exit_code}"


PLAYS = (
    Attack(
        name="move the folder above a nested root, to make protected names in it",
        prepare=_bare_nested_root,
        options=lambda scene: ["--add-dir", str(scene.project / "x" / "a")],
        calls=lambda scene: [command(f"python3 - <<'END'\n{_MOVE}\nEND")] * 2,
        find_escape=_left_in_nested, fast=True,
    ),
    Attack(
        name="plant a .git in every way there is",
        prepare=_no_repository,
        calls=lambda scene: [command(_EVIL + _PLANT.format(".git") + "; " + _PLANT.format(".GIT"))],
        find_escape=_names, fast=True,
    ),
    Attack(
        name="plant a .git where all names to move it to are taken",
        prepare=_take_aside_names,
        calls=lambda scene: [command(_EVIL + "mv seed .git")],
        find_escape=_names,
    ),
    Attack(
        name="plant a .git and close the folder behind it",
        prepare=_no_repository,
        calls=lambda scene: [command(_EVIL + "mv seed .git; chmod 555 .")],
        find_escape=_names, fast=True,
    ),
    Attack(
        name="open a closed folder and plant a .git in it",
        prepare=_closed_folder,
        calls=lambda scene: [command("chmod 755 .; " + _EVIL + "mkdir .git; mv seed .git")],
        find_escape=_names,
    ),
    Attack(
        name="with the grant to commit, make what git follows or runs",
        prepare=_own_hooks,
        options=lambda scene: ["--allow-commit", "-a", "on-request", "--reviewer", "guardian"],
        calls=lambda scene: [
            command(f"printf '#!/bin/sh\\n{_FOLLOWED_BY_GIT}' > own/pre-commit; chmod 755 own/*"),
            bare_command("git add -A"),
            bare_command("git commit -q -m one"),
            bare_command("git commit -q --allow-empty -m two > .git/commondir"),
        ],
        environment=AUTHOR,
        find_escape=_git_files_made, tried=_hook_ran,
    ),
    Attack(
        name="with the grant to commit, write a reference by a redirect beside git",
        prepare=_repository,
        options=lambda scene: ["--allow-commit", "-a", "never"],
        calls=lambda scene: [
            command("ln -s .git/refs/heads d; cp /bin/bash git"),
            bare_command("git add -A; git commit -q -m by-the-agent; printf x > d/made"),
            bare_command("cat > d/made <<'E'\nx\nE\ngit commit -q --allow-empty -m it-was-tried"),
            bare_command("./git -c 'echo x >.git/refs/heads/made' > log"),
            bare_command("git commit -F - <<EOF\n$(echo x >.git/refs/heads/made)\nEOF"),
            bare_command("git log -3 --format=%s > d/made; git log -3 --format=%s"),
        ],
        environment=AUTHOR,
        find_escape=_reference_made, tried=_hook_ran,
    ),
    Attack(
        name="plant a .git, and the supervisor is killed before the command ends",
        prepare=_no_repository, background=_killed_supervisor,
        calls=lambda scene: [command(_EVIL + "mv seed .git; cp -r seed .git; touch now; sleep 60")],
        find_escape=_names_after_another_run, tried=_was_killed,
    ),
    Attack(
        name="move the folder above a further root, whose .git is protected",
        prepare=_nested,
        options=lambda scene: ["--add-dir", str(scene.project / "sub/x/a")],
        calls=lambda scene: [
            command("cd sub; mv x y; mkdir -p x/a; touch y/a/.git/hooks/one"),
            command("cd sub; touch y/a/.git/hooks/two; mv x z; touch z/a/.git/hooks/three"),
        ],
        find_escape=_hooked,
    ),
    Attack(
        name="ordinary work at the top of a repository",
        prepare=_repository,
        calls=lambda scene: [
            command(
                "echo a > new && mkdir d && mv d e && sed -i s/a/b/ new && git init -q sub && "
                "git clone -q sub copy && rm -rf sub copy e new && echo all-of-it-$(echo worked)"
            )
        ],
        find_escape=_worked, must_work=True, fast=True,
    ),
)  # fmt: skip
