"""The Landlock stack lets commands work in a repository, and no protected name comes to be."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.forked_programs import run_sandbox
from support.users import USERS
from swarm.mailbox.base.path_rules import PROTECTED_NAMES, is_protected_name
from swarm.worker.sandbox.sandbox_probe import probe_sandbox

pytestmark = pytest.mark.skipif(
    not (probe_sandbox().landlock_abi and probe_sandbox().answers), reason="no brokered stack here"
)
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin", "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


@pytest.fixture
def work():
    folder = Path(tempfile.mkdtemp(prefix="swarm-broker-", dir="/var/tmp"))
    folder.chmod(0o755)
    top = folder / "work"
    (top / "src").mkdir(parents=True)
    (top / "src/a").write_text("one\n")
    (top / "a").write_text("one\n")
    for words in (["init", "-q", "."], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=top, env=ENVIRONMENT, check=True)
    yield top
    shutil.rmtree(folder)


def run(top, *argv, user=None, stack="landlock"):
    """Through `swarm sandbox`, as that user, whose the folder is then."""
    if user not in (None, os.geteuid()):
        for path in (top.parent, *top.parent.rglob("*")):
            os.lchown(path, user, user)
    else:
        user = None
    words = ["-s", "workspace-write", "--stack", stack, "-C", str(top), "--", *argv]
    return run_sandbox(words, environment=ENVIRONMENT, user=user)


WORK = {
    "new files": "echo n >new && cat new && echo m >>new && : >new",
    "folders": "mkdir -p d/e && echo x >d/e/f && mv d g && cp -r g h && rm -r g h",
    "renaming": "mv a b && mv b src/ && mv src/b a && ln a hard && ln -s a soft && cat soft",
    "edited in place": "sed -i s/one/two/ a && grep two a",
    "truncated": "truncate -s 1 a && [ $(stat -c %s a) = 1 ]",
    "modes": "umask 077; touch u; mkdir v; [ $(stat -c %a u)$(stat -c %a v) = 600700 ]",
    "a pipe": "mkfifo p; (echo hi >p)& [ $(cat p) = hi ]",
    "a repository inside": "git init -q sub && cd sub && echo >a && git add a && git commit -qm x",
    "a clone": "git clone -q . copy && git -C copy log -1",
    "a removed clone": "git clone -q . copy && rm -rf copy",
    "an environment": "python3 -m venv --without-pip v && v/bin/python -c 1",
    "a compiler": "echo 'int main(){return 0;}' >m.c && gcc m.c -o m && ./m",
    "a database": "sqlite3 t.db 'pragma journal_mode=wal; create table a(x)'",
    "an archive": "tar cf x.tar src && mkdir y && tar xf x.tar -C y && cat y/src/a",
    "an unnamed file": 'python3 -c \'import tempfile as t; t.TemporaryFile(dir=".").write(b"a")\'',
    "packages": "mkdir lib; (cd lib; npm init -y); npm init -y; npm i ./lib --offline",
    "a socket of its own": "python3 -c 'import socket\n"
    's=socket.socket(socket.AF_UNIX); s.bind("own"); s.listen()\n'
    'c=socket.socket(socket.AF_UNIX); c.connect("own")\'',
    "a queue between processes": "python3 -c 'import multiprocessing as m\n"
    "q=m.Queue(); p=m.Process(target=q.put, args=(3,)); p.start(); assert q.get(timeout=20) == 3\n"
    "p.join()'",
    "shared memory": "python3 -c 'from multiprocessing.shared_memory import SharedMemory as S\n"
    "a=S(create=True, size=9); b=S(a.name); a.buf[0]=7; assert b.buf[0]==7\n"
    "b.close(); a.close(); a.unlink()'",
    "a key agent": "eval $(ssh-agent -a $TMPDIR/s) && { ssh-add -l; [ $? = 1 ]; } && ssh-agent -k",
    "standard output by name": "(echo a >/dev/stdout) | cat; echo b >/dev/null",
}
NEEDS = {
    "a compiler": "gcc",
    "a database": "sqlite3",
    "packages": "npm",
    "a key agent": "ssh-agent",
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("script", WORK.values(), ids=WORK)
def test_work_in_a_repository_is_done(work, script, user):
    program = next(
        (NEEDS[name] for name, one in WORK.items() if one == script and name in NEEDS), "sh"
    )
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    done = run(work, "/bin/bash", "-ec", f"export HOME=$TMPDIR; {script}", user=user)
    assert done.returncode == 0, done.stderr


CLOSED = [
    *(f"mkdir {name}" for name in PROTECTED_NAMES if name != ".git"),
    "mkdir .Swarm", "ln -s src .codex", "ln a .aws", "mv src .agents", "mkfifo .aws",
    "echo >.swarm", "echo x >.git/hooks/post-commit", "mv .git g", "rm -rf .git/hooks",
    "ln .git/config c", "ln -s .git g && echo x >g/hooks/h", "echo x >src/../.git/config",
    "ln -s .git/config c && echo x >c", "ln -s .git/commondir c && echo x >c",
    "chmod 555 . ; mkdir .swarm", "cd src && mkdir ../.codex", "mv src/a .git/commondir",
    "python3 -c 'import os; os.truncate(\".git/config\", 0)'",
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".swarm\")'",
    "python3 -c 'import os; os.open(\".git\", os.O_TMPFILE | os.O_RDWR)'",
    "echo x >../out", "mv src ../out", "ln ../other inside && echo x >inside",
]  # fmt: skip


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("script", CLOSED)
def test_what_is_protected_or_outside_cannot_be_touched(work, script, user):
    (work.parent / "other").write_text("untouched")
    before = tree(work / ".git")
    done = run(work, "/bin/bash", "-ec", script, user=user)
    assert done.returncode != 0
    assert tree(work / ".git") == before
    assert protected_in(work) == {".git"}
    assert {path.name for path in work.parent.iterdir()} == {"work", "other"}
    assert (work.parent / "other").read_text() == "untouched"


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


def protected_in(folder):
    return {path.name for path in folder.iterdir() if is_protected_name(path.name)}


def test_shared_memory_of_others_is_closed_and_own_is_removed(work):
    strange = Path("/dev/shm", f"swarm-test-{os.getpid()}")
    strange.write_text("hush")
    own = f"{strange}-own"
    try:
        for script in (f"cat {strange}", f"echo x >>{strange}", f"rm {strange}", f"mv {strange} a",
                       f"ln {strange} {own}", f"ln -s {strange} {own}"):  # fmt: skip
            assert run(work, "/bin/bash", "-c", script).returncode != 0
        assert run(work, "/bin/bash", "-c", f"echo x >{own} && echo y >>{own}").returncode == 0
        assert strange.read_text() == "hush"
        assert not Path(own).exists()
    finally:
        strange.unlink()


def test_a_protected_link_cannot_be_replaced(work):
    (work / ".git").rename(work.parent / "real")
    (work / ".git").symlink_to("../real")
    for script in ("rm .git", "ln -sfn src .git", "mv -T src .git", "mv .git x", "echo >.git/x"):
        assert run(work, "/bin/bash", "-c", script).returncode != 0
    assert (work / ".git").readlink() == Path("../real")


_NAMES = {*PROTECTED_NAMES}
# Steps that hostile code would try, at random and with others racing it.
_PLAYER = """
import json, os, sys, threading
plays = json.loads(sys.argv[1])
def act(step):
    kind, one, two = step
    try:
        match kind:
            case "mkdir": os.mkdir(one)
            case "write":
                with open(one, "w") as file: file.write("evil")
            case "exclusive": os.close(os.open(one, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            case "rename": os.rename(one, two)
            case "link": os.link(one, two)
            case "symlink": os.symlink(one, two)
            case "unlink": os.unlink(one)
            case "rmdir": os.rmdir(one)
            case "chmod": os.chmod(one, 0o755)
            case "close": os.chmod(one, 0o555)
            case "mknod": os.mknod(one)
            case "truncate": os.truncate(one, 0)
            case "from":
                fd = os.open(one, os.O_RDONLY | os.O_DIRECTORY)
                try: os.mkdir(".git", dir_fd=fd)
                finally: os.close(fd)
    except OSError: pass
def play(steps):
    for _ in range(3):
        for step in steps: act(step)
threads = [threading.Thread(target=play, args=(steps,)) for steps in plays]
for one in threads: one.start()
for one in threads: one.join()
"""
_PATHS = st.sampled_from(
    (".", ".git", ".GIT", ".git/config", ".git/commondir", ".swarm", ".swarm/x", "src", "src/x",
     "src/.git", "src/../.git", "l", "l/config", "m", "m/.git", "a", "d", "d/.git", "l/../.codex")
)  # fmt: skip
_KINDS = st.sampled_from(
    ("mkdir", "write", "exclusive", "rename", "link", "symlink", "unlink", "rmdir", "chmod",
     "close",     "mknod", "truncate", "from")
)  # fmt: skip
_STEPS = st.lists(st.tuples(_KINDS, _PATHS, _PATHS), min_size=1, max_size=12)


@pytest.mark.parametrize("stack", ["bwrap", "landlock"])
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plays=st.lists(_STEPS, min_size=1, max_size=3), has_repository=st.booleans())
def test_no_play_makes_or_changes_a_protected_name(stack, plays, has_repository):
    with tempfile.TemporaryDirectory(prefix="swarm-broker-", dir="/var/tmp") as home:
        work = Path(home, "work")
        (work / "src").mkdir(parents=True)
        (work / "a").touch()
        if has_repository:
            (work / ".git").mkdir()
            (work / ".git/config").write_text("good")
        done = run(work, "/usr/bin/python3", "-c", _PLAYER, json.dumps(plays), stack=stack)
        assert done.returncode == 0, done.stderr
        # bubblewrap covers exact names: where message case counts, `.GIT` is another one
        names = protected_in(work) if stack == "landlock" else {*os.listdir(work)} & _NAMES
        assert names == ({".git"} if has_repository else set())
        if has_repository:
            assert tree(work / ".git") == {"config": b"good"}
        assert os.listdir(home) == ["work"]
