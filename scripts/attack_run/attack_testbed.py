"""The world of one play: a project in a git repository, a home with a secret, and a real run.

Rule: everything lies below one temporary folder that is the player's own, and is gone afterwards;
a run that does not end by its deadline is ended with all below it.
"""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from swarm.mailbox.base.process_tree import kill_descendants_once

SECRET = "the-secret-of-this-scene"
_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")


class AttackTestbed:
    """Made by `open_attack_testbed`. `said` is what the run printed; `outputs` what its commands
    did.
    """

    def __init__(self, folder: Path, user: str, swarm: Path) -> None:
        self.folder = folder
        self.swarm_path = swarm
        self.project, self.home, self.state = folder / "project", folder / "home", folder / "state"
        self.tmp, self.runtime = folder / "t", folder / "r"
        self.secret_file = self.home / "secret.txt"
        self.user = pwd.getpwnam(user) if user else None
        self.output, self.exit_code = "", 0
        self.pid = 0  # of the program that runs now

    def argv_as_user(self) -> list[str]:
        """To be put before a command so that the scene's user runs it."""
        if self.user is None or self.user.pw_uid == os.geteuid():
            return []
        ids = (f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups")
        return ["setpriv", *ids]

    def swarm(self, *words: str) -> list[str]:
        """The command that is attacked, as the scene's user."""
        return [*self.argv_as_user(), str(self.swarm_path), *words]

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """What the run sees; nothing of the person who plays. `{folder}` is the scene's."""
        extra = {name: one.replace("{folder}", str(self.folder)) for name, one in extra.items()}
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": str(self.home),
            "SHELL": "/bin/sh", "SWARM_HOME": str(self.state), "TMPDIR": str(self.tmp),
            "XDG_RUNTIME_DIR": str(self.runtime), "TERM": "dumb", **extra,
        }  # fmt: skip

    def run(
        self,
        calls: Sequence[Mapping[str, object]],
        options: Sequence[str],
        *,
        others: Sequence[Mapping[str, object]] = (),
        deadline_s: float,
        extra: Mapping[str, str],
    ) -> None:
        """One `swarm run` whose root makes these calls, one a request, and then says so."""
        turns = [{"agent": "/root", "calls": [call]} for call in calls]
        provider = self.script("answers", [*turns, *others])
        argv = self.swarm("run", "-p", "play", "--provider", provider)
        argv += ["-C", str(self.project), "--json", *options]
        self.output, self.exit_code = self.run_program(argv, deadline_s=deadline_s, extra=extra)

    def script(self, name: str, turns: Sequence[Mapping[str, object]]) -> str:
        """A provider that answers with these turns, and with `done` after them."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"turns": turns, "default": {"text": "done"}}), "utf-8")
        return f"scripted:{path}"

    def run_program(
        self, argv: Sequence[str], *, deadline_s: float = 30.0, extra: Mapping[str, str] = {}
    ) -> tuple[str, int]:
        """Run a program in the scene; returns what it printed and its exit code (-9: too late)."""
        process = subprocess.Popen(
            argv, env=self.environment(extra), cwd=self.project, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.pid = process.pid
        try:
            said, _ = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            kill_descendants_once(process.pid)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
        return said.decode("utf-8", "replace"), process.returncode

    def run_id(self) -> str:
        """Of the one run that there is."""
        (found,) = (self.state / "state" / "runs").glob("*/run.json")
        return found.parent.name

    def git(self, *words: str) -> tuple[str, int]:
        """The person's own git in the project, as after a run."""
        return self.run_program([*self.argv_as_user(), *_GIT, *words])

    def chown_files(self) -> None:
        """Give all files of the scene to its user."""
        if self.user is None:
            return
        for root, folders, files in os.walk(self.folder):
            for name in ("", *folders, *files):
                os.lchown(Path(root, name), self.user.pw_uid, self.user.pw_gid)


@contextmanager
def open_attack_testbed(user: str, swarm: Path) -> Iterator[AttackTestbed]:
    """A fresh world for a user ("": whoever plays) and an installed command; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    folder.chmod(0o755)
    scene = AttackTestbed(folder, user, swarm)
    try:
        for each in (scene.project, scene.home, scene.state, scene.tmp, scene.runtime):
            each.mkdir(mode=0o700)
        scene.secret_file.write_text(SECRET + "\n", "utf-8")
        (scene.project / "README.md").write_text("a project\n", "utf-8")
        scene.chown_files()
        scene.git("init", "-q")
        scene.git("add", ".")
        scene.git("commit", "-q", "-m", "first")
        yield scene
    finally:
        shutil.rmtree(folder, ignore_errors=True)
