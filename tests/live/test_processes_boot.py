"""The cold entry with the real programs: hostile folders, broken specs, an early goodbye."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.protocol.forking import (
    ProcessExited,
    ProcessStarted,
    ServerReady,
    StartProcess,
    decode_fork_report,
    encode_fork,
)

LIMIT_S = 30
PYTHON = (sys.executable, "-P", "-m")

pytestmark = pytest.mark.live


def memfd(data: bytes) -> int:
    fd = os.memfd_create("spec", os.MFD_ALLOW_SEALING)
    os.write(fd, data)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def run_cold(spec: bytes, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    reader, writer = os.pipe()
    spec_fd = memfd(spec)
    try:
        with trio.fail_after(LIMIT_S):
            return await trio.run_process(
                [*PYTHON, "swarm.worker.process.cold_entry", "swarm: x", str(spec_fd), str(reader)],
                pass_fds=(spec_fd, reader),
                cwd=cwd,
                capture_stderr=True,
                check=False,
            )
    finally:
        for fd in (reader, writer, spec_fd):
            os.close(fd)


async def test_a_broken_spec_is_a_crash_with_its_reason_and_a_planted_module_is_not_imported(
    tmp_path,
):
    (tmp_path / "trio.py").write_text("raise SystemExit('hostile')")
    (tmp_path / "mailbox").mkdir()
    done = await run_cold(b"\xc1 not msgpack", tmp_path)
    assert done.returncode == 1
    assert b"DecodeError" in done.stderr
    assert b"hostile" not in done.stderr


async def test_a_process_that_still_loads_ends_with_the_life_line(tmp_path):
    (tmp_path / "msgspec.py").write_text(
        "print('loading', flush=True)\nimport time\ntime.sleep(99)"
    )
    reader, writer = os.pipe()
    spec_fd = memfd(b"")
    with trio.fail_after(LIMIT_S):
        process = await trio.lowlevel.open_process(
            [*PYTHON, "swarm.worker.process.cold_entry", "swarm: x", str(spec_fd), str(reader)],
            pass_fds=(spec_fd, reader),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
        )
        assert process.stdout is not None
        async with process.stdout:
            assert (await process.stdout.receive_some()).startswith(b"loading")
            os.close(writer)
            assert await process.wait() == -signal.SIGIO
    for fd in (reader, spec_fd):
        os.close(fd)


async def test_the_real_fork_server_forks_reports_and_leaves_when_it_is_hung_up(tmp_path):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    command = [*PYTHON, "swarm.worker.process.fork_server", str(theirs.fileno()), str(reader)]
    with trio.fail_after(LIMIT_S), ours:
        server = await trio.lowlevel.open_process(
            command, pass_fds=(theirs.fileno(), reader), cwd=tmp_path
        )
        theirs.close()
        fds = [memfd(b"\xc1"), os.open(os.devnull, os.O_WRONLY)]
        socket.send_fds(ours, [encode_fork(StartProcess(request=7, title="swarm: x"))], fds)
        reports = []
        for _ in range(3):
            packet, pidfds, _, _ = await trio.to_thread.run_sync(socket.recv_fds, ours, 4096, 1)
            fds += pidfds
            reports.append(decode_fork_report(packet))
        match reports:
            case [ServerReady(), ProcessStarted(request=7, pid=pid), ProcessExited() as exited]:
                assert exited == ProcessExited(pid=pid, status=1 << 8)
            case _:
                pytest.fail(f"unexpected reports: {reports}")
        ours.shutdown(socket.SHUT_RDWR)
        assert await server.wait() == 0
    for fd in (reader, writer, *fds):
        os.close(fd)


async def test_a_gateway_whose_supervisor_never_speaks_leaves_in_peace():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reader, writer = os.pipe()
    code = (
        "import sys; from swarm.worker.process import boot;"
        "sys.modules['swarm.worker.gateway.gateway_process'] = sys;"
        "sys.exit(boot.run_preforked_gateway(int(sys.argv[1]), int(sys.argv[2])))"
    )
    command = [sys.executable, "-P", "-c", code, str(theirs.fileno()), str(reader)]
    with trio.fail_after(LIMIT_S):
        gateway = await trio.lowlevel.open_process(command, pass_fds=(theirs.fileno(), reader))
        theirs.close()
        ours.close()
        assert await gateway.wait() == 0
    for fd in (reader, writer):
        os.close(fd)


async def test_a_process_that_takes_up_an_ended_lifeline_dies_at_once():
    reader, writer = os.pipe()
    os.close(writer)
    code = (
        "import sys; from swarm.worker.base.lifeline import hold_lifeline;"
        "hold_lifeline(int(sys.argv[1])); print('alive')"
    )
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            [sys.executable, "-P", "-c", code, str(reader)],
            pass_fds=(reader,),
            capture_stdout=True,
            check=False,
        )
    os.close(reader)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


async def test_somebody_elses_sigcont_ends_nobody():
    reader, writer = os.pipe()
    code = (
        "import os, signal, sys; from swarm.worker.base.lifeline import hold_lifeline;"
        "hold_lifeline(int(sys.argv[1])); os.kill(os.getpid(), signal.SIGCONT); print('alive')"
    )
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            [sys.executable, "-P", "-c", code, str(reader)], pass_fds=(reader,), capture_stdout=True
        )
    for fd in (reader, writer):
        os.close(fd)
    assert done.stdout == b"alive\n"


async def test_a_second_thread_makes_the_start_cold():
    code = (
        "import threading, json\n"
        "from swarm.supervisor.processes.early_start import start_early, kill_launched\n"
        "done = threading.Event()\n"
        "thread = threading.Thread(target=done.wait); thread.start()\n"
        "ignition = start_early()\n"
        "print(json.dumps([ignition.gateway is None, ignition.server is not None]))\n"
        "server, ignition.server = ignition.server, None\n"
        "kill_launched(server); done.set(); thread.join(); ignition.close(); ignition.close()\n"
    )
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process([sys.executable, "-P", "-c", code], capture_stdout=True)
    assert msgspec.json.decode(done.stdout) == [True, True]
