"""What a sandboxed command tries and must not get, in both stacks, through the real launcher."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.escape_testbed import PYTHON, open_test_launcher
from swarm.mailbox.base.path_rules import PROTECTED_NAMES
from swarm.mailbox.protocol.values.limits import ReadOnly, WorkspaceWrite
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.sandbox.sandbox_plan import plan_sandbox

EPERM, EACCES, EROFS = 1, 13, 30


@pytest.fixture(params=["landlock", "bwrap"])
def stack(request):
    if request.param == "bwrap" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    return request.param


@pytest.fixture
def place(tmp_path):
    """A folder outside /tmp: `work` is the root, `out` is not, `run` is hidden, `tmp` private."""
    home = Path(tempfile.mkdtemp(prefix="swarm-escape-", dir="/var/tmp"))
    for name in ("work", "work/src", "out", "run", "tmp"):
        (home / name).mkdir()
    (home / "out/file").write_text("untouched")
    (home / "run/secret").write_text("the secret")
    yield home
    shutil.rmtree(home)


async def run(place, stack, script, *, policy=None, python=False, cwd=None, tty=False):
    """Exit code and output of a script in the sandbox."""
    cwd = cwd or str(place / "work")
    plan = plan_sandbox(
        policy or WorkspaceWrite(), cwd=cwd, tmp_dir=str(place / "tmp"),
        hidden_paths=(str(place / "run"),), stack=stack,
    )  # fmt: skip
    argv = (PYTHON, "-I", "-S", "-c", script) if python else ("/bin/bash", "-c", script)
    asked = CommandRequest(
        argv=argv, cwd=cwd, environment={"PATH": "/usr/bin:/bin"}, sandbox=plan, tty=tty
    )
    async with open_test_launcher() as (launcher, _):
        command = await start_command(launcher, asked)
        said = b""
        while chunk := await command.receive():
            said += chunk
        status = await command.wait()
        await command.kill_tree()
        command.close()
    return status.exit_code, said.decode()


WRITES = [
    "echo x >{out}/file",
    "echo x >{out}/new",
    "rm {out}/file",
    "truncate -s 0 {out}/file",
    "mv {out}/file {work}/src/",
    "mkdir {out}/folder",
    "ln -s {out}/file src/link && echo x >src/link",
    "ln {out}/file src/hard && echo x >src/hard",
    "echo x >src/mine && mv src/mine {out}/file",
    "cd src && echo x >../../out/file",
    "echo x >/proc/self/root{out}/file",
    "echo x >/proc/self/cwd/../out/file",
    "exec 9<{out}/file; echo x >/proc/self/fd/9",
    "mount --bind {work} {out} && echo x >{out}/file",
    "unshare -Ur sh -c 'mount -o remount,rw / ; echo x >{out}/file'",
    "chroot / sh -c 'echo x >{out}/file'",
    "mknod src/null c 1 3 && echo x >src/null",
]


@pytest.mark.parametrize("script", WRITES)
async def test_nothing_outside_the_roots_can_be_written(place, stack, script):
    script = script.format(out=place / "out", work=place / "work")
    code, said = await run(place, stack, script)
    assert code != 0, said
    assert [entry.name for entry in (place / "out").iterdir()] == ["file"]
    assert (place / "out/file").read_text() == "untouched"


async def test_inside_the_root_work_goes_on(place, stack):
    script = "echo x >a && mkdir -p b/c && mv a b/c/ && ln b/c/a b/l && rm b/l && cat b/c/a"
    assert await run(place, stack, script) == (0, "x\n")
    assert (place / "work/b/c/a").read_text() == "x\n"


async def test_read_only_writes_nothing_but_its_private_tmp(place, stack):
    script = 'echo x >"$TMPDIR/a" && cat "$TMPDIR/a" && echo x >src/a'
    code, said = await run(place, stack, script, policy=ReadOnly())
    assert code != 0
    assert said.startswith("x\n")
    assert not (place / "work/src/a").exists()


@pytest.mark.parametrize(
    "script",
    [
        "echo evil >.git/hooks/pre-commit",
        "rm -r .git/hooks; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
        "mv .git src/old; mkdir -p .git/hooks; echo evil >.git/hooks/pre-commit",
        "echo evil >src/h && mv src/h .git/hooks/pre-commit",
        "ln .git/config src/c && echo evil >src/c",
        "git config core.fsmonitor evil",
        "rm -rf .git; ln -s src .git",
    ],
)
async def test_a_repositorys_own_files_stay_as_they_are(place, stack, script):
    hooks = place / "work/.git/hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("good")
    (place / "work/.git/config").write_text("[core]\n")
    code, _ = await run(place, stack, script)
    assert code != 0
    assert (hooks / "pre-commit").read_text() == "good"
    assert (place / "work/.git/config").read_text() == "[core]\n"


@pytest.mark.parametrize("name", PROTECTED_NAMES)
async def test_a_missing_protected_name_is_never_left_behind(place, stack, name):
    await run(place, stack, f"mkdir {name}; mkdir {name}/hooks; echo evil >{name}/config; sync")
    assert not (place / "work" / name).exists()
    left = {entry.name for entry in (place / "work").iterdir()}
    assert left <= {"src"}
    if stack == "bwrap":
        assert left == {"src"}


async def test_a_repository_behind_a_link_is_protected_and_the_link_put_back(place, stack):
    (place / "work/real/hooks").mkdir(parents=True)
    (place / "work/.git").symlink_to("real")
    await run(place, stack, "echo evil >.git/hooks/x; rm .git; mkdir -p .git/hooks")
    assert (place / "work/.git").readlink() == Path("real")
    assert list((place / "work/real/hooks").iterdir()) == []


async def test_a_worktrees_folder_cannot_be_renamed_away(place, stack):
    folder = place / "work/bare/worktrees/one"
    folder.mkdir(parents=True)
    (place / "work/.git").write_text("gitdir: bare/worktrees/one\n")
    script = "mv bare gone || mv bare/worktrees gone; echo evil >bare/worktrees/one/x"
    assert (await run(place, stack, script))[0] != 0
    assert list(folder.iterdir()) == []


async def test_the_runs_folder_cannot_be_read(place, stack):
    secret = place / "run/secret"
    code, said = await run(place, stack, f"cat {secret} /proc/self/root{secret}; ls {place}/out")
    assert "the secret" not in said
    assert said.endswith("file\n")
    assert code == 0


async def test_the_runs_sockets_cannot_be_reached(place, stack):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place / "run/s"))
        listener.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({str(place / 'run/s')!r})"
        code, said = await run(place, stack, script, python=True)
        assert code == 1
        assert "PermissionError" in said or "FileNotFoundError" in said


async def test_abstract_sockets_cannot_be_reached(place, stack):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0swarm-test-{os.getpid()}")
        listener.listen()
        name = listener.getsockname().decode()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert (await run(place, stack, script, python=True))[0] == 1


def found(name):
    return [f for f in ("/tmp", "/dev/shm", "/var/tmp") if os.path.lexists(f"{f}/{name}")]


@contextmanager
def open_victim():
    with subprocess.Popen(["/bin/sleep", "60"], env={"SECRET": "hush"}) as process:
        try:
            yield process
        finally:
            process.kill()


SOCKETS = [
    "AF_INET, SOCK_STREAM", "AF_INET6, SOCK_STREAM", "AF_INET, SOCK_DGRAM", "AF_INET, SOCK_RAW",
    "AF_NETLINK, SOCK_RAW", "AF_PACKET, SOCK_RAW", "AF_VSOCK, SOCK_STREAM",
]  # fmt: skip


@pytest.mark.parametrize("kind", SOCKETS)
async def test_without_network_there_is_no_socket_but_unix_and_loopback_ones(place, stack, kind):
    script = f"from socket import *; socketpair(); socket({kind})"
    code, said = await run(place, stack, script, python=True)
    if stack == "bwrap" and "AF_INET" in kind and "RAW" not in kind:
        assert code == 0  # of a network namespace that has nothing but a loopback device
        return
    assert code == 1
    assert "Operation not permitted" in said or "Protocol not supported" in said


async def test_a_granted_network_reaches_a_server_here(place, stack):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port})); print('in')"
        policy = WorkspaceWrite(network_access=True)
        assert await run(place, stack, script, python=True, policy=policy) == (0, "in\n")


CALLS = {  # x86-64 number and arguments → errno
    "keyctl": "250, 0, -3, 0", "io_uring_setup": "425, 1, 0", "ptrace": "101, 0, 0, 0, 0",
    "bpf": "321, 0, 0, 0", "userfaultfd": "323, 0", "unshare user": "272, 0x10000000",
    "process_vm_readv": "310, 1, 0, 0, 0, 0, 0", "perf_event_open": "298, 0, 0, -1, -1, 0",
    "setns": "308, 0, 0", "clone user": "56, 0x10000011, 0, 0, 0, 0",
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="call numbers of x86-64")
@pytest.mark.parametrize("name", CALLS)
async def test_calls_that_ordinary_programs_do_not_need_are_refused(place, stack, name):
    script = (
        "import ctypes; c = ctypes.CDLL(None, use_errno=True);"
        f"print(c.syscall({CALLS[name]}), ctypes.get_errno())"
    )
    assert await run(place, stack, script, python=True) == (0, f"-1 {EPERM}\n")


async def test_keys_cannot_be_typed_into_the_terminal(place, stack):
    script = "import fcntl; fcntl.ioctl(0, 0x5412, b'x')"
    code, said = await run(place, stack, script, python=True, tty=True)
    assert code == 1
    assert "Operation not permitted" in said


async def test_other_processes_can_be_neither_signalled_nor_read(place, stack):
    with open_victim() as victim:
        files = " ".join(
            f"/proc/{victim.pid}/{name}" for name in ("environ", "mem", "maps", "cwd/x")
        )
        _, said = await run(
            place, stack, f"kill -9 {victim.pid}; cat {files}; ls /proc/{victim.pid}/fd/"
        )
        assert victim.poll() is None
        assert "hush" not in said
        assert "/bin/sleep" not in said


async def test_in_a_namespace_only_its_own_processes_are_seen(place):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    _, said = await run(place, "bwrap", "echo /proc/[0-9]*")
    assert len(said.split()) <= 3


async def test_no_privilege_can_be_gained_and_the_filter_is_on(place, stack):
    _, said = await run(place, stack, "cat /proc/self/status")
    assert "NoNewPrivs:\t1" in said
    assert "Seccomp:\t2" in said
    assert "CapEff:\t0000000000000000" in said


async def test_real_tmp_is_not_written(place, stack):
    name = f"swarm-escape-{os.getpid()}"
    await run(
        place, stack, f"echo x >/tmp/{name}; echo x >/dev/shm/{name}; echo x >/var/tmp/{name}"
    )
    assert not found(name)


async def test_bwraps_own_loader_is_not_steered(place):
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    plan = plan_sandbox(WorkspaceWrite(), cwd=str(place / "work"), tmp_dir=None, stack="bwrap")
    asked = CommandRequest(
        argv=("/bin/bash", "-c", "echo $LD_LIBRARY_PATH; tr '\\0' '\\n' </proc/1/environ"),
        cwd=str(place / "work"), sandbox=plan,
        environment={"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": "/opt/lib"},
    )  # fmt: skip
    async with open_test_launcher() as (launcher, _):
        command = await start_command(launcher, asked)
        said = b""
        while chunk := await command.receive():
            said += chunk
        command.close()
    assert said.count(b"/opt/lib") == 1
