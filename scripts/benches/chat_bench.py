"""The conversation's figures: start, words to request, key to screen, cost of a client and of a
run that waits.

A conversation runs on a pseudo-terminal, and is typed into as a person would.
"""

import asyncio
import contextlib
import fcntl
import http.client
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlparse

import yaml
from bench_harness import SWARM, cpu_seconds, model_server, newest_run, swarm_home
from measurements import Row
from process_watch import tree_cpu_seconds

PROMPT, KEY = "› ".encode(), "ж"  # a letter that nothing else prints
AGENTS, CLIENTS = 40, 4
_LIMIT_S = 120.0
_REST_S = 3.0  # the processes of the agents end after the last answer


class ChatTerminal:
    """A conversation on a pseudo-terminal of 80×24. `read_until` reads what it draws."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def type(self, text: str) -> float:
        """When the last byte was handed over."""
        os.write(self._fd, text.encode())
        return time.monotonic()

    def read_until(self, words: bytes, limit_s: float = _LIMIT_S) -> float:
        """When these bytes had come. Raises TimeoutError."""
        seen, end = b"", time.monotonic() + limit_s
        while words not in seen:
            if not select.select([self._fd], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"{words!r} never came")
            seen = seen[-4_096:] + os.read(self._fd, 65_536)
        return time.monotonic()

    def drain(self, quiet_s: float) -> None:
        """Read until nothing has come for so long, at most two seconds."""
        end = time.monotonic() + 2.0
        while time.monotonic() < end and select.select([self._fd], [], [], quiet_s)[0]:
            os.read(self._fd, 65_536)


@contextmanager
def chat_terminal(
    environment: dict[str, str], cwd: str, *options: str
) -> Iterator[tuple[ChatTerminal, float]]:
    """The terminal, and when the program was started. The conversation ends with the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    began = time.monotonic()
    chat = subprocess.Popen(
        [*SWARM, "chat", *options], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
        env={**environment, "TERM": "xterm-256color", "CI": ""}, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield ChatTerminal(ours), began
    finally:
        chat.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            chat.wait(10)
        chat.kill()
        chat.wait()
        os.close(ours)


def measure(*, quick: bool) -> Iterator[Row]:
    """Every row; the streaming agents are one run."""
    yield start_to_prompt(5 if quick else 15)
    yield words_to_request(8 if quick else 30)
    yield from beside_streaming_agents(20 if quick else 100, 5.0 if quick else 15.0)
    yield waiting_run(20.0 if quick else 60.0)


def start_to_prompt(rounds: int) -> Row:
    times: list[float] = []
    with swarm_home("http://127.0.0.1:9") as environment, tempfile.TemporaryDirectory() as cwd:
        for _ in range(rounds):
            with chat_terminal(environment, cwd) as (terminal, began):
                times.append((terminal.read_until(PROMPT) - began) * 1000)
    return Row.of("swarm chat, start to prompt", times, 300, "ms")


def words_to_request(turns: int) -> Row:
    """Enter to the first byte of the request, in a run that waits for words."""
    typed: list[float] = []
    with (
        model_server("answer") as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        with chat_terminal(environment, cwd) as (terminal, _):
            terminal.read_until(PROMPT)
            for number in range(turns + 1):
                terminal.type(f"words {number}")
                terminal.drain(0.15)
                typed.append(terminal.type("\r"))
                terminal.read_until(b"tokens \xe2\x80\x94")
                terminal.drain(0.3)
        echo = [_echo(server.url) for _ in range(20)]
        end_run(environment)
        began = [one["began"] for one in server.seen()["requests"]][:-20]
    # The first words start the run; they are measured as `start of swarm run`.
    times = [(at - sent) * 1000 for sent, at in zip(typed[1:], began[1:], strict=False)]
    row = Row.of("words typed to first byte of the request", times, None, "ms")
    floor = sorted(echo)[len(echo) // 2]
    return row._replace(limit=floor + 30, floor=floor)


def _echo(url: str) -> float:
    """The same from within one process: a request of its own to the server, in milliseconds."""
    place = urlparse(url)
    began = time.monotonic()
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
    connection.request("POST", f"{place.path}/responses", body=b'{"input":[],"tools":[]}')
    connection.getresponse().read(1)
    connection.close()
    return (time.monotonic() - began) * 1000


def beside_streaming_agents(keys: int, span_s: float) -> Iterator[Row]:
    """A key's way to the screen, and what a client costs the supervisor, while all agents talk."""
    with (
        swarm_home("http://127.0.0.1:9") as environment,
        tempfile.TemporaryDirectory() as cwd,
        streaming_run(environment, cwd) as pid,
    ):
        alone = share_of_core(pid, span_s)
        with feed_clients(environment, cwd):
            shared = share_of_core(pid, span_s)
        run = newest_run(environment).name
        with chat_terminal(environment, cwd, run) as (terminal, _):
            terminal.read_until(b"Esc stops")  # it is attached
            terminal.drain(0.05)
            yield Row.of(
                f"key to screen, {AGENTS} agents streaming", key_times(terminal, keys), 16, "ms"
            )
        what = f"supervisor's cost of a client, {AGENTS} agents streaming"
        yield Row(what, max(shared - alone, 0.0) / CLIENTS, 1, "%", floor=None)
        yield Row("… of its own, without a client", alone, None, "%")


def key_times(terminal: ChatTerminal, keys: int) -> Iterator[float]:
    for _ in range(keys):
        sent = terminal.type(KEY)
        yield (terminal.read_until(KEY.encode()) - sent) * 1000
        terminal.type("\x15")  # Ctrl-U
        terminal.drain(0.03)  # the frames are 100 ms apart


def share_of_core(pid: int, span_s: float) -> float:
    """Processor time of a process in percent of one core."""
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(span_s)
    return 100 * (cpu_seconds(pid) - before) / (time.monotonic() - began)


@contextmanager
def streaming_run(environment: dict[str, str], cwd: str) -> Iterator[int]:
    """The process of a supervisor whose agents all stream 30 pieces a second."""
    spawns = [
        {"name": "spawn_agent", "arguments": {"task_name": f"a{n}", "message": "talk"}}
        for n in range(AGENTS)
    ]
    names = [f"a{n}" for n in range(AGENTS)]
    waits = [{"name": "wait_agent", "arguments": {"targets": names}}]
    talk = {"agent": "/root/*", "text": "some words " * 8_000, "chunk_chars": 11}
    script = Path(cwd) / "script.yaml"
    turns = [
        {"agent": "/root", "calls": spawns},
        {"agent": "/root", "calls": waits, "repeat": "forever"},
        {**talk, "chunk_delay_s": 1 / 30},
    ]
    script.write_text(yaml.safe_dump({"turns": turns}))
    run = subprocess.Popen(
        [*SWARM, "run", "-p", "talk", f"--provider=scripted:{script}", "--json",
         f"--max-agents={AGENTS + 1}", "-s", "danger-full-access", "--keep-open"],
        env=environment, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not list((Path(environment["SWARM_HOME"]) / "state" / "runs").glob("*/run.json")):
            time.sleep(0.05)
        asyncio.run(wait_streaming(environment))
        yield run.pid
    finally:
        end_run(environment)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(20)
        run.kill()
        run.wait()


async def wait_streaming(environment: dict[str, str]) -> None:
    """Until each of the agents has said something."""
    from swarm.mailbox.protocol.control import TransientEvent
    from swarm.supervisor.clients.client import attach_run

    end, speaking = time.monotonic() + _LIMIT_S, set[str]()
    async with attach_run(environment=environment) as run:
        while not run.is_alive:  # noqa: ASYNC110 - a lock says nothing
            await asyncio.sleep(0.05)
        async with contextlib.aclosing(run.events(after=None)) as events:
            async for event in events:
                if isinstance(event, TransientEvent):
                    speaking.add(event.agent)
                if len(speaking) >= AGENTS:
                    return
                if time.monotonic() > end:
                    raise TimeoutError(f"only {len(speaking)} agents stream")


_READER = """
import asyncio, contextlib, sys
from swarm.supervisor.clients.client import attach_run

async def read(number):
    async with attach_run() as run, contextlib.aclosing(run.events(after=None)) as events:
        async for _ in events:
            pass

async def main():
    await asyncio.gather(*(read(number) for number in range(int(sys.argv[1]))))

asyncio.run(main())
"""


@contextmanager
def feed_clients(environment: dict[str, str], cwd: str) -> Iterator[None]:
    """Clients that read every event, in a process of their own."""
    command = [SWARM[0], "-P", "-c", _READER, str(CLIENTS)]
    readers = subprocess.Popen(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL)
    time.sleep(3.0)  # they attach
    if readers.poll() is not None:
        raise RuntimeError("the clients did not stay")
    try:
        yield
    finally:
        readers.kill()
        readers.wait()


def waiting_run(span_s: float) -> Row:
    """Processor time of all processes of a run that waits for words."""
    with idle_run() as pid:
        before, began = tree_cpu_seconds(pid), time.monotonic()
        time.sleep(span_s)
        used = tree_cpu_seconds(pid) - before
        share = 100 * used / (time.monotonic() - began)
    return Row("a run that waits for words, all its processes", share, 0.1, "%", floor=None)


@contextmanager
def idle_run() -> Iterator[int]:
    """A run that has answered and waits for words; its supervisor's pid. It ends with the block."""
    with (
        model_server("answer") as server,
        swarm_home(server.url) as environment,
        tempfile.TemporaryDirectory() as cwd,
    ):
        words = ["run", "-p", "hello", "--keep-open", "--json", "-s", "danger-full-access"]
        run = subprocess.Popen(
            [*SWARM, *words], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            assert run.stdout is not None
            any(b'"run.idle"' in line for line in run.stdout)
            time.sleep(_REST_S)
            yield run.pid
        finally:
            end_run(environment)
            run.wait(20)


def end_run(environment: dict[str, str]) -> None:
    """End the newest run."""
    name = newest_run(environment).name
    subprocess.run([*SWARM, "kill", name], env=environment, capture_output=True, check=False)
