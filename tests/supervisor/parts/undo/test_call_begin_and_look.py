"""A call that may change files waits for one reply: its begin is written and its files recorded."""

import pytest
import trio

from support.team_in_memory import calls, open_team, says
from swarm.mailbox.protocol.events import CallBegan
from swarm.mailbox.protocol.requests import FilesWatched, WatchFiles
from swarm.supervisor.parts.undo.live.change_watcher import ChangeWatcher
from swarm.worker.testing.fake_tools import FakeTool


@pytest.mark.parametrize(("disk_s", "look_s"), [(0.0, 2.0), (2.0, 0.0), (2.0, 1.5)])
async def test_a_call_runs_when_its_begin_is_written_and_its_files_are_recorded(
    tmp_path, autojump_clock, monkeypatch, disk_s, look_s
):
    looks, runs = [], []

    async def look(self, agent, request):
        looks.append((trio.current_time(), request))
        await trio.sleep(look_s)
        return FilesWatched()

    async def run(self, verdict, listen):
        began = team.bodies(CallBegan, "/root")
        runs.append((trio.current_time(), began))
        return await do(self, verdict, listen)

    do = FakeTool.run
    monkeypatch.setattr(ChangeWatcher, "call_starting", look)
    monkeypatch.setattr(FakeTool, "run", run)
    scripts = {"/root": [calls(("edit", {})), says("done")]}
    async with open_team(tmp_path, scripts, disk_s=disk_s) as team:
        with trio.fail_after(100):
            await team.begin()
            assert (await team.service.wait_done()).state == "completed"
    ((looked_at, request),) = looks
    ((ran_at, (begun,)),) = runs
    turn, call = begun.turn_id, begun.call_id
    assert request == WatchFiles(turn_id=turn, call_id=call, paths=("/f",))
    assert begun.watch is None  # a record does not hold it
    assert ran_at - looked_at >= look_s
    # Both at once; an earlier write may have to end first.
    assert ran_at - looked_at < max(2 * disk_s, look_s) + 0.2
