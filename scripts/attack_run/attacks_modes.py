"""Modes: what agents make is a person's, by their umask; what swarm keeps is closed to other users.

Every run here has the umask 0, which takes no right from anybody. Where the player is root, another
user of the machine reads and connects to all that is open, again and again, while the run lives.
"""

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attack import BOTH, Attack, Call, Turn, command, commands_ran, run_ended
from attack_testbed import AttackTestbed

_OTHER = 65534
_OUT = "other-user"
_WORDS = "words-of-this-run"
_PATCH = "*** Begin Patch\n*** Add File: patched/new.txt\n+hello\n*** End Patch\n"
_PLACES = {
    "made": 0o777, "made/file": 0o666, "patched": 0o777, "patched/new.txt": 0o666,
    "made/session": 0o666, "made/child": 0o666, "by-hook": 0o666, "by-server": 0o666,
}  # fmt: skip
# What another user does all the time: enter every folder, read every file, knock at every socket.
_READER = r"""
import os, socket, stat, sys, time
out, *tops = sys.argv[1:]
seen = set()
def look(path, depth=0):
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            names = os.listdir(path)
            if depth:
                seen.add("listed " + path)
            for name in names:
                look(path + "/" + name, depth + 1)
        elif stat.S_ISSOCK(mode):
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(path)
            seen.add("connected to " + path)
        elif stat.S_ISREG(mode):
            with open(path, "rb") as file:
                file.read(1)
            seen.add("read " + path)
    except OSError:
        pass
print("looking", flush=True)
while not os.path.exists(out + ".end"):
    for top in tops:
        look(top)
    time.sleep(0.02)
print("\n".join([*sorted(seen), "looked"]), flush=True)
"""
_SERVER = r"""
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
print("words-of-this-run in the log", file=sys.stderr, flush=True)
open("by-server", "w").close()
for line in sys.stdin:
    message = json.loads(line)
    method, given = message.get("method"), message.get("params") or {}
    if "id" not in message:
        continue
    if method == "initialize":
        send(id=message["id"], result={"protocolVersion": given["protocolVersion"],
             "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}})
    elif method == "tools/list":
        send(id=message["id"], result={"tools": []})
    else:
        send(id=message["id"], error={"code": -32601, "message": "no"})
"""


def _open_masks(scene: AttackTestbed) -> None:
    """The command starts with umask 0; the person's folders above swarm's are open, too."""
    real, wrapper = scene.swarm_path, scene.folder / "open-swarm"
    wrapper.write_text(f'#!/bin/sh\numask 0\nexec {real} "$@"\n', "utf-8")
    wrapper.chmod(0o755)
    scene.swarm_path = wrapper
    for folder in (scene.state, scene.home, scene.runtime, scene.project):
        folder.chmod(0o755)
    scene.tmp.chmod(0o1777)
    scene.secret_file.chmod(0o600)


def _prepare(scene: AttackTestbed) -> None:
    server = scene.home / "server.py"
    server.write_text(_SERVER, "utf-8")
    listed = json.dumps(["-I", str(server)])
    (scene.state / "config.toml").write_text(
        "[features]\nmemories = true\n"
        f'[mcp_servers.own]\ncommand = "/usr/bin/python3"\nargs = {listed}\n'
        f'writable_roots = ["{scene.project}"]\ncwd = "{scene.project}"\n',
        "utf-8",
    )
    hook = {"type": "command", "command": f"touch {scene.project}/by-hook", "timeout": 5}
    table = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}}
    (scene.state / "hooks.json").write_text(json.dumps(table), "utf-8")
    (scene.state / "config.toml").chmod(0o600)
    (scene.state / "hooks.json").chmod(0o600)
    _open_masks(scene)


def _without_runtime(scene: AttackTestbed) -> None:
    _prepare(scene)
    scene.runtime.rmdir()  # so that the sockets lie in the folder for temporary files


def _spawn(**more: object) -> Call:
    arguments = {"task_name": "one", "message": "work", "fork_turns": "none", **more}
    return {"name": "spawn_agent", "arguments": arguments}


def _make(_: AttackTestbed) -> Sequence[Call]:
    wait = {"targets": ["one"], "timeout_ms": 30_000, "for": "all"}
    return [
        command(f"mkdir made && touch made/file && echo {_WORDS} > $TMPDIR/left; sleep 0.3"),
        command("touch made/session; sleep 0.2", tty=True),
        {"name": "apply_patch", "arguments": {"input": _PATCH}},
        _spawn(isolation="copy"),
        {"name": "wait_agent", "arguments": wait},
    ]


def _child(_: AttackTestbed) -> Sequence[Turn]:
    return [
        {"agent": "/root/one", "calls": [command("touch made/child in-copy; sleep 0.3")]},
        {"agent": "/root/one", "text": _WORDS},
    ]


@contextmanager
def _other_user(scene: AttackTestbed) -> Iterator[None]:
    """Somebody with another id, and no group of ours, who looks until `_seen_by_other` asks."""
    tops = (scene.state, scene.runtime, scene.tmp, scene.home)
    words = [sys.executable, "-I", "-c", _READER, str(scene.folder / _OUT), *map(str, tops)]
    user = ("setpriv", f"--reuid={_OTHER}", f"--regid={_OTHER}", "--clear-groups")
    with (
        (scene.folder / _OUT).open("w") as out,
        subprocess.Popen([*user, *words], stdout=out, stderr=out) as child,
    ):
        while "looking" not in _said(scene) and child.poll() is None:
            time.sleep(0.02)
        try:
            yield
        finally:
            child.kill()


def _said(scene: AttackTestbed) -> str:
    return (scene.folder / _OUT).read_text("utf-8")


def _seen_by_other(scene: AttackTestbed) -> str:
    """What it could use while the run lived, and while its person looked at it afterwards."""
    for one in (("ps",), ("undo", "--force"), ("merge",), ("memory", "list"), ("export", "x.tar")):
        scene.run_program(scene.swarm(*one))
    (scene.folder / f"{_OUT}.end").touch()
    while not (said := _said(scene)).endswith("looked\n") and "Error" not in said:
        time.sleep(0.02)
    own = {*map(str, (scene.home / "server.py", scene.runtime, scene.tmp, scene.home))}
    seen = [one for one in said.splitlines()[1:-1] if one.partition("/")[2] and
            f"/{one.partition('/')[2]}" not in own]  # fmt: skip
    return f"another user {seen[0]} ({len(seen)} in all)" if seen else ""


def _opened(scene: AttackTestbed) -> str:
    bits = _open_bits(scene)
    return f"others may use {bits[0]} ({len(bits)} in all)" if bits else ""


def _open_bits(scene: AttackTestbed) -> list[str]:
    """Swarm's own folders and files that give a right to a group or to others."""
    found: list[str] = []
    for top in (scene.state / "state", scene.state / "cache", scene.runtime / "swarm", scene.tmp):
        for path in (top, *top.rglob("*")):
            try:
                facts = path.lstat()
            except OSError:
                continue
            if path == scene.tmp or stat.S_ISLNK(facts.st_mode) or _is_theirs(path, top):
                continue
            if facts.st_mode & 0o077:
                found.append(f"{path.relative_to(scene.folder)} ({facts.st_mode & 0o777:o})")
    return found


def _is_theirs(path: Path, top: Path) -> bool:
    """Agents' files in a run's private folders: nobody gets there."""
    return bool({"tmp", "copies", "trees"} & set(path.relative_to(top).parts[:-1]))


def _unlike_umask(scene: AttackTestbed) -> str:
    if words := _opened(scene):
        return words
    for name, wanted in _PLACES.items():
        try:
            found = stat.S_IMODE((scene.project / name).lstat().st_mode)
        except FileNotFoundError:
            if name == "made/child":  # made in a copy: it comes with a merge
                continue
            return f"{name} was not made"
        if found != wanted:
            return f"{name} has the mode {found:o} and not {wanted:o}"
    return ""


def _seized(scene: AttackTestbed) -> None:
    """Another user was there before: the names for the sockets' folder are taken."""
    _without_runtime(scene)
    os.chown(scene.tmp, 0, 0)
    taken = scene.tmp / f"swarm-{os.geteuid() if scene.user is None else scene.user.pw_uid}"
    taken.mkdir()
    os.chown(taken, _OTHER, _OTHER)
    taken.chmod(0o777)


def _linked(scene: AttackTestbed) -> None:
    _without_runtime(scene)
    uid = os.geteuid() if scene.user is None else scene.user.pw_uid
    elsewhere = scene.folder / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o777)
    (scene.tmp / f"swarm-{uid}").symlink_to(elsewhere)
    os.lchown(scene.tmp / f"swarm-{uid}", _OTHER, _OTHER)


def _used_it(scene: AttackTestbed) -> str:
    folders = [*scene.tmp.glob("swarm-*/*"), *(scene.folder / "elsewhere").glob("*")]
    return f"a run kept its sockets in another user's folder: {folders[0]}" if folders else ""


def _refused(scene: AttackTestbed) -> str:
    return "" if "belongs to someone else" in scene.output else run_ended(scene)


_NEEDS_ROOT = {} if os.geteuid() == 0 else dict.fromkeys(BOTH, "only root can be another user")

PLAYS = (
    Attack(
        name="another user reads, lists or knocks at what a run with umask 0 keeps",
        prepare=_prepare, calls=_make, others=_child, background=_other_user,
        find_escape=lambda scene: _seen_by_other(scene) or _opened(scene),
        tried=commands_ran, not_on=_NEEDS_ROOT, fast=True,
    ),
    Attack(
        name="the same where the sockets lie in the folder for temporary files",
        prepare=_without_runtime, calls=_make, others=_child, background=_other_user,
        find_escape=lambda scene: _seen_by_other(scene) or _opened(scene),
        tried=commands_ran, not_on=_NEEDS_ROOT,
    ),
    Attack(
        name="another user takes the name of the sockets' folder before",
        prepare=_seized, calls=_make, others=_child, find_escape=_used_it, tried=_refused,
        not_on=_NEEDS_ROOT,
    ),
    Attack(
        name="another user puts a link there",
        prepare=_linked, calls=_make, others=_child, find_escape=_used_it, tried=_refused,
        not_on=_NEEDS_ROOT,
    ),
    Attack(
        name="what agents make has the modes of the umask 0, and what swarm keeps has its own",
        prepare=_prepare, calls=_make, others=_child, find_escape=_unlike_umask, must_work=True,
    ),
)  # fmt: skip
