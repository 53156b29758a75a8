"""What the fork-server does once so that no agent has to: lives lived in memory, gaps filled.

What runs for the first time writes to memory: caches fill, code is specialised, classes learn
their subclasses. Done here it is done once, on pages that all agents share; done there, each agent
pays a millisecond and half a megabyte for it. Guards: no thread, no descriptor and no Trio run is
left of it, and whatever goes wrong in it harms nobody.
"""

import ctypes
import gc
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import msgspec
import trio

from swarm.mailbox.pair import PairOffice, open_pair_office
from swarm.mailbox.post import Mailbox
from swarm.mailbox.protocol.events import Goodbye, TurnCompleted, decode_event
from swarm.mailbox.protocol.items import text_message
from swarm.mailbox.protocol.limits import Limits
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
    RoleBrief,
    ShellEnvironmentPolicy,
    decode_spec,
    encode_spec,
)

from .agent import lock_rules
from .exec.environment import command_environment
from .exec.launcher import Launcher
from .exec.sessions import open_exec_sessions
from .gathering import codes_that_run, gather_code
from .life import live
from .policy.words import load_grammar
from .sandbox.probe import probe_sandbox
from .tools.belt import Toolbelt
from .tools.exec_command import ExecCommandArguments
from .tools.write_stdin import WriteStdinArguments

_LIMIT_S = 1.0  # for one life, which takes two or three milliseconds
_LIVES = 8  # of new code: as often it is run before CPython specialises it
_LARGEST_SMALL_BYTES, _CLASS_BYTES, _POOL_BYTES = 512, 16, 16 * 1024  # CPython's small objects
_BYTES_HEADER = 33
_BLOCKS = tuple(size - 8 for power in range(16, 4, -1) for size in (3 << power - 1, 1 << power))
_MOST_BLOCKS = 20_000  # of one size
_MOST_FILLERS = 6_000
_WITH_SOCKETS = frozenset(
    {
        "swarm.mailbox.dealer",
        "swarm.mailbox.polled",
        "swarm.mailbox.wire",
        "swarm.worker.agent",
        "swarm.worker.boot",
        "swarm.worker.lifeline",
        "swarm.worker.exec.launcher",
        "swarm.worker.exec.orders",
        "swarm.worker.sandbox.landlock",
    }
)
_ME = b"a/nobody/1"
_SPEC = AgentSpec(
    run_id="nobody",
    agent_id="nobody",
    path="/root",
    epoch=1,
    role=RoleBrief(),
    limits=Limits(),
    cwd="/",
    endpoint="",
    identity=_ME,
    secret=b"",
    gateway_endpoint="",
    gateway_token=b"",
    tmp_dir="",
    environment={},
)
_log = logging.getLogger("swarm.worker")
_fillers: list[list[object]] = []


def prepare_thoroughly() -> Iterator[None]:
    """Some 80 ms in steps of 3 to 20 once an agent is born; between two another may be forked."""
    load_grammar()
    work_out_commands()
    yield
    probe_sandbox()  # what it finds is inherited; an agent would try it again for 10 ms
    yield
    _leave_no_gaps()
    yield
    codes = codes_that_run(_live_and_lock)
    yield
    gather_code(codes, also=_WITH_SOCKETS)
    del codes  # later it would be a gap
    for _ in range(_LIVES):
        yield
        _live_and_lock()
    yield
    _leave_no_gaps()


def work_out_commands() -> None:
    """What the first command of an agent works out for all: patterns of names, shapes of calls."""
    command_environment({}, ShellEnvironmentPolicy(), {})
    for shape in (ExecCommandArguments, WriteStdinArguments):
        msgspec.json.Decoder(shape)


def _live_and_lock() -> None:
    live_in_memory()
    lock_rules("/", ("/proc/self",))  # what a locked agent works out for itself


def _leave_no_gaps() -> None:
    gc.collect()  # what it frees is a gap as well
    fill_gaps()
    fill_heap()


def live_in_memory() -> None:
    """Live a life of one question and one answer, from Hello to Goodbye.

    Never raises and never takes more than a second. Call it in a process of one thread
    without a signal wake-up descriptor.
    """
    try:
        trio.run(_live_once)
    except Exception:
        _log.warning("a life in memory failed; agents take a little more", exc_info=True)


def fill_gaps() -> None:
    """Leave no room between the objects that exist, so that an agent's own lie side by side.

    A small object is put into the gaps of half-used pools first; in a forked child each gap is
    another page to copy. The fillers are kept for ever: some 200 KB in one process.
    """
    fillers: list[object] = []
    for size in range(3 * _CLASS_BYTES, _LARGEST_SMALL_BYTES + 1, _CLASS_BYTES):
        last = in_a_row = 0
        wanted, most = _POOL_BYTES // size - 6, len(fillers) + _MOST_FILLERS
        while in_a_row < wanted and len(fillers) < most:  # until a whole fresh pool is used up
            filler = bytes(size - _BYTES_HEADER)
            fillers.append(filler)
            in_a_row = in_a_row + 1 if id(filler) - last == size else 0
            last = id(filler)
    fillers.extend(float(number) for number in range(4_000))  # the two smallest sizes: the count
    fillers.extend(object() for _ in range(2_000))  # above needs integers of that size itself
    _fillers.append(fillers)


def fill_heap() -> None:
    """The same for the C library's heap: what is free there is taken, so new blocks lie at its end.

    A block in a gap writes to that page and to its neighbours' headers. The blocks are kept for
    ever: what was free anyway, a megabyte or two in one process. Without glibc nothing is done.
    """
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
        libc.malloc.argtypes = (ctypes.c_size_t,)
        libc.free.argtypes = (ctypes.c_void_p,)
        libc.sbrk.argtypes = (ctypes.c_ssize_t,)
        libc.malloc_trim(0)
        end = libc.sbrk(0)
        for size in _BLOCKS:
            for _ in range(_MOST_BLOCKS):
                block = libc.malloc(size)
                if block is None or block >= end:  # the gaps of this size are used up
                    libc.free(block)
                    break


async def _live_once() -> None:
    with trio.move_on_after(_LIMIT_S):
        async with (
            open_pair_office() as supervisor,
            open_pair_office() as gateway,
            trio.open_nursery() as nursery,
        ):
            supervisor.admit(_ME, epoch=1)
            gateway.admit(_ME, epoch=1)
            nursery.start_soon(_answer, gateway)
            nursery.start_soon(_live, supervisor, gateway)
            await supervisor.post(_ME, encode_op(_words()))
            while True:
                letter = await supervisor.receive()
                supervisor.handled(letter)
                match decode_event(letter.body):
                    case TurnCompleted():
                        await supervisor.post(_ME, encode_op(Shutdown()))
                    case Goodbye():
                        break
                    case _:
                        pass
            nursery.cancel_scope.cancel()


async def _live(supervisor: PairOffice, gateway: PairOffice) -> None:
    @asynccontextmanager
    async def dial(_endpoint: str) -> AsyncIterator[Mailbox]:
        yield gateway.connect(_ME, epoch=1)

    spec = decode_spec(encode_spec(_SPEC))
    assert isinstance(spec, AgentSpec)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        async with open_exec_sessions(Launcher(ours), spec) as commands:
            await live(spec, supervisor.connect(_ME, epoch=1), dial, Toolbelt(spec, commands))


async def _answer(gateway: PairOffice) -> None:
    """Be a gateway whose model has one thing to say."""
    while True:
        letter = await gateway.receive()
        gateway.handled(letter)
        match decode_sample_op(letter.body):
            case OpenConversation():
                model = ModelInfo(slug="nobody", provider="nobody", wire="responses")
                await gateway.post(_ME, encode_sample_event(ConversationOpened(model=model)))
            case SampleRequest(request_id=number):
                started = SampleItemStarted(request_id=number, item_id="1", kind="message")
                delta = TextDelta(request_id=number, item_id="1", delta="Done.")
                gateway.pass_on(_ME, encode_sample_event(started))
                gateway.pass_on(_ME, encode_sample_event(delta))
                item = text_message("assistant", "Done.")
                done = SampleItemDone(request_id=number, item=item)
                await gateway.post(_ME, encode_sample_event(done))
                await gateway.post(_ME, encode_sample_event(SampleCompleted(request_id=number)))
            case _:
                pass


def _words() -> UserInput:
    return UserInput(input_id="nobody", parts=(TextInput(text="Be ready."),))
