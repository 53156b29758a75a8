"""The common beginning of an agent, a gateway or a network proxy, forked warm or started cold.

What a process may know comes as one spec on a sealed descriptor; a gateway's keys come on a second
one. Neither passes through arguments, environment or disk.

Cold it is entered by `cold.py`.
"""

import importlib
import os
import socket
from collections.abc import Callable
from typing import ClassVar, NoReturn, Protocol, cast

import msgspec

from swarm.mailbox.forked import (
    become_subreaper,
    forbid_dumps,
    ignore_interrupts,
    leave,
    leave_folder,
    no_collections,
)
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec, GatewaySpec, ProxySpec, decode_spec
from swarm.mailbox.proxies import proxies_of

from .lifeline import hold_lifeline

_PACKET_BYTES = 64 * 1024
_decode_keys = msgspec.msgpack.Decoder(dict[str, str]).decode


class _Launch(Protocol):
    def __call__(self, *, lifeline_fd: int | None, spec_fd: int | None) -> object: ...


class _RunAgent(Protocol):
    def __call__(self, spec: AgentSpec, launcher: object, lifeline_fd: int | None, /) -> int: ...


class _RunGateway(Protocol):
    def __call__(
        self, spec: GatewaySpec, keys: dict[str, str], lifeline_fd: int | None, /
    ) -> int: ...


class _RunProxy(Protocol):
    def __call__(self, spec: ProxySpec, lifeline_fd: int | None, /) -> int: ...


def run(spec_fd: int, keys_fd: int | None, lifeline_fd: int | None) -> int:
    """Read the spec and be what it says; return the exit code.

    Args:
        spec_fd: A memfd at its beginning; closed here.
        keys_fd: A pipe with a msgpack map of keys, for a gateway; closed here.
        lifeline_fd: The life-line's reading end; stays open. None: nothing to outlive.
    """
    os.umask(0o077)
    ignore_interrupts()
    spec: AnySpec = decode_spec(_read_all(os.dup(spec_fd)))
    match spec:
        case AgentSpec():
            _forget_proxies(spec)
            launch = cast("_Launch", _named("swarm.worker.exec.launcher", "fork_launcher"))
            launcher = launch(lifeline_fd=lifeline_fd, spec_fd=spec_fd)  # before Trio and any lock
            os.close(spec_fd)
            stand_guard(lifeline_fd)
            agent = cast("_RunAgent", _named("swarm.worker.agent", "run_agent"))
            return agent(spec, launcher, lifeline_fd)
        case GatewaySpec():
            os.close(spec_fd)
            stand_guard(lifeline_fd)
            keys = {} if keys_fd is None else _decode_keys(_read_all(keys_fd))
            name = "swarm.worker.gateway.service"
            gateway = cast("_RunGateway", _named(name, "run_gateway"))
            return gateway(spec, keys, lifeline_fd)
        case ProxySpec():
            stand_guard(lifeline_fd)
            proxy = cast("_RunProxy", _named("swarm.worker.proxy.service", "run_proxy"))
            return proxy(spec, lifeline_fd)


def _forget_proxies(spec: AgentSpec) -> None:
    """What the spec leaves out of the environment is not for this process and its children."""
    for name in set(proxies_of(os.environ)) - set(spec.environment):
        del os.environ[name]


def stand_guard(lifeline_fd: int | None) -> None:
    """Own what is below, and end with the run. Not before the launcher's fork: what a process
    touches before a fork, it copies twice."""
    become_subreaper()
    if lifeline_fd is not None:
        hold_lifeline(lifeline_fd)


def begin_gateway(channel_fd: int, lifeline_fd: int) -> int:
    """A gateway forked before its spec is known: import meanwhile, then take one StartProcess.

    Returns the exit code; 0 when the supervisor closes the channel instead.
    """
    hold_lifeline(lifeline_fd)
    with no_collections():
        importlib.import_module("swarm.worker.gateway.service")
        importlib.import_module("encodings.idna")  # its first connection would, for 2 ms
    with socket.socket(fileno=channel_fd) as channel:
        flags = socket.MSG_CMSG_CLOEXEC
        packet, fds, _, _ = socket.recv_fds(channel, _PACKET_BYTES, 2, flags)
    if not packet:
        return 0
    order = decode_fork_order(packet)
    assert isinstance(order, StartProcess)
    set_title(order.title)
    return run(fds[0], fds[1] if order.has_keys else None, lifeline_fd)


class _Titles:
    set_title: ClassVar[Callable[[str], None] | None] = None


def set_title(title: str) -> None:
    """What `ps` shows, made printable."""
    if _Titles.set_title is None:  # not before the first process needs it
        from setproctitle import setproctitle

        _Titles.set_title = setproctitle
    _Titles.set_title(printable(title))


def launcher_title(title: str) -> str:
    """What `ps` shows of the launcher of the process with this title."""
    return f"swarm: launcher of {printable(title).removeprefix('swarm: ')}"


def printable(title: str) -> str:
    """Only printable characters: a role's name comes from a file."""
    return "".join(sign if sign.isprintable() else "?" for sign in title)


def _named(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _read_all(fd: int) -> bytes:
    pieces: list[bytes] = []  # no file object: it would cost each agent 20 pages
    while piece := os.read(fd, _PACKET_BYTES):
        pieces.append(piece)
    os.close(fd)
    return b"".join(pieces)


def begin_cold(title: str, spec_fd: int, keys_fd: int | None, lifeline_fd: int) -> NoReturn:
    """Be what the spec says, in a process of its own that `cold.py` has begun."""
    forbid_dumps()
    leave_folder()
    set_title(title)
    leave(run(spec_fd, keys_fd, lifeline_fd))
