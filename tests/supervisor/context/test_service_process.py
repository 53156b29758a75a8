"""A service process counts once it has proven itself, and is killed when silent. Virtual time."""

from types import SimpleNamespace

import pytest
import trio

from swarm.mailbox.protocol.events import Heartbeat, Hello, decode_event, encode_event
from swarm.supervisor.context.service_process import ServiceProcess
from swarm.supervisor.processes.child_spec import ChildSpec

HELLO = Hello(secret=b"s", pid=7, protocol_version=1)
BEAT = Heartbeat(progress=1, busy=False)


class RecordedService:
    """A service whose process is a record of its kills."""

    def __init__(self) -> None:
        self.kills: list[float] = []
        self.acknowledged, self.admitted = 0, list[tuple[bytes, int]]()
        mailbox = SimpleNamespace(
            admit=lambda peer, *, epoch: self.admitted.append((peer, epoch)),
            dismiss=self.admitted.remove,
            acknowledge=lambda message: self._count(),
        )
        running = SimpleNamespace(
            run_id="r", mailbox=mailbox, is_proven=lambda identity, hello: hello.secret == b"s"
        )
        spec = ChildSpec(start=self._start, on_end=lambda: None)
        self.process = ServiceProcess(running, "service", spec, prefix="x")

    async def _start(self):
        self.process.admit(3)
        return SimpleNamespace(kill_group=lambda: self.kills.append(trio.current_time()))

    def _count(self) -> None:
        self.acknowledged += 1

    def receive(self, event):
        return self.process.read(SimpleNamespace(body=encode_event(event)), decode_event)


@pytest.fixture
async def service():
    made = RecordedService()
    await made.process.loop.start()
    return made


async def test_its_identity_names_run_and_epoch(service):
    assert service.process.identity == b"x/r/3"
    assert service.admitted == [(b"x/r/3", 3)]


async def test_its_events_count_only_after_its_own_hello(service):
    assert service.receive(BEAT) is None
    assert service.receive(HELLO) is None
    assert service.receive(BEAT) == BEAT
    assert (service.acknowledged, service.kills) == (2, [])  # the caller acknowledges the event


@pytest.mark.parametrize("hellos", [[Hello(secret=b"?", pid=7, protocol_version=1)], [HELLO] * 2])
async def test_a_wrong_or_a_second_hello_kills_it(service, hellos):
    for hello in hellos:
        service.receive(hello)
    assert len(service.kills) == 1


async def test_an_unreadable_message_is_acknowledged_and_dropped(service):
    assert service.process.read(SimpleNamespace(body=b"\xff"), decode_event) is None
    assert service.acknowledged == 1


@pytest.mark.parametrize(("has_said_hello", "limit_s"), [(True, 10), (False, 30)])
async def test_it_is_killed_when_it_is_silent(service, autojump_clock, has_said_hello, limit_s):
    if has_said_hello:
        service.receive(HELLO)
    for _ in range(35):
        await trio.sleep(1)
        service.process.kill_if_silent()
    assert service.kills[0] == limit_s + 1
