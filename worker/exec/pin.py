"""A launcher that a locked agent cannot talk out of its sandbox.

Guards: once pinned, only commands inside exactly one sandbox start, for good. The filter is the
launcher's own copy, and no variable that steers bwrap's loader passes: the agent may be hostile.
"""

import os

import msgspec

from ..sandbox.launch import is_loader_variable
from .orders import LaunchOrder, PinOrder


class Pin:
    """What every order must be, or is made to be."""

    def __init__(self, order: PinOrder) -> None:
        self._prefix, self._confinement = order.prefix, order.confinement
        self._filter: int | None = None
        if order.filter:
            self._filter = os.memfd_create("swarm-pin", os.MFD_CLOEXEC)
            os.write(self._filter, order.filter)

    def applied(self, order: LaunchOrder, fds: list[int]) -> LaunchOrder | None:
        """The order as it may run; None if it may not. A given filter in `fds` is replaced."""
        size = len(self._prefix)
        if order.argv[:size] != self._prefix or len(order.argv) <= size:
            return None
        if order.keep_session:
            return None
        for fd in fds[3:]:
            os.close(fd)
        del fds[3:]
        if self._filter is not None:
            fds.append(os.open(f"/proc/self/fd/{self._filter}", os.O_RDONLY | os.O_CLOEXEC))
        safe = {n: v for n, v in order.environment.items() if not is_loader_variable(n)}
        return msgspec.structs.replace(order, environment=safe, confinement=self._confinement)
