"""A network proxy in this process, a supervisor's end of its mailbox, and commands that use it."""

import shutil
import tempfile
import threading
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import trio

from support.escape_testbed import open_test_launcher
from swarm.mailbox.base.host_patterns import join_port, split_port
from swarm.mailbox.contents.credentials import seal_ticket
from swarm.mailbox.delivery.pair import open_pair_server
from swarm.mailbox.protocol.proxy import (
    NetworkAnswered,
    NetworkAsked,
    NetworkTicket,
    decode_proxy_event,
    encode_proxy_op,
)
from swarm.mailbox.protocol.spec import ProxySpec
from swarm.mailbox.protocol.values.limits import NetworkPolicy, WorkspaceWrite, opens_tunnels
from swarm.worker.exec.command_route import RouteRequest
from swarm.worker.exec.running_command import CommandRequest, start_command
from swarm.worker.parts.network.proxy_process import serve_proxy
from swarm.worker.sandbox.sandbox_plan import plan_sandbox

KEY = b"k" * 32
ME = b"n/run/1"


class RecordingServer(ThreadingHTTPServer):
    """`received` lists what it was asked."""

    daemon_threads = True
    received: list[str]


class Page(BaseHTTPRequestHandler):
    """Says what it was asked, and how."""

    server: RecordingServer

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.answer(f"{self.command} {self.path} host={self.headers['host']}".encode())

    def do_POST(self):
        size = int(self.headers.get("content-length", 0))
        self.answer(b"POST " + self.rfile.read(size))

    def answer(self, body):
        self.server.received.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def serving(handler=Page, *, tls=None):
    """A real HTTP server on loopback."""
    server = RecordingServer(("127.0.0.1", 0), handler)
    server.received = []
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class ProxyTestbed:
    """What a test holds: it runs commands, and answers what the proxy asks."""

    def __init__(self, launcher, supervisor, home):
        self.launcher, self.supervisor, self.home = launcher, supervisor, home
        self.names = {}  # what the resolver knows
        self.asked, self.events = [], []
        self.answers = {}  # host → NetworkAnswered without its number
        self.endpoint = str(home / "sock/n")

    async def resolve(self, host, port):
        return tuple(self.names.get(host, ()))

    async def handle_events(self):
        while True:
            message = await self.supervisor.receive()
            self.supervisor.acknowledge(message)
            event = decode_proxy_event(message.body)
            self.events.append(event)
            if isinstance(event, NetworkAsked):
                self.asked.append((event.agent, event.target.host))
                said = self.answers.get(event.target.host, {"allow": False})
                answer = NetworkAnswered(question=event.question, **said)
                await self.supervisor.post(ME, encode_proxy_op(answer))

    async def start(self, script, policy, *, agent="/root", asks=False, tty=False, argv=None):
        plan = plan_sandbox(
            WorkspaceWrite(), cwd=str(self.home / "work"), tmp_dir=str(self.home / "tmp"),
            hidden_paths=(str(self.home / "sock"), str(self.home / "authority/ca.key")),
            stack="bwrap", proxied=policy,
        )  # fmt: skip
        if opens_tunnels(policy):
            plan = msgspec.structs.replace(plan, ca_bundle=str(self.home / "authority/bundle.pem"))
        ticket = seal_ticket(NetworkTicket(agent=agent, policy=policy, asks=asks), KEY)
        asked = CommandRequest(
            argv=argv or ("/bin/bash", "-c", script), cwd=str(self.home / "work"),
            environment={"PATH": "/usr/bin:/bin"}, sandbox=plan, tty=tty,
            route=RouteRequest(endpoint=self.endpoint, ticket=ticket, command=script),
        )  # fmt: skip
        return await start_command(self.launcher, asked)

    async def run(self, script, policy, **more):
        """Exit code, output, and what was blocked, of a script in the sandbox."""
        command = await self.start(script, policy, **more)
        said = b""
        while chunk := await command.receive():
            said += chunk
        status = await command.wait()
        await command.kill_tree()
        blocked = [(one.target.host, one.reason) for one in command.blocked_requests()]
        command.close()
        return status.exit_code, said.decode(), blocked


@asynccontextmanager
async def open_proxy_testbed(upstream=None, *, opens=False):
    home = Path(tempfile.mkdtemp(prefix="swarm-proxy-", dir="/var/tmp"))
    for name in ("work", "tmp", "sock"):
        (home / name).mkdir()
    try:
        with trio.fail_after(30):
            async with (
                open_pair_server() as supervisor,
                open_test_launcher() as (launcher, _),
                trio.open_nursery() as nursery,
            ):
                testbed = ProxyTestbed(launcher, supervisor, home)
                supervisor.admit(ME, epoch=1)
                spec = ProxySpec(
                    run_id="run", epoch=1, endpoint="", identity=ME, secret=b"s",
                    bind=testbed.endpoint, ticket_key=KEY, upstream=upstream or {},
                    authority=str(home / "authority") if opens else "",
                )  # fmt: skip
                post = supervisor.connect(ME, epoch=1)
                nursery.start_soon(testbed.handle_events)
                nursery.start_soon(serve_proxy, spec, post, testbed.resolve)
                while not any(type(event).__name__ == "ProxyReady" for event in testbed.events):
                    await trio.lowlevel.checkpoint()
                yield testbed
                nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(home)


def local(*allow, **more):
    """A policy under which loopback can be reached by the resolver's names, at any port."""
    return NetworkPolicy(allow=any_port(*allow), allow_local_binding=True, **more)


def any_port(*patterns):
    """The patterns with every port, where they name none."""
    return tuple(one if split_port(one)[1] else join_port(one, "*") for one in patterns)
