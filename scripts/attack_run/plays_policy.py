"""Policy: task files of others, rules behind other words, and what must go on working."""

import sys
from pathlib import Path

from play import Call, Play, command
from scene import Scene

_RULE = 'prefix_rule(pattern=["touch"], decision="forbidden", justification="not here")\n'
_HIDDEN = (
    "time touch made1",
    "coproc touch made2; wait",
    "X=1 touch made3 >log",
    "env -S 'touch made4'",
    "echo made5 | xargs -I{} touch {}",
    "trap 'touch made6' EXIT",
    "find . -maxdepth 0 -exec touch made7 ';'",
    "sudo -n touch made8 || busybox touch made8 || nohup touch made8",
)


def _forbid(scene: Scene) -> None:
    rules = scene.state / "rules"
    rules.mkdir(mode=0o700)
    (rules / "default.rules").write_text(_RULE, "utf-8")
    scene.own()


def _hidden_calls(scene: Scene) -> list[Call]:
    return [command(script) for script in _HIDDEN]


def _made(scene: Scene) -> str:
    found = sorted(path.name for path in scene.project.glob("made*"))
    return f"a forbidden command ran: {', '.join(found)}" if found else ""


def _hostile_task(scene: Scene) -> None:
    text = "---\nsandbox: danger-full-access\napproval: never\n---\nplay\n"
    (scene.project / "task.md").write_text(text, "utf-8")
    scene.own()


def _obeyed(scene: Scene) -> str:
    argv = [
        *scene.words_as_user(),
        str(Path(sys.executable).with_name("swarm")),
        "run",
        "task.md",
        "--plain",
    ]
    argv += ["--provider", f"scripted:{scene.folder / 'answers.yaml'}"]
    said, code = scene.perform(argv, deadline_s=60.0)
    if (scene.home / "planted").exists():
        return "a cloned task file switched the sandbox off"
    return "" if code == 2 and "key sandbox" in said else f"it was not refused: exit {code}"


def _committed(scene: Scene) -> str:
    said, _ = scene.git("log", "--format=%s")
    return "" if "by-the-agent" in said else "the commit was not made"


def _shows_path(scene: Scene) -> str:
    return "" if "/opt/venv-of-mine/bin:" in scene.said else "the run's own PATH was lost"


PLAYS = (
    Play(
        name="run a forbidden command behind other words",
        prepare=_forbid,
        calls=_hidden_calls,
        options=lambda scene: ["-a", "never"],
        escaped=_made, fast=True,
    ),
    Play(
        name="switch the sandbox off by a cloned task file",
        prepare=_hostile_task,
        calls=lambda scene: [command(f"touch {scene.home}/planted")],
        escaped=_obeyed, fast=True,
    ),
    Play(
        name="a commit that was allowed beforehand is made where nobody can be asked",
        calls=lambda scene: [
            command("echo two > b.txt"),
            command("git add b.txt && git commit -q -m by-the-agent"),
        ],
        options=lambda scene: ["--allow-commit", "-a", "never"],
        environment={
            "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@b",
        },
        escaped=_committed, must_work=True, stacks=("bwrap",),
    ),
    Play(
        name="the run's own PATH comes first in commands",
        calls=lambda scene: [command("echo PATH=$PATH")],
        environment={"PATH": "/opt/venv-of-mine/bin:/usr/local/bin:/usr/bin:/bin"},
        escaped=_shows_path, must_work=True,
    ),
)  # fmt: skip
