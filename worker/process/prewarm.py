"""One-time work of the fork-server that saves every agent memory and time.

Code that runs for the first time writes to memory: caches fill, CPython specialises code, classes
register their subclasses. The fork-server does this once by running sessions in memory, on pages
that all agents share. It leaves no thread, no descriptor and no Trio run, and a session in memory
that fails is only logged.
"""

import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache

import msgspec
import trio

from swarm.mailbox.delivery.interfaces import Mailbox
from swarm.mailbox.delivery.pair import PairServer, open_pair_server
from swarm.mailbox.protocol.events import Goodbye, TurnCompleted, decode_event
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.ops import Shutdown, TextInput, UserInput, encode_op
from swarm.mailbox.protocol.sampling import (
    ConversationOpened,
    ModelInfo,
    OpenConversation,
    SampleCompleted,
    SampleItemDone,
    SampleItemStarted,
    SampleRequest,
    TextDelta,
    decode_sample_op,
    encode_sample_event,
)
from swarm.mailbox.protocol.spec import (
    AgentSpec,
    GatewayAccess,
    RoleBrief,
    ShellEnvironmentPolicy,
    decode_spec,
    encode_spec,
)
from swarm.mailbox.protocol.values.limits import Limits

from ..agent.agent_lifecycle import run_agent_lifecycle
from ..agent.agent_process import agent_lock_rules
from ..base.current_spec import CurrentSpec
from ..exec.command_plan import command_environment
from ..exec.exec_sessions import open_exec_sessions
from ..exec.launcher_client import LauncherClient
from ..policy.shell_parser import load_shell_grammar
from ..sandbox.package_caches import load_package_caches
from ..sandbox.sandbox_probe import probe_sandbox
from ..tools.exec_command import ExecCommandArguments
from ..tools.toolset import Toolset
from ..tools.write_stdin import WriteStdinArguments

_SESSION_LIMIT_S = 1.0  # for one session, which takes two or three milliseconds
SPECIALIZING_RUNS = 8  # CPython specialises code after this many runs
_IDENTITY = b"a/nobody/1"
_SPEC = AgentSpec(
    run_id="nobody",
    agent_id="nobody",
    path="/root",
    epoch=1,
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    endpoint="",
    identity=_IDENTITY,
    secret=b"",
    gateway=GatewayAccess(endpoint="", token=b""),
    tmp_dir="",
    environment={},
)
# One that another agent started: it has further tools.
_MEMBER_SPEC = msgspec.structs.replace(_SPEC, path="/root/nobody", depth=1)
_log = logging.getLogger("swarm.worker")


def run_prewarm_steps() -> Iterator[None]:
    """Run about 80 ms of work in steps of 3 to 20 ms; an agent may be forked between two steps."""
    # Agents inherit this; each would spend 20 ms on its own.
    probe_sandbox()
    load_shell_grammar()
    prewarm_commands()
    for number in range(SPECIALIZING_RUNS):
        yield
        specialize_code(number)


@cache
def specialize_code(number: int) -> None:
    """Run what each agent runs at its start; once for each number, also in what is forked later."""
    run_session_in_memory(_MEMBER_SPEC)
    agent_lock_rules("/", ("/proc/self",))  # what a locked agent computes


def prewarm_commands() -> None:
    """Compute what the first command of an agent needs: name patterns, decoders, a table."""
    command_environment({}, ShellEnvironmentPolicy(), {})
    load_package_caches()
    for shape in (ExecCommandArguments, WriteStdinArguments):
        msgspec.json.Decoder(shape)


def run_session_in_memory(spec: AgentSpec = _SPEC) -> None:
    """Run a session of one question and one answer, from Hello to Goodbye. `spec`: of its agent.

    Never raises and takes at most a second. Call it in a process of one thread without a signal
    wake-up descriptor.
    """
    try:
        trio.run(_run_session, spec)
    except Exception:
        _log.warning(
            "a session in memory failed; each agent takes a little longer to start", exc_info=True
        )


async def _run_session(given: AgentSpec) -> None:
    with trio.move_on_after(_SESSION_LIMIT_S):
        async with (
            open_pair_server() as supervisor,
            open_pair_server() as gateway,
            trio.open_nursery() as nursery,
        ):
            supervisor.admit(_IDENTITY, epoch=1)
            gateway.admit(_IDENTITY, epoch=1)
            nursery.start_soon(_run_gateway, gateway)
            nursery.start_soon(_run_agent, given, supervisor, gateway)
            await supervisor.post(_IDENTITY, encode_op(_user_input()))
            while True:
                message = await supervisor.receive()
                supervisor.acknowledge(message)
                match decode_event(message.body):
                    case TurnCompleted():
                        await supervisor.post(_IDENTITY, encode_op(Shutdown()))
                    case Goodbye():
                        break
                    case _:
                        pass
            nursery.cancel_scope.cancel()


async def _run_agent(given: AgentSpec, supervisor: PairServer, gateway: PairServer) -> None:
    @asynccontextmanager
    async def dial(_endpoint: str) -> AsyncIterator[Mailbox]:
        yield gateway.connect(_IDENTITY, epoch=1)

    spec = decode_spec(encode_spec(given))
    assert isinstance(spec, AgentSpec)
    current = CurrentSpec(spec)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with open_exec_sessions(LauncherClient(ours), current) as commands:
            await run_agent_lifecycle(
                current, supervisor.connect(_IDENTITY, epoch=1), dial, Toolset(current, commands)
            )


async def _run_gateway(gateway: PairServer) -> None:
    """Act as a gateway whose model gives one answer."""
    while True:
        message = await gateway.receive()
        gateway.acknowledge(message)
        match decode_sample_op(message.body):
            case OpenConversation():
                model = ModelInfo(slug="nobody", provider="nobody", wire="responses")
                await gateway.post(_IDENTITY, encode_sample_event(ConversationOpened(model=model)))
            case SampleRequest(request_id=number):
                started = SampleItemStarted(request_id=number, item_id="1", kind="message")
                delta = TextDelta(request_id=number, item_id="1", delta="Done.")
                gateway.send_transient(_IDENTITY, encode_sample_event(started))
                gateway.send_transient(_IDENTITY, encode_sample_event(delta))
                item = text_message("assistant", "Done.")
                done = SampleItemDone(request_id=number, item=item)
                await gateway.post(_IDENTITY, encode_sample_event(done))
                await gateway.post(
                    _IDENTITY, encode_sample_event(SampleCompleted(request_id=number))
                )
            case _:
                pass


def _user_input() -> UserInput:
    return UserInput(input_id="nobody", parts=(TextInput(text="Be ready."),))
