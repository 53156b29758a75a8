"""A bare fork with Trio and a ZeroMQ socket, many times: the floor of a start and of its memory.

Arguments: SOCKET-PATH CHILDREN. Prints the starts' seconds, then the pids, and ends its children
when its input ends.
"""

import gc
import os
import sys
import time

import msgspec  # noqa: F401  what every agent has imported
import trio
import zmq


async def live(endpoint: str, began: float) -> None:
    """Say how long it took, then sleep, as an idle agent does."""
    context = zmq.Context()
    sock = context.socket(zmq.DEALER)
    sock.connect(endpoint)
    sock.send(repr(time.monotonic() - began).encode())
    await trio.sleep_forever()


def main() -> None:
    endpoint, children = f"ipc://{sys.argv[1]}", int(sys.argv[2])
    gc.collect()
    gc.freeze()
    pids: list[int] = []
    began: list[float] = []
    for _ in range(children):  # before any context exists here
        began.append(time.monotonic())
        pid = os.fork()
        if pid == 0:
            trio.run(live, endpoint, began[-1])
        pids.append(pid)
        time.sleep(0.05)  # one after another, as starts are measured
    router = zmq.Context().socket(zmq.ROUTER)
    router.bind(endpoint)
    starts = [float(router.recv_multipart()[1]) for _ in pids]
    time.sleep(0.5)
    print(*starts)
    print(*pids, flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
