"""The gateway's start: a fork-server that answers nothing costs a run no more than a second try."""

from types import SimpleNamespace

import pytest

from support.team_in_memory import open_team
from swarm.mailbox.base.errors import PeerGone
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.supervisor.agents.agent_record import GatewayAddress
from swarm.supervisor.gateway.gateway_manager import GatewayManager
from swarm.supervisor.processes.process_types import StartInterrupted


class LosingStarter:
    """Its fork-server loses so many starts."""

    def __init__(self, lost: int) -> None:
        self.lost, self.epochs = lost, list[int]()

    async def start(self, spec, *, title, keys=None):
        self.epochs.append(spec.epoch)
        if len(self.epochs) <= self.lost:
            raise StartInterrupted("the fork-server said nothing")
        return SimpleNamespace(pid=1)


def gateway_loop(team, starter):
    budget = SimpleNamespace(on_gateway_start=lambda identity: False)
    manager = GatewayManager(
        team.running, GatewayAddress(), budget, starter, places=WritablePlaces(), models_dir=""
    )
    return manager.process.loop


async def test_a_lost_start_of_a_gateway_is_tried_once_more_under_another_identity(
    tmp_path, autojump_clock
):
    async with open_team(tmp_path, {}) as team:
        starter = LosingStarter(lost=1)
        await gateway_loop(team, starter).start()
        assert starter.epochs == [1, 2]
        with pytest.raises(PeerGone):  # the first one's late messages are refused
            await team.server.post(f"g/{team.running.run_id}/1".encode(), b"")


async def test_a_gateway_whose_start_is_lost_twice_is_none(tmp_path, autojump_clock):
    async with open_team(tmp_path, {}) as team:
        with pytest.raises(StartInterrupted):
            await gateway_loop(team, LosingStarter(lost=2)).start()
