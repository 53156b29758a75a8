"""What usual programs need inside the walls: sockets and caches in a place of their own, no editor.

And what lies in that place is closed to other runs.
"""

import fcntl
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attack import AUTHOR, BOTH, Attack, Stack, command, run_ended
from attack_testbed import SECRET, AttackTestbed

_MANAGER = """
import multiprocessing
with multiprocessing.Manager() as manager:
    shared = manager.dict(worked="wor" + "ked")
    print(shared["worked"])
"""
# As long as the names that `ssh` makes of %C, and longer than most.
_LONG_NAME = """
import os, socket
name = os.environ["TMPDIR"] + "/" + "n" * 60
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind(name)
server.listen()
client.connect(name)
client.send(b"wor" + b"ked")
print(server.accept()[0].recv(99).decode())
"""
_NODE = """
const net = require("net"), path = process.env.TMPDIR + "/x.sock";
const server = net.createServer(one => one.end("wor" + "ked"));
server.on("error", error => { console.log(error.code); process.exit(1); });
server.listen(path, () => net.connect(path).on("data", said => console.log(String(said)))
  .on("end", () => server.close()));
"""
_TMUX = (
    "tmux -L x new-session -d 'exec sleep 60' && tmux -L x ls && tmux -L x kill-server && "
    "echo wor''ked"
)
_GPG = (
    'export GNUPGHOME="$TMPDIR/keys"; mkdir -m 700 "$GNUPGHOME" && '
    "gpg --batch --quiet --passphrase '' --quick-generate-key a@b ed25519 sign never && "
    "gpgconf --kill gpg-agent && echo wor''ked"
)
_SHORT = (
    'test ${#TMPDIR} -le 40 && test "$(stat -c %a-%u "$TMPDIR")" = "700-$(id -u)" && '
    "echo wor''ked"
)


_SERVER = """
import json, os, socket, sys
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind(os.environ["TMPDIR"] + "/" + "n" * 60)
server.listen()
client.connect(server.getsockname())
TOOL = {"name": "act", "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True, "openWorldHint": False}}
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "x", "version": "1"}},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "wor" + "ked"}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = ANSWERS.get(asked["method"], {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
_A_PERSONS = dict.fromkeys(
    ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "HGEDITOR", "KUBE_EDITOR"), "vim"
)
_REPOSITORY = "git init -q sub && cd sub && date > a && git add a && git commit -qm one && date > b"
_COMMIT = (
    f"{_REPOSITORY} && echo more >> a && ! git commit -a > said 2>&1 && "
    "grep -q 'empty commit message' said && test ! -e .git/index.lock && "
    "git commit -qam two && echo wor''ked"
)
_REBASE = (
    f"{_REPOSITORY} && git add b && git commit -qm two && git rebase -i HEAD~1 && "
    "git commit --amend && git log --oneline && echo wor''ked"
)
_NO_EDITORS = (
    'test "$EDITOR:$VISUAL:$GIT_EDITOR:$GIT_SEQUENCE_EDITOR:$HGEDITOR" = true:true:::::true && '
    "echo wor''ked-"
)
_SWEPT, _PLANTED = "the-folder-was-swept", "a-file-was-planted"


def _python(script: str) -> str:
    return f"python3 - <<'END'\n{script}\nEND"


def _programs(name: str, script: str, program: str) -> Attack:
    return Attack(
        name=name, calls=lambda scene: [command(script)], find_escape=_worked, must_work=True,
        not_on=_without(program), fast=True, environment={**AUTHOR, **_A_PERSONS},
    )  # fmt: skip


def _without(program: str) -> dict[Stack, str]:
    return {} if shutil.which(program) else dict.fromkeys(BOTH, f"{program} is not installed")


def _worked(scene: AttackTestbed) -> str:
    return "" if "worked" in scene.output else "it did not work: " + scene.output[-2000:]


def _left_behind(scene: AttackTestbed) -> str:
    pointer = scene.state / "state" / "short-tmp"
    folder = Path(pointer.read_text("utf-8")) if pointer.exists() else scene.state / "short"
    return f"{folder} is still there" if folder.exists() else _worked(scene)


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")


def _profile(scene: AttackTestbed) -> None:
    lines = [f"export {name}={value}\n" for name, value in _A_PERSONS.items()]
    _write(scene.home / ".profile", "".join(lines))


def _both_worked(scene: AttackTestbed) -> str:
    return "" if scene.output.count("worked-") == 2 else _worked(scene) or "once only"


def _caches_left(scene: AttackTestbed) -> str:
    left = [*scene.state.rglob(".caches"), *scene.state.rglob("gone-*")]
    return f"caches are still there: {left}" if left else _worked(scene)


def _server(scene: AttackTestbed) -> None:
    program = scene.project / "server.py"
    program.write_text(_SERVER, "utf-8")
    name, words = "a" * 40, json.dumps(["-I", str(program)])
    (scene.state / "config.toml").write_text(
        f"[mcp_servers.{name}]\ncommand = {json.dumps(sys.executable)}\nargs = {words}\n", "utf-8"
    )


@contextmanager
def _other_run(scene: AttackTestbed) -> Iterator[None]:
    """The folder for temporary files of another run that is alive."""
    parent = Path(tempfile.mkdtemp(prefix="swarm-", dir="/tmp"))
    locks = scene.state / "state" / "locks"
    try:
        locks.mkdir(parents=True)
        (parent / "12345678").mkdir()
        (parent / "12345678" / "words").write_text(SECRET, "utf-8")
        (scene.state / "state" / "short-tmp").write_text(str(parent), "utf-8")
        with (locks / "tmp-12345678").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            scene.chown_files()
            for each in (parent, parent / "12345678", parent / "12345678" / "words"):
                if scene.user is not None:
                    os.chown(each, scene.user.pw_uid, scene.user.pw_gid)
            yield
            scene.output += _PLANTED if [*parent.rglob("planted")] else ""
            if not (parent / "12345678" / "words").exists():
                scene.output += _SWEPT
    finally:
        shutil.rmtree(parent)


def _read_or_planted(scene: AttackTestbed) -> str:
    if SECRET in scene.output:
        return "temporary files of another run were read"
    if _SWEPT in scene.output:
        return "temporary files of a run that is alive were removed"
    return "a file was made beside another run's" if _PLANTED in scene.output else ""


_READ_OTHERS = (
    'cat /tmp/swarm-*/*/words "$TMPDIR"/../../*/words; '
    'touch /tmp/swarm-*/12345678/planted "$TMPDIR"/../../12345678/planted; true'
)

PLAYS = (
    Attack(
        name="read and change temporary files of another run",
        background=_other_run,
        calls=lambda scene: [command(_READ_OTHERS)],
        find_escape=_read_or_planted, fast=True,
    ),
    _programs("a manager of Python's multiprocessing", _python(_MANAGER), "python3"),
    _programs("a socket with a long name in TMPDIR", _python(_LONG_NAME), "python3"),
    _programs("a server of Node.js on a socket in TMPDIR", f"node -e '{_NODE}'", "node"),
    _programs("tmux starts and ends a server", _TMUX, "tmux"),
    _programs("gpg makes a key with an agent of its own", _GPG, "gpg"),
    _programs("TMPDIR is short, and for its user alone", _SHORT, "stat"),
    Attack(
        name="npm makes a package where HOME is closed, and its cache goes with the agent",
        calls=lambda scene: [
            command("printf '{\"name\":\"x\",\"version\":\"1.0.0\"}' > package.json; npm pack"),
            command("test -s x-1.0.0.tgz && test -d $TMPDIR/.caches && echo wor''ked"),
        ],
        environment={"HOME": "/usr/share"},  # the scene's own lies in /tmp
        find_escape=_caches_left, must_work=True, fast=True, not_on=_without("npm"),
    ),
    Attack(
        name="a cache that the person put where commands may write stays",
        calls=lambda scene: [
            command(f"test \"$npm_config_cache\" = {scene.folder}/project/own && echo wor''ked")
        ],
        environment={"npm_config_cache": "{folder}/project/own"},
        find_escape=_worked, must_work=True,
    ),
    Attack(
        name="a socket in TMPDIR of an MCP server with a long name",
        prepare=_server,
        calls=lambda scene: [{"name": f"mcp__{'a' * 40}__act", "arguments": {}}],
        options=lambda scene: ("--reviewer", "nobody"),
        find_escape=_worked, tried=run_ended, must_work=True, fast=True,
    ),
    _programs("git commit without a message ends at once and leaves no lock", _COMMIT, "git"),
    Attack(
        name="git rebase -i takes its list as it is",
        prepare=lambda scene: _write(scene.project / "play.sh", _REBASE),
        calls=lambda scene: [command("sh play.sh")],
        environment={**AUTHOR, **_A_PERSONS},
        find_escape=_worked, must_work=True,
    ),
    Attack(
        name="start-up files of a shell bring no editor back",
        prepare=_profile,
        calls=lambda scene: [command(_NO_EDITORS), command(_NO_EDITORS, login=True)],
        find_escape=_both_worked, must_work=True, fast=True,
    ),
    Attack(
        name="files in TMPDIR are gone after the run",
        calls=lambda scene: [
            command("mkdir -p $TMPDIR/a/b; echo x > $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b"),
            command("test -d $TMPDIR/a/b && echo wor''ked"),
        ],
        find_escape=_left_behind, must_work=True, fast=True,
    ),
)  # fmt: skip
