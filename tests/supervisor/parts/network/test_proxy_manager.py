"""The network proxy is replaced when it dies, with a warning. Virtual time, a fake process."""

from types import SimpleNamespace

import msgspec
import trio

from support.team_in_memory import open_team
from swarm.mailbox.protocol.events import Hello, Warned
from swarm.mailbox.protocol.proxy import (
    NetworkAsked,
    NetworkTarget,
    encode_proxy_event,
)
from swarm.mailbox.protocol.values.base import PROTOCOL_VERSION
from swarm.mailbox.protocol.values.limits import NetworkPolicy
from swarm.supervisor.parts.network.proxy_manager import ProxyManager
from swarm.supervisor.processes.process_types import ProcessEnd, SpawnError


class FakeProxies:
    """Starts proxies that live until their event in `ends` is set; a decider that never answers."""

    def __init__(self) -> None:
        self.specs, self.ends, self.withdrawn = [], [], 0

    async def start(self, spec, *, title, keys=None):
        self.specs.append(spec)
        end = trio.Event()
        self.ends.append(end)
        if len(self.specs) == 3:
            raise SpawnError("no process")

        async def wait_ended():
            await end.wait()
            return ProcessEnd(reason="killed by SIGKILL")

        return SimpleNamespace(wait_ended=wait_ended, kill_group=end.set)

    async def decide(self, agent, request):
        try:
            await trio.sleep_forever()
        finally:
            self.withdrawn += 1


async def test_a_dead_proxy_is_replaced_its_questions_end_and_a_failed_start_is_final(
    tmp_path, autojump_clock
):
    fake = FakeProxies()
    async with open_team(tmp_path, {}) as team, trio.open_nursery() as nursery:
        request = msgspec.structs.replace(team.running.request, network=NetworkPolicy())
        running = team.running._replace(request=request)
        manager = ProxyManager(running, nursery, fake, fake, first_epoch=7)
        nursery.start_soon(manager.run)
        await trio.sleep(1)
        spec = fake.specs[0]
        assert (spec.epoch, spec.identity) == (8, manager.process.identity)
        hello = Hello(secret=spec.secret, pid=1, protocol_version=PROTOCOL_VERSION)
        target = NetworkTarget(host="a.test", port=443, protocol="https")
        for event in (hello, NetworkAsked(question=1, agent="/root", target=target)):
            body = encode_proxy_event(event)
            manager.on_message(SimpleNamespace(peer=spec.identity, body=body, seq=0))
        await trio.sleep(1)
        fake.ends[0].set()
        await trio.sleep(1)
        assert (len(fake.specs), fake.withdrawn) == (2, 1)
        fake.ends[1].set()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
        warned = [body.message for body in team.bodies(Warned)]
    again = "the network proxy ended and is started again: killed by SIGKILL"
    assert warned == [again, again, "no network proxy could be started: no process"]
