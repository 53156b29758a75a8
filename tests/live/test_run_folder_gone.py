"""What a run stands on is taken away in mid-run: it says so and ends, or mends it."""

import os
import shutil
import signal
from pathlib import Path

import msgspec
import pytest
import trio

from swarm.mailbox.base.ids import short_id
from swarm.mailbox.base.process_tree import is_zombie
from swarm.mailbox.protocol.records import GatewayEnded
from swarm.supervisor.runs.folder_watch import RunOwner
from swarm.supervisor.runs.leftovers import Leftovers, end_leftovers, find_leftovers
from swarm.supervisor.runs.paths import UserPaths, find_user_paths

pytestmark = pytest.mark.live
LIMIT_S = 40
STAY = {"name": "exec_command", "arguments": {"cmd": "echo once >> runs; sleep 308"}}
UNTIL = {"name": "exec_command",
         "arguments": {"cmd": "until test -e go; do sleep 0.05; done; echo went"}}  # fmt: skip


async def in_mid_call(rig, call=STAY):
    run = await rig.run(rig.script({"calls": [call]}, {"text": "after: {last_output}"}))
    await rig.wait_call()
    return run


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def move(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def make_again(folder: Path) -> None:
    kept = folder.parent.parent / "kept"
    folder.rename(kept)
    shutil.copytree(kept, folder)


@pytest.mark.parametrize("take_away", [remove, move, make_again])
async def test_a_run_whose_folder_is_taken_away_says_so_and_ends(rig, take_away):
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig)
        folder, sockets = rig.places.folder, rig.places.sockets
        alive = rig.alive()
        take_away(folder)
        ended = await run.wait_end()
    assert ended.code == 1, ended.err
    assert str(folder) in ended.err
    assert "Traceback" not in ended.err
    assert all(map(is_zombie, alive))
    assert not sockets.exists()


async def test_a_run_whose_folder_of_sockets_is_deleted_ends_and_can_be_resumed(rig):
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig)
        sockets = rig.places.sockets
        shutil.rmtree(sockets)
        ended = await run.wait_end()
        assert ended.code == 1, ended.err
        assert str(sockets) in ended.err
        assert "swarm resume" in ended.err
        assert rig.alive() == {}
        ended = await (await rig.resume()).wait_end()
    assert ended.code == 0, ended.err
    assert (rig.work / "runs").read_text() == "once\n"


async def test_a_gateway_whose_socket_is_deleted_is_replaced(rig):
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig, UNTIL)
        (socket,) = rig.places.sockets.glob("g*")
        socket.unlink()
        await rig.wait(lambda: rig.bodies(GatewayEnded))
        (rig.work / "go").touch()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
    assert str(socket) in ended.err


async def test_a_signal_in_the_first_moment_leaves_nothing_behind(rig):
    """Before anything is made it may simply die; from then on it ends in order."""
    with trio.fail_after(LIMIT_S):
        run = await rig.run(rig.script({"text": "never", "delay_s": 300}))
        await rig.wait(lambda: rig.has_run)
        run.process.send_signal(signal.SIGTERM)
        ended = await run.wait_end()
    assert ended.code == 143, ended.err
    assert rig.completed.status == "terminated"
    assert not rig.places.sockets.exists()
    assert rig.alive() == {}


def lost_of(rig, run: str) -> tuple[UserPaths, Leftovers]:
    """What is found of this run alone: others on this machine are nobody's business here."""
    places = find_user_paths(rig.environment)
    found = find_leftovers(places)
    mine = tuple(one for one in found.processes if one.run == run)
    return places, Leftovers(processes=mine, folders=found.folders)


async def test_a_supervisor_that_cannot_end_itself_any_more_is_found_and_ended(rig):
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig)
        folder, sockets, name = rig.places.folder, rig.places.sockets, short_id(rig.run_id)
        alive = rig.alive()
        os.kill(run.pid, signal.SIGSTOP)
        shutil.rmtree(folder)
        places, found = lost_of(rig, name)
        assert run.pid in {one.pid for one in found.processes}
        assert found.folders == (str(sockets),)
        ended = end_leftovers(found, places)
        assert run.pid in {one.pid for one in ended.processes}
        assert await run.process.wait() == -signal.SIGKILL
        await rig.wait(lambda: all(map(is_zombie, alive)))
    assert not sockets.exists()


async def test_a_supervisor_whose_folder_is_there_is_nobodys_leftover(rig):
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig, UNTIL)
        _, found = lost_of(rig, short_id(rig.run_id))
        assert found == Leftovers()
        (rig.work / "go").touch()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err


async def test_a_process_that_another_number_or_start_is_told_of_is_no_supervisor(rig):
    """Neither a number used again nor a folder that is there makes anybody a leftover."""
    with trio.fail_after(LIMIT_S):
        run = await in_mid_call(rig, UNTIL)
        owner = rig.places.owner_file
        told = msgspec.json.decode(owner.read_bytes(), type=RunOwner)
        gone = str(rig.folder / "runs" / rig.run_id)
        for lie in (
            msgspec.structs.replace(told, started=told.started + 1, folder=gone),
            msgspec.structs.replace(told, folder=str(rig.folder / "another")),
        ):
            owner.write_bytes(msgspec.json.encode(lie))
            assert lost_of(rig, short_id(rig.run_id))[1].processes == ()
        (rig.work / "go").touch()
        ended = await run.wait_end()
    assert ended.code == 0, ended.err
