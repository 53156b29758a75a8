"""Sockets: of other programs, by every kind of name; of other runs; and a command's own."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from attack import Attack, Call, bare_command, command
from attack_testbed import AttackTestbed

from swarm.mailbox.base.process_tree import kill_descendants_once

_CONNECT = """
import os, socket
folder = open("strangers").read()
def attempt(do, *args):
    try:
        do(*args)
        print("CONN" + "ECTED", args)
    except OSError as error:
        print(error, args)
attempt(socket.socket(socket.AF_UNIX).connect, "\\0" + os.path.basename(folder))
for name in ("relative", "renamed", "linked", "new\\nline", "real"):
    attempt(socket.socket(socket.AF_UNIX).connect, f"{folder}/{name}")
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    attempt(lambda: socket.socket(socket.AF_UNIX, kind).sendto(b"x", f"{folder}/datagram"))
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    for send in (one.sendto, lambda data, to: other.sendmsg([data], [], 0, to)):
        try:
            send(b"x", f"{folder}/datagram")  # to the other end, wherever it is addressed to
        except OSError as error:
            print(error)
os.chdir(folder)
attempt(socket.socket(socket.AF_UNIX).connect, "relative")
"""
_SERVE_ITSELF = """
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("it", urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}").status, "answers")
"""
_OWN_SOCKET = """
import socket
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind("own.sock")
server.listen()
client.connect("own.sock")
client.send(b"it 200")
print(server.accept()[0].recv(99).decode(), "answers")
"""
# The private /tmp gets another folder in its place, so that a later sandbox can be made.
_MOVE = (
    "private=$(awk '$5 == \"/tmp\" {print $4}' /proc/self/mountinfo); mv state aside; "
    'mkdir -p "$private"; mkdir -p state/state/runs; ls -d state aside; true'
)
_READ = "cat */*/runs/*/journal/* */runs/*/journal/*"
_WAIT_S = 30.0
_HEARD = "a datagram came"


def _python(script: str) -> Callable[[AttackTestbed], list[Call]]:
    return lambda scene: [command(f"python3 - <<'END'\n{script}\nEND")]


@contextmanager
def _foreign_sockets(scene: AttackTestbed) -> Iterator[None]:
    """Sockets of this process, whose names in /proc/net/unix mislead."""
    folder = Path(tempfile.mkdtemp(prefix="attack-sockets-", dir="/var/tmp"))
    before = Path.cwd()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        os.chdir(folder)
        for address in ("relative", "before", "once", "new\nline", str(folder / "real"),
                        f"\0{folder.name}"):  # fmt: skip
            door = stack.enter_context(socket.socket(socket.AF_UNIX))
            door.bind(address)
            door.listen()
        letters = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        letters.bind("datagram")
        Path("before").rename("renamed")
        Path("linked").hardlink_to("once")
        for path in folder.iterdir():
            path.chmod(0o777)
        os.chdir(before)
        (scene.project / "strangers").write_text(str(folder), "utf-8")
        yield
        letters.setblocking(False)
        with suppress(BlockingIOError):
            letters.recv(1)
            (scene.project / "strangers").write_text(_HEARD, "utf-8")


def _connected(scene: AttackTestbed) -> str:
    heard = (scene.project / "strangers").read_text("utf-8") == _HEARD
    return "another program's socket was reached" if heard or "CONNECTED" in scene.output else ""


def _answered(scene: AttackTestbed) -> str:
    return "" if "it 200 answers" in scene.output else "its own server did not answer"


def _an_older_run(scene: AttackTestbed) -> None:
    folder = scene.state / "state" / "runs" / "older" / "journal"
    folder.mkdir(parents=True)
    (folder / "root.jsonl").write_text("words-of-an-older-run\n", "utf-8")


def _journal_words(scene: AttackTestbed) -> str:
    return "another run's journal was read" if "words-of-an-older-run" in scene.output else ""


@contextmanager
def _another_run(scene: AttackTestbed) -> Iterator[None]:
    """It waits in a command; its id stands in the project."""
    provider = scene.script("other", [{"calls": [bare_command("sleep 100")]}])
    words = scene.swarm("run", "-p", "wait", "--provider", provider)
    words += ["-C", str(scene.home)]
    run = subprocess.Popen(
        words, env=scene.environment({}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + _WAIT_S
        while not (found := list((scene.state / "state" / "runs").glob("*/run.json"))):
            if time.monotonic() > deadline:
                raise TimeoutError("the other run did not begin")
            time.sleep(0.05)
        (scene.project / "other").write_text(found[0].parent.name, "utf-8")
        yield
        (scene.project / "other").write_text("" if run.poll() is None else "ended", "utf-8")
    finally:
        kill_descendants_once(run.pid)
        run.kill()
        run.wait()


def _was_steered(scene: AttackTestbed) -> str:
    refused = scene.output.count("may not steer any")
    return "" if refused == len(_STEERING) else f"{refused} of {len(_STEERING)} were refused"


_STEERING = ("kill $RUN", "send $RUN /root hello", "interrupt $RUN", "approvals $RUN")


def _steer(scene: AttackTestbed) -> list[Call]:
    words = "; ".join(f"{scene.swarm_path} {one} 2>&1" for one in _STEERING)
    return [command(f"RUN=$(cat other); {words}; true")]


def _reach(scene: AttackTestbed) -> str:
    """A shell script that tries what a command of an agent tries; prints that it does."""
    (scene.project / "reach.py").write_text(_CONNECT, "utf-8")
    journals = f"cat {scene.state}/state/runs/*/journal/* 2>&1"
    return f"echo it-'has'-begun; python3 reach.py; {journals}; true"


def _alone(scene: AttackTestbed) -> str:
    words = ("sandbox", "-s", "workspace-write", "-C", str(scene.project), "--", "sh", "-c")
    return _reached(scene, [*words, _reach(scene)])


def _as_lines(scene: AttackTestbed) -> str:
    """Each line is an item, and each agent answers with its item."""
    each = json.dumps({"lines": _reach(scene)})
    task = f'---\nfan_out:\n  each: {each}\n  prompt: "it is {{item}}"\n---\njoin\n'
    (scene.project / "task.md").write_text(task, "utf-8")
    scene.chown_files()
    provider = scene.script("items", [{"agent": "/root/*", "text": "{last_user}"}])
    return _reached(scene, ["run", "task.md", "--json", "--provider", provider])


def _reached(scene: AttackTestbed, words: list[str]) -> str:
    said, code = scene.run_program(scene.swarm(*words), deadline_s=60.0)
    if "it-has-begun" not in said:
        return f"it did not run (exit {code}): {said[-300:]}"
    scene.output += said
    return _connected(scene) or _journal_words(scene)


PLAYS = (
    Attack(
        name="reach a socket that was bound by a relative path, renamed, linked or oddly named",
        background=_foreign_sockets, calls=_python(_CONNECT), find_escape=_connected, fast=True,
    ),
    Attack(
        name="the same with the network granted",
        background=_foreign_sockets, calls=_python(_CONNECT), find_escape=_connected,
        options=lambda scene: ("-c", "sandbox_workspace_write.network_access=true",
                               "-s", "workspace-write"),
    ),
    Attack(
        name="move the folders above the state folder",
        prepare=_an_older_run,
        calls=lambda scene: [command(_MOVE), command(_READ)],
        find_escape=_journal_words, options=lambda scene: ("-C", str(scene.folder)),
        fast=True,
    ),
    Attack(
        name="reach a socket, or another run's journal, by `swarm sandbox`",
        prepare=_an_older_run, background=_foreign_sockets, calls=lambda scene: [command("true")],
        find_escape=_alone,
    ),
    Attack(
        name="reach a socket, or another run's journal, by the command that lists items",
        prepare=_an_older_run, background=_foreign_sockets, calls=lambda scene: [command("true")],
        find_escape=_as_lines,
    ),
    Attack(
        name="steer another run from a command that nothing confines",
        background=_another_run, calls=_steer, find_escape=_was_steered,
        options=lambda scene: ("-s", "danger-full-access"),
    ),
    Attack(
        name="a test that starts a server on the loopback device",
        calls=_python(_SERVE_ITSELF), find_escape=_answered, must_work=True,
        fast=True, not_on={"landlock": "no internet socket without the network"},
    ),
    Attack(
        name="a command's own Unix socket",
        calls=_python(_OWN_SOCKET), find_escape=_answered, must_work=True,
        options=lambda scene: ("-s", "workspace-write"),
    ),
)  # fmt: skip
