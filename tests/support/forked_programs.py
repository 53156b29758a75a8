"""Processes that are forked from one that has imported their modules already.

Python and the modules of one command cost 0.3 s of processor time at each start, those of a whole
run twice that. One process per process of the tests imports them once and forks a fresh process for
each test that asks. What is forked is a process like any other: its own files, folder, environment,
arguments, title and signals; it runs the same program to the same end. Two things differ from a
program that the kernel started: `/proc/PID/environ` says nothing, and all modules are there.
"""

import atexit
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple, Self

import trio

_ANSWER = struct.Struct("=q")
_RUNNING = 1 << 32  # no exit code
_PLACEHOLDER = Path(__file__).parent / "placeholder_program.py"
_LOOP = """
import os, select, signal, socket, struct, sys
from contextlib import suppress
ANSWER, RUNNING = struct.Struct("=q"), 1 << 32
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this process

def serve(asked, door):
    # Returns in each child, with what it is to be.
    askers, waits = {asked.fileno(): asked}, select.poll()
    for one in (asked, door):
        waits.register(one, select.POLLIN)
    forked = {}  # descriptor of an asker at the door -> what it is answerable for
    while True:
        for number, _ in waits.poll():
            if number == door.fileno():
                one, _ = door.accept()
                askers[one.fileno()] = one
                waits.register(one, select.POLLIN)
                continue
            one = askers[number]
            try:
                datagram, fds, _, _ = socket.recv_fds(one, 64, 250, socket.MSG_CMSG_CLOEXEC)
            except OSError:  # it was killed before it read an answer
                datagram, fds = b"", []
            if not datagram:
                if one is asked:
                    os._exit(0)
                waits.unregister(one)
                del askers[number]
                one.close()
                if (pid := forked.pop(number, None)) is not None:  # it was killed
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                continue
            if not fds:
                pid, options = struct.unpack("=qq", datagram)
                found, status = os.waitpid(pid, options)
                if found:
                    forked.pop(number, None)
                tell(one, os.waitstatus_to_exitcode(status) if found else RUNNING)
                continue
            if (pid := FORK()) == 0:
                return fds
            AFTER()
            for fd in fds:
                os.close(fd)
            if one is not asked:
                forked[number] = pid
            tell(one, pid)

def tell(one, answer):
    with suppress(OSError):  # it was killed: its end is read next
        one.send(ANSWER.pack(answer))
"""
_LAUNCHERS = """
from swarm.mailbox.base.after_fork import after_fork_in_parent, before_fork, fork_bare
from swarm.worker.exec.launcher_process import become_launcher

AFTER = after_fork_in_parent

def FORK():
    before_fork()
    return fork_bare()

[fd] = serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
become_launcher(socket.socket(fileno=fd), None)
"""
_COMMANDS = """
import atexit, ctypes, fcntl, gc, marshal, runpy, termios, threading, traceback
from importlib import import_module
from setproctitle import setproctitle
from swarm.mailbox.base.after_fork import close_all_but
from swarm.mailbox.base.redact_rules import secret_matcher
from swarm.worker.process.fork_server import PRELOADED_MODULES
from swarm.worker.process.prewarm import SPECIALIZING_RUNS, specialize_code

for name in (
    *PRELOADED_MODULES, "encodings.ascii", "encodings.idna",
    "anyio._backends._asyncio", "humanize", "jsonschema_rs", "jwt", "tree_sitter_bash", "uvicorn",
    "yaml", "swarm.roles.config.layers.toml_edit", "swarm.supervisor.clients.chat.chat_app",
    "swarm.supervisor.clients.cli.commands.chat_command",
    "swarm.supervisor.parts.copies.sandboxed_git",
    "swarm.worker.gateway.gateway_process", "swarm.worker.gateway.models_cli",
    "swarm.worker.gateway.scripted_source",
    "swarm.worker.parts.mcp.hub_cli", "swarm.worker.parts.mcp.hub_process",
    "swarm.worker.parts.mcp.login_flow", "swarm.worker.parts.accounts.login.login_process",
    "swarm.worker.process.prewarm", "swarm.worker.parts.network.proxy_process",
    "swarm.worker.programs.sandbox_command",
    "swarm.supervisor.clients.acp.acp_server", "swarm.supervisor.clients.cli.entry",
    "swarm.supervisor.clients.cli.main", "swarm.supervisor.clients.cli.commands.run_execution",
    "swarm.supervisor.clients.cli.run_setup.request_builder",
    "swarm.supervisor.clients.cli.base.undo_questions",
    "swarm.supervisor.clients.console.plain_display", "swarm.supervisor.parts.copies.agent_commits",
    "swarm.supervisor.parts.copies.cut_off_merges", "swarm.supervisor.parts.copies.ended_merges",
    "swarm.supervisor.clients.mcp_server.mcp_server_process",
    "swarm.supervisor.parts.memories.commands.memory_access",
    "swarm.supervisor.parts.memories.commands.memory_job",
    "swarm.supervisor.parts.memories.memory_work", "swarm.supervisor.run",
    *(f"swarm.supervisor.clients.cli.commands.{one}_command" for one in ("resume", "run")),
    *(f"swarm.supervisor.clients.cli.commands.{one}_commands" for one in ("approval", "journal",
    "steer")),
    "swarm.supervisor.clients.cli.commands.run_list_commands",
):
    import_module(name)
secret_matcher()
for number in range(SPECIALIZING_RUNS):
    specialize_code(number)
setproctitle("swarm's modules, to be forked")  # it finds its place by the first environment
gc.freeze()

FORK, AFTER = os.fork, int

order, *files = serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
with open(order, "rb") as file:
    order = marshal.load(file)
numbers = [0, 1, 2, *order["inherited"]]
for number, fd in zip(numbers, [fcntl.fcntl(fd, fcntl.F_DUPFD, 512) for fd in files]):
    os.dup2(fd, number)
close_all_but(set(numbers))
if order["leads"] == "session":
    os.setsid()
elif order["leads"] == "group":
    os.setpgid(0, 0)
if order["terminal"] is not None:
    fcntl.ioctl(order["terminal"], termios.TIOCSCTTY, 0)
os.chdir(order["cwd"])
if (umask := order["umask"]) is not None:
    os.umask(umask)
if (user := order["user"]) is not None:
    os.setgroups(())
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # its own files in /proc, which an exec would give it
os.environ.clear()
os.environ.update(order["environment"])
sys.argv = order["argv"]
signal.signal(signal.SIGINT, signal.default_int_handler)
code = 0
try:
    setproctitle(" ".join([sys.executable, *sys.argv]))  # from now on it can be told from others
    sys.executable = order["python"] or sys.executable
    if order["module"]:
        sys.modules.pop(order["module"], None)
        runpy.run_module(order["module"], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as leaving:
    code = leaving.code
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
except BaseException:
    traceback.print_exc()
    code = 1
threading._shutdown()  # as at the end of any Python, but for taking its objects apart
atexit._run_exitfuncs()
sys.stdout.flush()
sys.stderr.flush()
os._exit(code or 0)
"""


class ForkingProcess:
    """Forks what its program says; one of each kind per process of the tests."""

    def __init__(self, program: str) -> None:
        self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.folder = Path(tempfile.mkdtemp(prefix="forking"))
        with theirs, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(str(self.door))
            door.listen()
            numbers = [theirs.fileno(), door.fileno()]
            argv = [sys.executable, "-P", "-c", _LOOP + program, *map(str, numbers)]
            self._process = subprocess.Popen(
                argv,
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"]},
            )
        atexit.register(self._end)

    @property
    def door(self) -> Path:
        """The socket through which programs that are no tests ask as they do."""
        return self.folder / "door"

    def fork(self, *files: int) -> int:
        """The pid of a fresh process that has these descriptors. `wait` for it is due."""
        socket.send_fds(self._asked, [b"fork"], files)
        return self._answer()

    def wait(self, pid: int, *, options: int = 0) -> int | None:
        """Its exit code, minus the number of the signal that ended it; None: it still runs."""
        self._asked.send(struct.pack("=qq", pid, options))
        code = self._answer()
        return None if code == _RUNNING else code

    def _answer(self) -> int:
        return int(_ANSWER.unpack(self._asked.recv(_ANSWER.size))[0])

    def _end(self) -> None:
        self._asked.close()
        self._process.wait()
        rmtree(self.folder, ignore_errors=True)


@cache
def forked_launchers() -> ForkingProcess:
    """Its processes are launchers, as an agent forks one. `fork(socket)`."""
    return ForkingProcess(_LAUNCHERS)


@cache
def _forked_commands() -> ForkingProcess:
    return ForkingProcess(_COMMANDS)


@cache
def forked_python() -> str:
    """A Python for whoever starts one: SDKs, terminals, and swarm itself.

    `FILE ARGUMENT …` runs in a forked process; swarm, if that is what it runs, starts itself in the
    same way. The program that was started waits for it, passes signals on, takes it along when
    it is killed, and ends as it does. Anything else is Python as it is.
    """
    forking = _forked_commands()
    program = forking.folder / "python"
    program.write_text(f"#!{sys.executable} -IS\n{_PLACEHOLDER.read_text()}")
    program.chmod(0o755)
    return str(program)


class Files(NamedTuple):
    """Descriptors of the standard files, and what keeps its number.

    Without one, standard input is /dev/null.
    """

    stdout: int
    stderr: int
    stdin: int | None = None
    inherited: Sequence[int] = ()


class Setting(NamedTuple):
    """What a program finds; without a user or a umask, those of the tests."""

    environment: Mapping[str, str]
    cwd: Path
    user: int | None = None
    umask: int | None = None
    python: str | None = None  # what the program starts when it starts Python; None: Python


class ForkedCommand:
    """A Python program that runs in a forked process; as much of `trio.Process` as is needed.

    `argv` begins with the program's file.
    """

    def __init__(self, argv: Sequence[str], files: Files, setting: Setting) -> None:
        told = {
            **setting._asdict(),
            "argv": list(argv),
            "inherited": list(files.inherited),
            "environment": dict(setting.environment),
            "cwd": str(setting.cwd),
            "leads": None,
            "module": None,
            "terminal": None,
        }
        with ExitStack() as opened:
            order = opened.enter_context(open(os.memfd_create("order"), "wb+"))
            order.write(marshal.dumps(told))
            order.seek(0)
            if (stdin := files.stdin) is None:
                stdin = opened.enter_context(Path(os.devnull).open("rb")).fileno()
            given = (stdin, files.stdout, files.stderr, *files.inherited)
            self.pid = _forked_commands().fork(order.fileno(), *given)
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """As of `trio.Process`; it is reaped only here."""
        if self._code is None:
            self._code = _forked_commands().wait(self.pid, options=os.WNOHANG)
        return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Its end is waited for, as that of `subprocess.Popen`."""
        self.wait_outside_trio(limit_s=60)

    async def wait(self) -> int:
        while (code := self.returncode) is None:
            handle = os.pidfd_open(self.pid)
            try:
                await trio.lowlevel.wait_readable(handle)
            finally:
                os.close(handle)
        return code

    def wait_outside_trio(self, *, limit_s: float) -> int:
        """Raises TimeoutExpired, when it has been killed."""
        if self._code is not None:
            return self._code
        handle = os.pidfd_open(self.pid)
        ended, _, _ = select.select([handle], [], [], limit_s)
        os.close(handle)
        if not ended:
            os.kill(self.pid, signal.SIGKILL)
        code = self._code = _forked_commands().wait(self.pid)
        if code is None or not ended:
            raise subprocess.TimeoutExpired("a forked program", limit_s)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class PipedCommand(ForkedCommand):
    """One that reads and writes through pipes; what it says on standard error is the tests'."""

    def __init__(self, argv: Sequence[str], setting: Setting) -> None:
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        setting = setting._replace(python=forked_python())
        super().__init__(argv, Files(theirs_out, 2, theirs_in), setting)
        os.close(theirs_in)
        os.close(theirs_out)
        self.stdin = trio.lowlevel.FdStream(ours_in)
        self.stdout = trio.lowlevel.FdStream(ours_out)


_SANDBOX = "from swarm.worker.programs.sandbox_command import main; raise SystemExit(main())"


def run_sandbox(
    words: Sequence[str], *, environment: Mapping[str, str], user: int | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `swarm sandbox` with these words to its end; as another user if one is named."""
    with tempfile.NamedTemporaryFile("w+", suffix=".py") as program:
        program.write(_SANDBOX)
        program.flush()
        Path(program.name).chmod(0o644)
        setting = Setting(environment, Path.cwd(), user)
        return run_program([program.name, *words], setting)


def run_program(
    argv: Sequence[str], setting: Setting, *, stdin: bytes = b"", limit_s: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run a Python program to its end, as `subprocess.run` does."""
    with ExitStack() as opened:
        given, out, err = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        files = Files(out.fileno(), err.fileno(), given.fileno() if stdin else None)
        code = ForkedCommand(argv, files, setting).wait_outside_trio(limit_s=limit_s)
        for said in (out, err):
            said.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read().decode(), err.read().decode())


async def run_forked(
    argv: Sequence[str], *, environment: Mapping[str, str], folder: Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a Python program to its end, as `trio.run_process` does: killed if this is cancelled.

    `folder` keeps what it prints.
    """
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        files = Files(out.fileno(), err.fileno())
        command = ForkedCommand(argv, files, Setting(environment, cwd or Path.cwd()))
        try:
            code = await command.wait()
        finally:
            command.kill()
            with trio.CancelScope(shield=True):
                await command.wait()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(argv, code, out.read(), err.read())
