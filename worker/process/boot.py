"""Common start of agent, gateway and network-proxy processes, forked (warm) or executed (cold).

A process receives its spec on one sealed descriptor and a gateway receives its keys on a second
one. Neither passes through arguments, environment or disk.

A cold process enters through `cold_entry.py`.
"""

import importlib
import os
import socket
from collections.abc import Callable
from typing import ClassVar, NoReturn, Protocol, cast

import msgspec

from swarm.mailbox.after_fork import (
    become_subreaper,
    disable_core_dumps,
    exit_child,
    gc_paused,
    ignore_interrupts,
    leave_working_folder,
)
from swarm.mailbox.protocol.forking import StartProcess, decode_fork_order
from swarm.mailbox.protocol.spec import AgentSpec, AnySpec, GatewaySpec, ProxySpec, decode_spec
from swarm.mailbox.proxy_environment import proxy_variables

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


def run_from_spec(spec_fd: int, keys_fd: int | None, lifeline_fd: int | None) -> int:
    """Read the spec, run the process that it describes and return the exit code.

    Args:
        spec_fd: A memfd, positioned at its beginning; closed here.
        keys_fd: A pipe with a msgpack map of keys, for a gateway; closed here.
        lifeline_fd: The lifeline's reading end; stays open. None: there is no lifeline.
    """
    os.umask(0o077)
    ignore_interrupts()
    spec: AnySpec = decode_spec(_read_all(os.dup(spec_fd)))
    match spec:
        case AgentSpec():
            _drop_proxy_variables(spec)
            launch = cast(
                "_Launch", _import_name("swarm.worker.exec.launcher_client", "fork_launcher")
            )
            launcher = launch(lifeline_fd=lifeline_fd, spec_fd=spec_fd)  # before Trio and any lock
            os.close(spec_fd)
            bind_to_run(lifeline_fd)
            agent = cast("_RunAgent", _import_name("swarm.worker.agent.agent_process", "run_agent"))
            return agent(spec, launcher, lifeline_fd)
        case GatewaySpec():
            os.close(spec_fd)
            bind_to_run(lifeline_fd)
            keys = {} if keys_fd is None else _decode_keys(_read_all(keys_fd))
            name = "swarm.worker.gateway.gateway_process"
            gateway = cast("_RunGateway", _import_name(name, "run_gateway"))
            return gateway(spec, keys, lifeline_fd)
        case ProxySpec():
            bind_to_run(lifeline_fd)
            proxy = cast("_RunProxy", _import_name("swarm.worker.proxy.proxy_process", "run_proxy"))
            return proxy(spec, lifeline_fd)


def _drop_proxy_variables(spec: AgentSpec) -> None:
    """Remove the proxy variables that the spec's environment omits from this process."""
    for name in set(proxy_variables(os.environ)) - set(spec.environment):
        del os.environ[name]


def bind_to_run(lifeline_fd: int | None) -> None:
    """Become the subreaper of all descendants and end with the run.

    Call it after the launcher's fork: memory written before a fork is copied twice.
    """
    become_subreaper()
    if lifeline_fd is not None:
        hold_lifeline(lifeline_fd)


def run_preforked_gateway(channel_fd: int, lifeline_fd: int) -> int:
    """Run a gateway forked before its spec is known: import modules, then take one StartProcess.

    Returns the exit code; 0 when the supervisor closes the channel without an order.
    """
    hold_lifeline(lifeline_fd)
    with gc_paused():
        importlib.import_module("swarm.worker.gateway.gateway_process")
        # Else the first connection would spend 2 ms on it.
        importlib.import_module("encodings.idna")
    with socket.socket(fileno=channel_fd) as channel:
        flags = socket.MSG_CMSG_CLOEXEC
        packet, fds, _, _ = socket.recv_fds(channel, _PACKET_BYTES, 2, flags)
    if not packet:
        return 0
    order = decode_fork_order(packet)
    assert isinstance(order, StartProcess)
    set_title(order.title)
    return run_from_spec(fds[0], fds[1] if order.has_keys else None, lifeline_fd)


class _TitleSetter:
    set_title: ClassVar[Callable[[str], None] | None] = None


def set_title(title: str) -> None:
    """Set the title that `ps` shows, with unprintable characters replaced."""
    if _TitleSetter.set_title is None:  # imported when the first process needs it
        from setproctitle import setproctitle

        _TitleSetter.set_title = setproctitle
    _TitleSetter.set_title(printable(title))


def launcher_title(title: str) -> str:
    """Return the title that `ps` shows for the launcher of the process with this title."""
    return f"swarm: launcher of {printable(title).removeprefix('swarm: ')}"


def printable(title: str) -> str:
    """Replace unprintable characters by `?`: a role's name comes from a file."""
    return "".join(sign if sign.isprintable() else "?" for sign in title)


def _import_name(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _read_all(fd: int) -> bytes:
    pieces: list[bytes] = []  # no file object: it would cost each agent 20 pages
    while piece := os.read(fd, _PACKET_BYTES):
        pieces.append(piece)
    os.close(fd)
    return b"".join(pieces)


def run_cold_started(title: str, spec_fd: int, keys_fd: int | None, lifeline_fd: int) -> NoReturn:
    """Run what the spec describes in the process that `cold_entry.py` started; never returns."""
    disable_core_dumps()
    leave_working_folder()
    set_title(title)
    exit_child(run_from_spec(spec_fd, keys_fd, lifeline_fd))
