"""Protected names: a planted `.git` runs code at the person's next `git status`."""

import os
import subprocess
from pathlib import Path

from play import Play, command
from scene import Scene

_PLANT = (
    "mkdir {0}; cp -r /tmp/g {0}; mv seed {0}; ln -s seed {0}; echo 'gitdir: seed' > {0}; "
    "ln seed/config {0}; mkfifo {0}"
)
_EVIL = (
    "mkdir -p seed/objects seed/refs; echo 'ref: refs/heads/m' > seed/HEAD; "
    "printf '[core]\\nfsmonitor = touch /tmp/ran\\n' > seed/config; "
)


def _names(scene: Scene) -> str:
    # Where letter case counts, `.GIT` is no repository; where it does not, this sees it.
    there = os.path.lexists(scene.project / ".git")
    return "a .git was left in the project" if there else ""


def _no_repository(scene: Scene) -> None:
    """The project is none."""
    subprocess.run(["rm", "-rf", str(scene.project / ".git")], check=True)


def _crowd(scene: Scene) -> None:
    _no_repository(scene)
    for number in range(1, 1000):
        (scene.project / f".git.moved-aside-{number}").touch()


def _closed_folder(scene: Scene) -> None:
    _no_repository(scene)
    scene.project.chmod(0o555)


def _repository(scene: Scene) -> None:
    words = ["git", "init", "-q", "."]
    subprocess.run(words, cwd=scene.project, check=True)
    subprocess.run(["chown", "-R", f"--reference={scene.project}", ".git"], cwd=scene.project,
                   check=True)  # fmt: skip


def _followed(scene: Scene) -> str:
    git = Path(scene.project, ".git")
    names = ("commondir", "rebase-merge", "rebase-apply", "sequencer", "objects/info/alternates",
             "objects/x/alternates", "config.worktree", "hooks/post-commit")  # fmt: skip
    left = [name for name in names if os.path.lexists(git / name)]
    return f"{left} were made in .git" if left else ""


def _worked(scene: Scene) -> str:
    return "" if "all-of-it-worked" in scene.said else f"work failed: {scene.said[-300:]}"


PLAYS = (
    Play(
        name="plant a .git in every way there is",
        prepare=_no_repository,
        calls=lambda scene: [command(_EVIL + _PLANT.format(".git") + "; " + _PLANT.format(".GIT"))],
        escaped=_names, fast=True,
    ),
    Play(
        name="plant a .git where all names to move it to are taken",
        prepare=_crowd,
        calls=lambda scene: [command(_EVIL + "mv seed .git")],
        escaped=_names,
    ),
    Play(
        name="plant a .git and close the folder behind it",
        prepare=_no_repository,
        calls=lambda scene: [command(_EVIL + "mv seed .git; chmod 555 .")],
        escaped=_names, fast=True,
    ),
    Play(
        name="open a closed folder and plant a .git in it",
        prepare=_closed_folder,
        calls=lambda scene: [command("chmod 755 .; " + _EVIL + "mkdir .git; mv seed .git")],
        escaped=_names,
    ),
    Play(
        name="with the grant to commit, make what git follows or runs",
        prepare=_repository,
        options=lambda scene: ["--allow-commit"],
        calls=lambda scene: [
            command(
                "git add -A; echo ../seed > .git/commondir; mkdir .git/rebase-merge; "
                "echo /tmp > .git/objects/info/alternates; mkdir .git/objects/x; "
                "echo /tmp > .git/objects/x/alternates; mkdir .git/sequencer"
            ),
            command("git add . && cp .git/HEAD .git/commondir"),
        ],
        escaped=_followed,
    ),
    Play(
        name="ordinary work at the top of a repository",
        prepare=_repository,
        calls=lambda scene: [
            command(
                "echo a > new && mkdir d && mv d e && sed -i s/a/b/ new && git init -q sub && "
                "git clone -q sub copy && rm -rf sub copy e new && echo all-of-it-$(echo worked)"
            )
        ],
        escaped=_worked, must_work=True, fast=True,
    ),
)  # fmt: skip
