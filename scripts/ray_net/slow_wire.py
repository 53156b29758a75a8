"""A wire between two network namespaces that delays every packet, and loses some.

Usage: python slow_wire.py PID HERE THERE DELAY_MS LOSS. It joins a device HERE in this namespace to
a device THERE in that of the process PID, as long as it runs, and prints `ready` when both are
there. What the kernel's `netem` does, for kernels without it: real packets, so TCP sees them lost.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import sys
import time
from itertools import count

_TUNSETIFF, _TUN_WITHOUT_HEADER = 0x400454CA, 0x0001 | 0x1000
_CLONE_NEWNET = 0x40000000
_MOST_BYTES, _MOST_WAITING = 65_536, 20_000


def open_device(name: str) -> int:
    """Raises OSError."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    return device


def enter_network_of(pid: str) -> None:
    """Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


def carry(here: int, there: int, delay_s: float, loss: float) -> None:
    """Carry packets both ways, for ever."""
    other = {here: there, there: here}
    waiting: list[tuple[float, int, int, bytes]] = []  # when, order, where to, packet
    numbers, chance = count(), random.Random(0)
    while True:
        limit_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for device in select.select([here, there], [], [], limit_s)[0]:
            packet = os.read(device, _MOST_BYTES)
            if chance.random() >= loss and len(waiting) < _MOST_WAITING:
                due = time.monotonic() + delay_s
                heapq.heappush(waiting, (due, next(numbers), other[device], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(waiting)
            try:
                os.write(device, packet)
            except OSError:
                continue  # the wire is cut there


def main() -> None:
    pid, here, there, delay_ms, loss = sys.argv[1:]
    ours = open_device(here)
    enter_network_of(pid)
    theirs = open_device(there)
    print("ready", flush=True)
    carry(ours, theirs, float(delay_ms) / 1000, float(loss))


if __name__ == "__main__":
    main()
