"""Escapes through other processes, what outlives a command, and environments, in both stacks."""
# ruff: noqa: ASYNC240 - nothing else runs meanwhile

import ctypes
import os
import socket
from pathlib import Path

import pytest

from support.escape_testbed import (
    UNTOUCHED,
    open_escape_testbed,
    open_test_launcher,
    open_victim,
    run_script,
)
from swarm.mailbox.base.process_tree import is_zombie
from swarm.worker.sandbox.landlock import landlock_abi


@pytest.fixture(params=["landlock", "bwrap"])
def testbed(request):
    with open_escape_testbed(request.param) as made:
        yield made


def needs_scopes(testbed):
    if testbed.stack == "landlock" and landlock_abi() < 6:
        pytest.skip("Landlock scopes signals from ABI 6 on")


async def test_the_agents_memory_is_neither_read_nor_written(testbed):
    secret = ctypes.create_string_buffer(b"the agent's secret")
    at, size = ctypes.addressof(secret), len(secret)
    script = f"""
import ctypes, os
for pid in ({os.getpid()}, os.getppid(), 1):
    for name in ("mem", "environ", "maps", "auxv", "syscall"):
        try:
            with open(f"/proc/{{pid}}/{{name}}", "r+b" if name == "mem" else "rb", 0) as file:
                if name == "mem":
                    file.seek({at})
                    print(file.read({size}))
                    file.seek({at})
                    file.write(b"overwritten")
        except OSError as error:
            pass
c = ctypes.CDLL(None)
for request in (16, 0x4206):
    print("traced" if c.ptrace(request, {os.getpid()}, 0, 0) == 0 else "no")
"""
    said = (await testbed.py(script)).text
    assert said.endswith("no\nno\n")
    assert "secret" not in said
    assert secret.value == b"the agent's secret"


async def test_the_sandboxs_own_first_process_is_under_the_filter_too(testbed):
    if testbed.stack != "bwrap":
        pytest.skip("without a namespace process 1 is the machine's")
    said = (await testbed.sh("cat /proc/1/status")).text
    assert "Seccomp:\t2" in said
    assert "NoNewPrivs:\t1" in said
    assert "CapEff:\t0000000000000000" in said


async def test_no_signal_leaves_the_sandbox(testbed):
    needs_scopes(testbed)
    with open_victim() as victim:
        script = f"""
import ctypes, os, signal, subprocess
refused = 0
pids = ({victim.pid}, -{victim.pid}, {os.getpid()}, os.getppid())
for pid in pids[:3]:
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except OSError:
            refused += 1
c = ctypes.CDLL(None)
fd = c.syscall(434, {victim.pid}, 0)
if fd >= 0 and c.syscall(424, fd, 9, None, 0) == 0:
    refused -= 1
print(refused, flush=True)
if refused == 9:  # only then: it would be everybody
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
"""
        async with open_test_launcher() as (launcher, pid):
            said = await run_script(launcher, testbed.request(script, python=True))
            assert said.text == "9\n"
            assert victim.poll() is None
            assert not is_zombie(pid)
            again = await run_script(launcher, testbed.request("echo alive"))
            assert again.text == "alive\n"


async def test_resource_limits_of_others_are_not_set(testbed):
    with open_victim() as victim:
        script = f"""
import resource
print(resource.prlimit(0, resource.RLIMIT_NOFILE)[0] > 0, flush=True)
resource.prlimit({victim.pid}, resource.RLIMIT_NOFILE, (0, 0))
"""
        said = await testbed.py(script)
        assert said.text.startswith("True\n")
        assert said.status.exit_code == 1
        limits = Path(f"/proc/{victim.pid}/limits").read_text()
        assert "Max open files            0 " not in limits


async def test_the_runs_sockets_are_not_reached_through_another_root(testbed):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(testbed.run_folder / "s"))
        listener.listen()
        script = f"""
import socket
for pid in ({os.getpid()}, {os.getppid()}, 1, "self"):
    for way in ("root", "cwd/../../../../../../.."):
        try:
            socket.socket(socket.AF_UNIX).connect(f"/proc/{{pid}}/{{way}}{testbed.run_folder}/s")
            print("in")
        except OSError:
            pass
"""
        assert (await testbed.py(script)).text == ""


STAYERS = [
    "setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &",
    "nohup sh -c '{loop}' >/dev/null 2>&1 </dev/null & disown",
    "(setsid setsid sh -c 'trap \"\" TERM HUP INT; {loop}' >/dev/null 2>&1 &) &",
    "env -i setsid sh -c '{loop}' >/dev/null 2>&1 </dev/null &",
    "env -i setsid sh -c '(setsid sh -c \"{loop}\" &) &' >/dev/null 2>&1 </dev/null &",
    "env -i setsid sh -c '{loop}' & exec true",
]


@pytest.mark.parametrize("script", STAYERS)
async def test_nothing_outlives_its_command(testbed, script):
    beat = testbed.work / "src/beat"
    loop = f"while :; do echo x >>{beat}; sleep 0.01; done"
    script = script.replace("{loop}", loop) + f"\nwhile ! [ -s {beat} ]; do sleep 0.01; done"
    if "exec true" in script:
        script = script.replace("exec true", ":")
    async with open_test_launcher() as (launcher, _):
        said = await run_script(launcher, testbed.request(script))
        assert said.status.exit_code == 0
        size = beat.stat().st_size
        assert size > 0
        marks = [
            pid
            for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
            if str(beat).encode() in read(f"/proc/{pid}/cmdline")
        ]
        assert [pid for pid in marks if not is_zombie(pid)] == []
        assert beat.stat().st_size == size


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


async def test_bombs_that_leave_their_session_end_too(testbed):
    # At most 2,048 of them, so that a failure here harms nobody else.
    bomb = """
bomb() { if [ $1 -gt 9 ]; then sleep 15; else
    setsid bash -c "$(declare -f bomb); bomb $(($1 + 1))" & bomb $(($1 + 1)) & wait; fi; }
bomb 0; sleep 15
"""
    async with open_test_launcher() as (launcher, _):
        said = await run_script(launcher, testbed.request(bomb))
        assert said.status.overrun is not None
        assert (await run_script(launcher, testbed.request("echo alive"))).text == "alive\n"


async def test_files_in_the_project_do_not_steer_how_commands_start(testbed):
    trap = f"open({str(testbed.work / 'src/trapped')!r}, 'w')\n"
    for name in ("posix.py", "sys.py", "_socket.py", "_signal.py", "fcntl.py", "termios.py",
                 "sitecustomize.py", "usercustomize.py"):  # fmt: skip
        (testbed.work / name).write_text(trap)
    for name in (".env", ".envrc", ".bashrc", ".bash_profile", ".profile", ".inputrc"):
        (testbed.work / name).write_text("touch src/trapped\n")
    for tty in (False, True):
        said = await testbed.sh("echo fine", tty=tty)
        assert said.text.split() == ["fine"]
    assert not (testbed.work / "src/trapped").exists()


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP",
                                  "GCONV_PATH", "PERL5OPT", "NODE_OPTIONS"])  # fmt: skip
async def test_what_a_variable_loads_is_loaded_inside(testbed, name):
    (testbed.work / "src/evil").write_text("echo x >{out}/x\n".replace("{out}", str(testbed.out)))
    await testbed.sh("true", environment={name: str(testbed.work / "src/evil")})
    await testbed.sh(f"export {name}=$PWD/src/evil; bash -c true; python3 -c 1; perl -e 1")
    assert testbed.outside() == UNTOUCHED
