"""The conversation in a folder that nobody trusts: its keys start nothing that lies there.

Each play types into a real `swarm` on a terminal of its own: `@` and the beginning of a file's name
in a repository whose configuration names programs, and Ctrl-X Ctrl-E with an editor of the project.
"""

import os
import pty
import select
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from attack import Attack, Call, command, run_ended
from attack_testbed import AttackTestbed

from swarm.mailbox.base.process_tree import kill_descendants_once

_MARK = "chat-ran-it"
_FILE = "zebra-file.txt"
_BRACKETED = b"\x1b[?2004h"  # the input line is there
_LIMIT_S = 30.0


def _mark(scene: AttackTestbed) -> Path:
    return scene.folder / _MARK


class Terminal:
    """The conversation, its keyboard, and all that it drew."""

    def __init__(self, process: "subprocess.Popen[bytes]", screen: int) -> None:
        self._process, self._screen = process, screen
        self.seen = b""

    def press(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def wait(self, words: bytes, *, limit_s: float = _LIMIT_S) -> bool:
        """True once they were drawn."""
        end = time.monotonic() + limit_s
        while words not in self.seen and time.monotonic() < end:
            if select.select([self._screen], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self._screen, 65_536)
                except OSError:
                    break
        return words in self.seen


@contextmanager
def _open_chat(scene: AttackTestbed, extra: Mapping[str, str]) -> Iterator[Terminal]:
    parent, child = pty.openpty()
    provider = scene.script("chat", [])
    words = ["setsid", "-c", "-w", *scene.swarm("chat", "--provider", provider)]
    environment = {**scene.environment(extra), "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        words, stdin=child, stdout=child, stderr=child, cwd=scene.project, env=environment
    )
    os.close(child)
    try:
        yield Terminal(process, parent)
    finally:
        kill_descendants_once(process.pid)
        process.kill()
        process.wait()
        os.close(parent)


def _complete(scene: AttackTestbed) -> str:
    """Type `@zeb` until git's answer is there (the first question only begins the search)."""
    with _open_chat(scene, {}) as chat:
        if not chat.wait(_BRACKETED):
            return f"the conversation did not begin: {chat.seen[-300:]!r}"
        shown = False
        for _ in range(12):
            chat.press("@zeb")
            if shown := chat.wait(_FILE.encode(), limit_s=1.0):
                break
            chat.press("\x15")  # Ctrl-U: clear the line
        if _mark(scene).exists():
            return "a program of the repository's configuration ran"
        (scene.folder / "shown").write_text(str(shown), "utf-8")
        return ""


def _all_settings(scene: AttackTestbed) -> None:
    """Whatever git reads in a repository and that names a program."""
    run = scene.folder / "run.sh"
    run.write_text(f"#!/bin/sh\ntouch {_mark(scene)}\nexit 1\n", "utf-8")
    run.chmod(0o755)
    (scene.project / _FILE).write_text("x\n", "utf-8")
    (scene.project / "tracked.txt").write_text("x\n", "utf-8")
    attributes = "* filter=evil diff=evil merge=evil\n*.txt working-tree-encoding=UTF-16\n"
    (scene.project / ".gitattributes").write_text(attributes, "utf-8")
    scene.git("add", "-A")
    scene.git("commit", "-q", "-m", "all")
    hooks = scene.project / ".git/evil-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc"):
        (hooks / name).symlink_to(run)
        with suppress(FileExistsError):
            (scene.project / ".git/hooks" / name).symlink_to(run)
    included = scene.project / ".git/more"
    included.write_text(f"[core]\n\tfsmonitor = {run}\n\tsshCommand = {run}\n", "utf-8")
    with (scene.project / ".git/config").open("a", encoding="utf-8") as config:
        config.write(_settings(str(run), str(hooks), str(scene.project)))
    # nothing is fresh, so that git looks at contents; an object that a promisor would have
    (scene.project / "tracked.txt").write_text("changed\n", "utf-8")
    objects = sorted((scene.project / ".git/objects").glob("??/*"))
    objects[0].unlink()


def _settings(run: str, hooks: str, project: str) -> str:
    return (
        f"[core]\n\tfsmonitor = {run}\n\thooksPath = {hooks}\n\tsshCommand = {run}\n"
        f"\tpager = {run}\n\teditor = {run}\n\taskPass = {run}\n\tgitProxy = {run}\n"
        f"\talternateRefsCommand = {run}\n\tattributesFile = {project}/.gitattributes\n"
        f"\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = origin\n"
        f"[include]\n\tpath = more\n"
        f'[includeIf "gitdir:**"]\n\tpath = more\n[includeIf "onbranch:**"]\n\tpath = more\n'
        f'[filter "evil"]\n\tclean = {run}\n\tsmudge = {run}\n\tprocess = {run}\n\trequired\n'
        f'[diff "evil"]\n\ttextconv = {run}\n\tcommand = {run}\n[diff]\n\texternal = {run}\n'
        f'[merge "evil"]\n\tdriver = {run} %O %A %B\n'
        f'[remote "origin"]\n\turl = ext::{run}\n\tpromisor = true\n\tuploadpack = {run}\n'
        f"\tpartialclonefilter = blob:none\n\tvcs = evil\n"
        f"[gpg]\n\tprogram = {run}\n[credential]\n\thelper = !{run}\n[uploadpack]\n"
        f"\tpackObjectsHook = {run}\n[alias]\n\tls-files = !{run}\n\trev-parse = !{run}\n"
        f"[protocol]\n\tallow = always\n[fsmonitor]\n\tallowRemote = true\n"
        f"[trace2]\n\tnormalTarget = {project}/../trace\n[log]\n\tshowSignature = true\n"
        f"[submodule]\n\trecurse = true\n[safe]\n\tdirectory = *\n"
    )


def _bare_within(scene: AttackTestbed) -> None:
    """No repository of its own: the folder itself looks like a bare one, with its own settings."""
    _all_settings(scene)
    for path in (scene.project / ".git").iterdir():
        path.rename(scene.project / path.name)
    (scene.project / ".git").rmdir()


def _worktree_file(scene: AttackTestbed) -> None:
    """`.git` is a file that leads to a folder with the settings."""
    _all_settings(scene)
    (scene.project / ".git").rename(scene.project / "data")
    (scene.project / ".git").write_text("gitdir: data\n", "utf-8")


def _nested(scene: AttackTestbed) -> None:
    """The settings are those of a submodule below a harmless repository."""
    (scene.project / _FILE).write_text("x\n", "utf-8")
    scene.git("add", "-A")
    scene.git("commit", "-q", "-m", "outer")
    inner = scene.project / "inner"
    inner.mkdir()
    outer, scene.project = scene.project, inner
    scene.git("init", "-q")
    _all_settings(scene)
    scene.project = outer
    scene.git("-c", "core.fsmonitor=false", "add", "inner")
    _mark(scene).unlink(missing_ok=True)


def _ready(prepare: Callable[[AttackTestbed], None]) -> Callable[[AttackTestbed], None]:
    """The person's own git, which made the scene, may have run something: forget it."""

    def prepared(scene: AttackTestbed) -> None:
        prepare(scene)
        _mark(scene).unlink(missing_ok=True)

    return prepared


def _began(scene: AttackTestbed) -> str:
    return "" if (scene.folder / "shown").exists() else "nothing was typed"


def _offered(scene: AttackTestbed) -> str:
    """For an honest repository: the files are offered."""
    if words := _complete(scene):
        return words
    shown = (scene.folder / "shown").read_text("utf-8")
    return "" if shown == "True" else "`@` offered no file of the repository"


def _honest(scene: AttackTestbed) -> None:
    (scene.project / _FILE).write_text("x\n", "utf-8")


_EDITORS = {
    "a program of the project": "{project}/edit",
    "one of the project's folder on PATH": "edit",
    "words around it": "/usr/bin/env -S {project}/edit --wait",
    "a relative path": "./edit",
    "a shell that starts it": "sh {project}/edit",
    "a path that is quoted": "'{project}/edit'",
    "the home folder's link to it": "{home}/my-editor",
}


def _edit(scene: AttackTestbed) -> str:
    """Ctrl-X Ctrl-E with each editor, by each variable. What is refused is said."""
    for what, words in _EDITORS.items():
        editor = words.format(project=scene.project, home=scene.home)
        for variable in ("VISUAL", "EDITOR"):
            path = f"{scene.project}:/usr/bin:/bin"
            with _open_chat(scene, {variable: editor, "PATH": path}) as chat:
                if not chat.wait(_BRACKETED):
                    return f"the conversation did not begin: {chat.seen[-300:]!r}"
                chat.press("hello")
                chat.wait(b"hello")
                chat.press("\x18\x05")
                told = chat.wait(variable.encode(), limit_s=5.0)
            if _mark(scene).exists():
                return f"Ctrl-X Ctrl-E started {what} ({variable})"
            if not told:
                return f"nobody was told that {what} is not started ({variable})"
    (scene.folder / "shown").touch()
    return ""


def _editor(scene: AttackTestbed) -> None:
    edit = scene.project / "edit"
    edit.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(_mark(scene)))}\n", "utf-8")
    edit.chmod(0o755)
    (scene.home / "my-editor").symlink_to(edit)


def _look(_: AttackTestbed) -> Sequence[Call]:
    return [command("true")]


def _mention(name: str, prepare: Callable[[AttackTestbed], None], *, fast: bool = False) -> Attack:
    return Attack(
        name=f"`@` in the conversation starts what a repository names: {name}",
        prepare=_ready(prepare), calls=_look, find_escape=_complete, tried=_began, fast=fast,
    )  # fmt: skip


PLAYS = (
    _mention("monitors, hooks, filters, drivers, transports, aliases", _all_settings, fast=True),
    _mention("in a folder that looks like a bare repository", _bare_within),
    _mention("behind a `.git` file", _worktree_file),
    _mention("in a submodule", _nested),
    Attack(
        name="`@` in the conversation offers the files of an honest repository",
        prepare=_honest, calls=_look, find_escape=_offered, tried=run_ended, must_work=True,
    ),
    Attack(
        name="Ctrl-X Ctrl-E starts an editor that lies in the project, or says nothing",
        prepare=_editor, calls=_look, find_escape=_edit, tried=run_ended, deadline_s=120.0,
    ),
)  # fmt: skip
