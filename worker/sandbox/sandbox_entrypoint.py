"""The entrypoint inside the sandbox, which becomes the command after some 6 ms.

With a terminal it starts a session and takes the terminal. With the network proxy it listens on the
loopback device of the command's own namespace and sends the listener out by an inherited socket. So
no process of swarm stays inside, and only this command can connect there.

It is already under the command's filter. It opens no file and reads no variable but PATH (Python
runs isolated), and passes none of its descriptors to the command.
"""

import os
from functools import cache

from .bwrap import ROUTE_FD
from .proxy_variables import PROXY_PORT
from .sandbox_plan import SandboxUnavailable
from .sandbox_probe import find_system_program

# With bwrap in the terminal's foreground group, Ctrl-C would kill it.
_TERMINAL = """if posix.isatty(0):
 import fcntl,termios
 posix.setsid()
 fcntl.ioctl(0,termios.TIOCSCTTY,0)
"""
# `_socket` and `posix`: importing `socket` takes as long as starting Python, `os` a millisecond.
_LISTENER = f"""import _socket
s=_socket.socket(2,1)
s.setsockopt(1,2,1)
s.bind(("127.0.0.1",{PROXY_PORT}))
s.listen(128)
u=_socket.socket(fileno={ROUTE_FD})
u.sendmsg([b"\\0"],[(1,1,s.fileno().to_bytes(4,sys.byteorder))])
u.close()
"""
# Python ignores these two signals; the command must not start so. Then execvp, by hand.
_EXEC = """import _signal
for n in (_signal.SIGPIPE,_signal.SIGXFSZ):
 _signal.signal(n,_signal.SIG_DFL)
w,e=sys.argv[1:],2
path=posix.environ.get(b"PATH",b"/usr/bin:/bin").decode("utf-8","surrogateescape")
for d in [""] if "/" in w[0] else path.split(":"):
 try:
  posix.execv(d+"/"+w[0] if d else w[0],w)
 except OSError as x:
  e=x.errno if x.errno!=2 else e
posix.write(2,f"{w[0]}: {posix.strerror(e)}\\n".encode("utf-8","replace"))
posix._exit(126 if e==13 else 127)
"""


@cache
def entrypoint_argv(*, tty: bool, proxied: bool) -> tuple[str, ...]:
    """Arguments to put before the command's own; none if there is nothing to do.

    Raises SandboxUnavailable: the route to the proxy needs a system Python.
    """
    if not tty and not proxied:
        return ()
    if not proxied and (setsid := find_system_program("setsid")):
        return (setsid, "-c")
    python = find_system_program("python3")
    if python is None and proxied:
        raise SandboxUnavailable(
            "the way to the network proxy needs a python3 in /usr/bin or /usr/local/bin; install "
            "the package `python3`"
        )
    # The same code with and without a terminal: a locked role's launcher compares it.
    code = "import posix,sys\n" + _TERMINAL + _LISTENER * proxied + _EXEC
    return (os.path.realpath(python or "python3"), "-I", "-S", "-c", code)
