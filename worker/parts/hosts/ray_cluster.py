"""Machines of a Ray cluster: one actor a machine and run, which starts the node and holds its pipe.

The actor is owned by this process's Ray job, so it goes when this process goes; the pipe that it
holds closes with it, and the node ends. Ray places and watches; it runs no agent and sees no mail.
Ray's calls block: they are made in threads.

Source: Ray's actors, `NodeAffinitySchedulingStrategy`; its keys travel by its own channel.
"""

import socket
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast

import msgspec
import trio

from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.protocol.nodes import (
    HostTable,
    NodeCard,
    NodeOrder,
    decode_node_card,
    encode_node_value,
)

from . import node_holder
from .node_holder import INSTALL_LIMIT_S, TIDY_LIMIT_S, NodeHolder
from .node_starter import Machine, NodeUnavailable

_CONNECT_LIMIT_S, _START_LIMIT_S, _PROBE_S = 5.0, 60.0, 2.0
_MOST_CHARS = 400


class _Method(Protocol):
    def remote(self, *arguments: str) -> object: ...


class _Actor(Protocol):
    install: _Method
    start: _Method
    close: _Method
    end_of: _Method


class _ActorClass(Protocol):
    def options(self, **options: object) -> "_ActorClass": ...

    def remote(self) -> _Actor: ...


class _CloudPickle(Protocol):
    def register_pickle_by_value(self, module: ModuleType, /) -> None: ...


class _Ray(Protocol):
    """What is used of Ray, which has no types of its own."""

    def init(self, **options: object) -> object: ...

    def nodes(self) -> list[dict[str, object]]: ...

    def remote(self, kind: type, /) -> _ActorClass: ...

    def get(self, reference: object, *, timeout: float) -> object: ...

    def kill(self, actor: _Actor, *, no_restart: bool) -> None: ...

    def shutdown(self) -> None: ...

    @property
    def cloudpickle(self) -> _CloudPickle: ...


class _RayMachine(msgspec.Struct):
    """One of `ray.nodes()`."""

    NodeID: str
    NodeManagerAddress: str
    Alive: bool
    Labels: dict[str, str] | None = None
    Resources: dict[str, float] = {}


class RayNode:
    """Implements `StartedNode`."""

    def __init__(self, ray: _Ray, actor: _Actor, card: NodeCard) -> None:
        self._ray, self._actor, self._card = ray, actor, card

    @property
    def card(self) -> NodeCard:
        return self._card

    async def wait_ended(self) -> str:
        while True:
            await trio.sleep(_PROBE_S)
            try:
                why = await trio.to_thread.run_sync(
                    lambda: self._ray.get(self._actor.end_of.remote(), timeout=_START_LIMIT_S),
                    abandon_on_cancel=True,
                )
            except Exception as error:  # Ray raises many kinds, all of which mean this
                return f"Ray lost the actor that holds it: {type(error).__name__}"
            if why is not None:
                return str(why)

    async def stop(self) -> None:
        """Ray kills what an actor has started as soon as the actor is gone: not before its end."""
        with trio.move_on_after(TIDY_LIMIT_S + 5.0):
            await trio.to_thread.run_sync(self._stop, abandon_on_cancel=True)

    def _stop(self) -> None:
        try:
            self._ray.get(self._actor.close.remote(), timeout=TIDY_LIMIT_S + 2.0)
            self._ray.kill(self._actor, no_restart=True)
        except Exception:
            return  # it is gone, or cannot be reached


class RayCluster:
    """Implements `NodeStarter`."""

    def __init__(self, table: HostTable) -> None:
        self._table = table
        self._connected: _Ray | None = None

    async def open(self) -> None:
        """Connect to the cluster. Raises NodeUnavailable."""
        await trio.to_thread.run_sync(self._open, abandon_on_cancel=True)

    def _open(self) -> None:
        try:
            ray = cast("_Ray", import_module("ray"))
        except ImportError as error:
            line = line_for_extra("ray")
            raise NodeUnavailable(f"there is no Ray here; to install it: {line}") from error
        self._check_reachable()
        try:
            ray.init(
                address=self._table.ray, log_to_driver=False, configure_logging=False,
                namespace="swarm", ignore_reinit_error=True,
            )  # fmt: skip
        except Exception as error:
            with suppress(Exception):
                ray.shutdown()  # what was begun: it may be tried again
            raise NodeUnavailable(f"no Ray cluster at {self._table.ray}: {error}") from error
        # the machines need not have swarm for the Python of Ray's workers
        ray.cloudpickle.register_pickle_by_value(node_holder)
        self._connected = ray

    @property
    def _ray(self) -> _Ray:
        assert self._connected is not None, "open it first"
        return self._connected

    def _check_reachable(self) -> None:
        """Ray itself tries for minutes. Raises NodeUnavailable."""
        host, _, port = self._table.ray.removeprefix("ray://").rpartition(":")
        if not host or not port.isdigit():
            return  # "auto": Ray finds it by its own files
        try:
            socket.create_connection((host, int(port)), timeout=_CONNECT_LIMIT_S).close()
        except OSError as error:
            raise NodeUnavailable(f"no Ray cluster at {self._table.ray}: {error}") from error

    async def machines(self) -> tuple[Machine, ...]:
        return await trio.to_thread.run_sync(self._machines, abandon_on_cancel=True)

    def _machines(self) -> tuple[Machine, ...]:
        found: list[Machine] = []
        for one in msgspec.convert(self._ray.nodes(), list[_RayMachine]):
            labels = one.Labels or {}
            fits = all(labels.get(name) == value for name, value in self._table.labels.items())
            if one.Alive and fits:
                found.append(Machine(one.NodeID, one.NodeManagerAddress, one.Resources))
        return tuple(found)

    async def start(self, machine: Machine, order: NodeOrder) -> RayNode:
        start = partial(self._start, machine, order)
        return await trio.to_thread.run_sync(start, abandon_on_cancel=True)

    def _start(self, machine: Machine, order: NodeOrder) -> RayNode:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        wanted = dict(self._table.resources)
        there = NodeAffinitySchedulingStrategy(node_id=machine.name, soft=False)
        actor_class = self._ray.remote(NodeHolder).options(
            num_cpus=wanted.pop("num_cpus", 0), memory=wanted.pop("memory", None) or None,
            resources=wanted, max_restarts=0, scheduling_strategy=there,
            name=f"swarm-{order.run_id}-{order.name}-{order.epoch}",
        )  # fmt: skip
        actor = actor_class.remote()
        try:
            python = self._table.python
            if self._table.python_env:
                files = msgspec.json.encode(self._table.python_env).decode()
                made = actor.install.remote(files, python)
                python = str(self._ray.get(made, timeout=INSTALL_LIMIT_S))
            encoded = b64encode(encode_node_value(order)).decode()
            said = self._ray.get(actor.start.remote(encoded, python), timeout=_START_LIMIT_S)
            return RayNode(self._ray, actor, decode_node_card(b64decode(str(said))))
        except Exception as error:
            self._ray.kill(actor, no_restart=True)
            raise NodeUnavailable(f"{machine.address}: {_brief(error)}") from error

    async def close(self) -> None:
        """Leave the cluster: all actors of this process go."""
        if self._connected is not None:
            with trio.move_on_after(10.0):
                await trio.to_thread.run_sync(self._connected.shutdown, abandon_on_cancel=True)


def _brief(error: Exception) -> str:
    """Ray's errors hold whole tracebacks of other processes; the last line says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:_MOST_CHARS] if lines else type(error).__name__
