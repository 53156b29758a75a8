"""What `forked_python` starts: it stands for a process that is forked for it.

It must start fast: it needs no module but those that Python is built with, and no site.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import fcntl
import marshal
import os
import select
import sys

MODULES = {
    "swarm.supervisor.clients.cli.entry",
    "swarm.worker.gateway.models_cli",
    "swarm.worker.parts.accounts.login.login_process",
    "swarm.worker.parts.mcp.hub_cli",
}
TIOCNOTTY = 0x5422
PASSED_ON = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGCONT")


def main() -> None:
    match sys.argv[1:]:
        case ["-P", "-m", name, *_] if name in MODULES:
            runs = {"module": name, "argv": ["-m", *sys.argv[4:]], "python": None}
        case [file, *_] if not file.startswith("-"):
            runs = {"module": None, "argv": sys.argv[1:], "python": sys.argv[0]}
        case words:
            os.execv(sys.executable, [sys.executable, *words])
    os.umask(umask := os.umask(0))
    leads_session = os.getsid(0) == os.getpid()
    leads = "session" if leads_session else "group" if os.getpgrp() == os.getpid() else None
    order = {
        "cwd": os.getcwd(),
        "environment": dict(os.environ),
        "leads": leads,
        "terminal": give_terminal_away() if leads_session else None,
        "umask": umask,
        "user": None,
        **runs,
    }
    inherited = [int(name) for name in os.listdir("/proc/self/fd") if is_inherited(name)]
    become(order | {"inherited": inherited}, inherited)


def is_inherited(name: str) -> bool:
    try:
        return int(name) > 2 and os.get_inheritable(int(name))
    except OSError:  # the one that lists them
        return False


def give_terminal_away() -> int | None:
    """The descriptor of the terminal that was this session's, whose next leader takes it."""
    for number in range(3):
        if os.isatty(number):
            _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)  # comes to a leader who gives it away
            fcntl.ioctl(number, TIOCNOTTY)
            return number
    return None


def become(order: dict[str, object], inherited: list[int]) -> None:
    asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    asking.connect(os.path.dirname(sys.argv[0]) + "/door")
    told = os.memfd_create("order")
    os.write(told, marshal.dumps(order))
    os.lseek(told, 0, os.SEEK_SET)
    files = b"".join(fd.to_bytes(4, sys.byteorder) for fd in (told, 0, 1, 2, *inherited))
    asking.sendmsg([b"fork"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    pid = answer(asking)
    for name in PASSED_ON:
        if _signal.getsignal(number := getattr(_signal, name)) != _signal.SIG_IGN:
            _signal.signal(number, lambda number, _: os.kill(pid, number))
    ended = select.poll()
    ended.register(os.pidfd_open(pid), select.POLLIN)
    ended.poll()
    asking.send(b"".join(part.to_bytes(8, sys.byteorder) for part in (pid, os.WNOHANG)))
    end_as(answer(asking))


def answer(asking: _socket.socket) -> int:
    return int.from_bytes(asking.recv(8), sys.byteorder, signed=True)


def end_as(code: int) -> None:
    if code < 0:
        if -code != _signal.SIGKILL:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
