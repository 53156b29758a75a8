"""Children of tests: they do what their role says, under the real fork-server, without a model.

`supervisor_programs.py` is the supervisor beside it. Both are scripts, started with `-P`.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import trio

from swarm.mailbox.base.after_fork import become_subreaper
from swarm.mailbox.protocol.forking import AnyForkReport, ProcessStarted
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    AnySpec,
    GatewayAccess,
    GatewaySettings,
    GatewaySpec,
    RoleBrief,
    decode_spec,
)
from swarm.mailbox.protocol.values.limits import Limits
from swarm.supervisor.processes.early_start import ChildPrograms
from swarm.worker.base import lifeline
from swarm.worker.base.process_title import set_title
from swarm.worker.process import boot, fork_server

FATAL = "last"  # the title of the child that its fork-server does not survive
HERE = str(Path(__file__).resolve())


def agent_spec(role: str, *, token: str = "") -> AgentSpec:
    return AgentSpec(
        run_id="01900000-0000-7000-8000-0000deadbeef",
        agent_id="a",
        path="/root",
        epoch=1,
        role=RoleBrief(name=role),
        limits=Limits(),
        cwd="/",
        endpoint="",
        identity=b"i",
        secret=b"s",
        gateway=GatewayAccess(endpoint="", token=b""),
        tmp_dir="",
        environment={"TOKEN": token},
    )


def gateway_spec() -> GatewaySpec:
    return GatewaySpec(
        run_id="01900000-0000-7000-8000-0000deadbeef",
        epoch=1,
        endpoint="",
        identity=b"g",
        secret=b"s",
        bind="",
        run_key=b"",
        blobs_dir="",
        models_dir="",
        settings=GatewaySettings(),
    )


def become(spec_fd: int, keys_fd: int | None, lifeline_fd: int | None) -> int:
    """What a child does instead of boot.run: its role's name is the scenario."""
    become_subreaper()
    if lifeline_fd is not None:
        lifeline.hold_lifeline(lifeline_fd)
    spec: AnySpec = decode_spec(os.fdopen(spec_fd, "rb").read())
    if isinstance(spec, GatewaySpec):
        assert keys_fd is not None
        keys = msgspec.msgpack.decode(os.fdopen(keys_fd, "rb").read())
        say("got " + " ".join(sorted(keys)))
        signal.pause()
    act = ROLES[spec.role.name]
    return act(spec.environment["TOKEN"], lifeline_fd)


def say(text: str) -> None:
    print(text, flush=True)


def leave_with_three(token: str, lifeline_fd: int | None) -> int:
    return 3


def crash(token: str, lifeline_fd: int | None) -> int:
    raise RuntimeError("the reason why")


def talk_much(token: str, lifeline_fd: int | None) -> int:
    os.write(2, b"first" + b"x" * 200_000 + b"\xff\xfelast")
    return 0


def sleep_long(token: str, lifeline_fd: int | None) -> int:
    say("up")
    signal.pause()
    return 0


def ignore_term(token: str, lifeline_fd: int | None) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("up")
    while True:
        signal.pause()


def busy(token: str, lifeline_fd: int | None) -> int:
    start_daemon(token)
    say("up")
    while True:
        pass


def start_daemon(token: str) -> None:
    """A stubborn grandchild: own session, ignores SIGHUP and SIGTERM, holds the token in argv."""
    script = f"trap '' TERM HUP; while :; do sleep 1000; done # {token}"
    command = ["setsid", "nohup", "sh", "-c", script]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, stderr=2)


def with_daemon(token: str, lifeline_fd: int | None) -> int:
    """A Trio process with a helper forked before, as an agent with its launcher."""
    if os.fork() == 0:
        start_daemon(token)
        while True:
            signal.pause()
    wait_for_daemon(token)
    say("up")
    assert lifeline_fd is not None
    trio.run(lifeline.watch_lifeline, lifeline_fd)
    return 0


def crash_with_daemon(token: str, lifeline_fd: int | None) -> int:
    start_daemon(token)
    wait_for_daemon(token)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def wait_for_daemon(token: str) -> None:
    while not [pid for pid in holders(token) if "sh -c" in cmdline(pid)]:
        time.sleep(0.005)


def talk_to_supervisor(token: str, lifeline_fd: int | None) -> int:
    """A measure of memory: Trio, one ZeroMQ dealer, idle."""
    import zmq

    async def idle() -> None:
        with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
            dealer.linger = 0
            dealer.connect(f"ipc:///tmp/swarm-test-child-{os.getpid()}")
            say("up")
            await trio.sleep_forever()

    trio.run(idle)
    return 0


ROLES = {
    act.__name__: act
    for act in (
        leave_with_three,
        crash,
        talk_much,
        sleep_long,
        ignore_term,
        busy,
        with_daemon,
        crash_with_daemon,
        talk_to_supervisor,
    )
}


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def holders(token: str) -> list[int]:
    """Every living process whose arguments hold the token."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if token in cmdline(pid)]


class DyingServer(fork_server._ForkServer):
    """Dies after the fork of a child so titled, before it can say so."""

    def report(self, report: AnyForkReport, *fds: int) -> None:
        if isinstance(report, ProcessStarted):
            while cmdline(report.pid).startswith("swarm: fork-server"):
                time.sleep(0.001)
            if FATAL in cmdline(report.pid):
                os.kill(os.getpid(), signal.SIGKILL)
        super().report(report, *fds)


def begin_server(channel_fd: int, lifeline_fd: int) -> None:
    import socket

    fork_server._ForkServer = DyingServer
    child = boot.ForkedChild(become, lifeline_fd)
    fork_server.serve_orders(socket.socket(fileno=channel_fd), child)


def end_server(channel_fd: int, lifeline_fd: int) -> int:
    """A fork-server that dies before it is ready."""
    return 7


def begin_gateway(channel_fd: int, lifeline_fd: int) -> int:
    boot.run_from_spec = become
    sys.modules["swarm.worker.gateway.gateway_process"] = sys  # nothing to import here
    return boot.run_preforked_gateway(channel_fd, lifeline_fd)


PROGRAMS = ChildPrograms(
    shared=("msgspec", "trio", "swarm.mailbox.protocol.spec"),
    gateway="support.child_programs:begin_gateway",
    forkserver="support.child_programs:begin_server",
    cold_forkserver=(HERE, "server"),
    cold_child=(HERE, "child"),
)


def main() -> None:
    match sys.argv[1:]:
        case ["server", channel, line]:
            begin_server(int(channel), int(line))
        case ["child", title, *fds]:
            set_title(title)
            spec, line, *rest = map(int, fds)
            sys.exit(become(spec, rest[0] if rest else None, line))


if __name__ == "__main__":
    main()
