"""Escapes through terminals, networks, shared memory and the kernel's own files, in both stacks."""
# ruff: noqa: ASYNC240 - nothing else runs meanwhile

import ctypes
import os
import pty
import socket
from pathlib import Path

import pytest

from support.escape_testbed import open_escape_testbed
from swarm.mailbox.protocol.values.limits import ReadOnly, WorkspaceWrite
from swarm.worker.sandbox.landlock import landlock_abi


@pytest.fixture(params=["landlock", "bwrap"])
def testbed(request):
    with open_escape_testbed(request.param) as made:
        yield made


def needs_scopes(testbed):
    if testbed.stack == "landlock" and landlock_abi() < 6:
        pytest.skip("Landlock scopes signals from ABI 6 on")


async def test_the_terminal_of_another_session_is_not_reached(testbed):
    master, slave = pty.openpty()
    try:
        name = os.ttyname(slave)
        script = f"echo evil >{name}; cat <{name} & sleep 0.2; echo evil >/dev/tty"
        os.write(master, b"a password\n")
        for tty in (False, True):
            said = await testbed.sh(script, tty=tty)
            assert "password" not in said.text
        os.set_blocking(master, False)
        assert b"evil" not in os.read(master, 4096)
    finally:
        os.close(master)
        os.close(slave)


async def test_a_commands_own_terminal_works(testbed):
    said = await testbed.sh("tty >/dev/null && echo on >/dev/tty; test -t 0 && stty size", tty=True)
    assert said.text.split() == ["on", "24", "80"]
    assert said.status.exit_code == 0


@pytest.mark.parametrize("policy", [WorkspaceWrite(), ReadOnly()])
async def test_no_name_is_asked_for_outside(testbed, policy):
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        tcp.setblocking(False)
        ports = udp.getsockname()[1], tcp.getsockname()[1]
        script = f"""
echo secret >/dev/udp/127.0.0.1/{ports[0]}
echo secret >/dev/tcp/127.0.0.1/{ports[1]}
getent hosts secret.example.org; echo $?
"""
        said = await testbed.sh(script + "true", policy=policy)
        assert "secret.example.org " not in said.text
        for sock, take in ((udp, lambda: udp.recv(100)), (tcp, tcp.accept)):
            with pytest.raises(BlockingIOError):
                take()
            sock.close()


async def test_datagrams_reach_no_socket_of_others(testbed):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mine:
        mine.bind(str(testbed.run_folder / "d"))
        mine.setblocking(False)
        for name in (str(testbed.run_folder / "d"), "\\0swarm-datagram"):
            script = f"""
import socket
for make in (lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
             lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]):
    try:
        make().sendmsg([b"out"], [], 0, '{name}')
        print("sent")
    except OSError:
        pass
"""
            assert (await testbed.py(script)).text == ""
        with pytest.raises(BlockingIOError):
            mine.recv(10)


async def test_abstract_sockets_stay_out_of_reach_with_the_network_granted(testbed):
    needs_scopes(testbed)
    if landlock_abi() < 6:
        pytest.skip("they belong to the network, which is the host's then")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0swarm-granted-{os.getpid()}")
        listener.listen()
        script = f"""
import socket
socket.socket(socket.AF_UNIX).bind("\\0own")
socket.socket(socket.AF_UNIX).connect("\\0swarm-granted-{os.getpid()}")
"""
        said = await testbed.py(script, policy=WorkspaceWrite(network_access=True))
        assert said.status.exit_code == 1
        assert "PermissionError" in said.text


async def test_shared_memory_and_queues_of_others_are_not_reached(testbed):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = 0x53570000 | os.getpid() & 0xFFFF
    shared = libc.shmget(key, 4096, 0o1600)
    at = libc.shmat(shared, None, 0)
    posix = Path(f"/dev/shm/swarm-{os.getpid()}")
    posix.write_text("outside")
    try:
        ctypes.memmove(at, b"outside", 7)
        script = f"""
import ctypes
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
for one in ({shared}, c.shmget({key}, 4096, 0o600)):
    at = c.shmat(one, None, 0)
    if at not in (None, 2**64 - 1):
        print(ctypes.string_at(at, 7))
        ctypes.memmove(at, b"evil!!!", 7)
c.shmctl({shared}, 0, None)
try:
    open("{posix}", "r+").write("evil")
except OSError:
    pass
c.mq_open(b"/swarm-queue-{os.getpid()}", 0o102, 0o600, None)
c.semget({key}, 1, 0o1600)
"""
        assert "outside" not in (await testbed.py(script)).text
        assert ctypes.string_at(at, 7) == b"outside"
        assert posix.read_text() == "outside"
        assert libc.semget(key, 1, 0) == -1
        assert libc.shmget(key, 4096, 0) == shared
    finally:
        libc.shmctl(shared, 0, None)
        posix.unlink()


KERNEL = [
    "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
    "/proc/sys/kernel/hostname", "/proc/{agent}/oom_score_adj", "/proc/{agent}/comm",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs",
    "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs",
    "/sys/kernel/uevent_helper", "/sys/power/state",
]  # fmt: skip


async def test_the_kernels_own_files_are_not_written(testbed):
    names = " ".join(KERNEL).replace("{agent}", str(os.getpid()))
    made = "mkdir /sys/fs/cgroup/x /sys/fs/cgroup/unified/x /sys/fs/cgroup/memory/x"
    # Opened for writing, not written: a success must not harm this machine.
    said = await testbed.sh(
        f"for f in {names}; do (exec 3>>$f) 2>/dev/null && echo $f; done; {made} 2>/dev/null"
    )
    assert said.text == ""
    for name in ("/sys/fs/cgroup/x", "/sys/fs/cgroup/unified/x", "/sys/fs/cgroup/memory/x"):
        assert not Path(name).exists()


async def test_files_in_memory_have_an_end(testbed):
    if testbed.stack != "bwrap":
        pytest.skip("without mounts there is none: nothing of the sort can be written")
    said = await testbed.sh(
        "df --output=size -B1 /dev/shm /run | tail -n 2; echo x >/dev/x || echo read-only"
    )
    assert [int(size) for size in said.text.split()[:2]] == [2 << 30, 2 << 30]
    assert said.text.endswith("read-only\n")


async def test_hidden_files_are_not_watched(testbed):
    if testbed.stack != "bwrap":
        pytest.skip("Landlock has no rule for it: that a hidden file changes can be seen")
    script = f"""
import ctypes
c = ctypes.CDLL(None)
fd = c.inotify_init()
print(c.inotify_add_watch(fd, b"{testbed.run_folder}/secret", 0xFFF))
"""
    (testbed.run_folder / "secret").write_text("x")
    assert (await testbed.py(script)).text == "-1\n"
