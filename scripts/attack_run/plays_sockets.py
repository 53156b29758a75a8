"""Sockets: of other programs, by every kind of name; of other runs; and a command's own."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from play import Call, Play, command
from scene import Scene

from swarm.mailbox.lineage import strike_descendants

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
_MOVE = "mv state aside; mkdir state; mv $PWD/state/state $PWD/elsewhere; ls; true"
_READ = "cat aside/state/runs/*/journal/* state/state/runs/*/journal/* elsewhere/runs/*/journal/*"
_WAIT_S = 30.0


def _python(script: str) -> Callable[[Scene], list[Call]]:
    return lambda scene: [command(f"python3 - <<'END'\n{script}\nEND")]


@contextmanager
def _strangers(scene: Scene) -> Iterator[None]:
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


def _connected(scene: Scene) -> str:
    return "another program's socket was reached" if "CONNECTED" in scene.said else ""


def _answered(scene: Scene) -> str:
    return "" if "it 200 answers" in scene.said else "its own server did not answer"


def _an_older_run(scene: Scene) -> None:
    folder = scene.state / "state" / "runs" / "older" / "journal"
    folder.mkdir(parents=True)
    (folder / "root.jsonl").write_text("words-of-an-older-run\n", "utf-8")


def _journal_words(scene: Scene) -> str:
    return "another run's journal was read" if "words-of-an-older-run" in scene.said else ""


@contextmanager
def _another_run(scene: Scene) -> Iterator[None]:
    """It waits in a command; its id stands in the project."""
    script = scene.folder / "other.json"
    calls = [{"name": "exec_command", "arguments": {"cmd": "sleep 100"}}]
    script.write_text(json.dumps({"turns": [{"calls": calls}], "default": {"text": "done"}}))
    swarm = Path(sys.executable).with_name("swarm")
    words = [*scene.words_as_user(), str(swarm), "run", "-p", "wait", "--provider"]
    words += [f"scripted:{script}", "-C", str(scene.home)]
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
        strike_descendants(run.pid)
        run.kill()
        run.wait()


def _was_steered(scene: Scene) -> str:
    refused = scene.said.count("may not steer any")
    return "" if refused == len(_STEERING) else f"{refused} of {len(_STEERING)} were refused"


_STEERING = ("kill $RUN", "send $RUN /root hello", "interrupt $RUN", "approvals $RUN")


def _steer(scene: Scene) -> list[Call]:
    swarm = Path(sys.executable).with_name("swarm")
    words = "; ".join(f"{swarm} {one} 2>&1" for one in _STEERING)
    return [command(f"RUN=$(cat other); {words}; true")]


PLAYS = (
    Play(
        name="reach a socket that was bound by a relative path, renamed, linked or oddly named",
        host=_strangers, calls=_python(_CONNECT), escaped=_connected, fast=True,
    ),
    Play(
        name="the same with the network granted",
        host=_strangers, calls=_python(_CONNECT), escaped=_connected, stacks=("bwrap",),
        options=lambda scene: ("-c", "sandbox_workspace_write.network_access=true",
                               "-s", "workspace-write"),
    ),
    Play(
        name="move the folders above the state folder",
        prepare=_an_older_run, calls=lambda scene: [command(_MOVE), command(_READ)],
        escaped=_journal_words, options=lambda scene: ("-C", str(scene.folder)),
        stacks=("bwrap",), fast=True,
    ),
    Play(
        name="steer another run from a command that nothing confines",
        host=_another_run, calls=_steer, escaped=_was_steered,
        options=lambda scene: ("-s", "danger-full-access"),
    ),
    Play(
        name="a test that starts a server on the loopback device",
        calls=_python(_SERVE_ITSELF), escaped=_answered, stacks=("bwrap",), must_work=True,
        fast=True,
    ),
    Play(
        name="a command's own Unix socket",
        calls=_python(_OWN_SOCKET), escaped=_answered, stacks=("bwrap",), must_work=True,
        options=lambda scene: ("-s", "workspace-write"),
    ),
)  # fmt: skip
