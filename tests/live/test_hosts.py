"""Agents on other machines: a real Ray cluster whose nodes are processes of this machine."""

import json
import os
import shutil
import signal

import pytest
import trio

from support.copied_agents import LIMIT_S, call, play, project, root, spawn, swarm, turns
from support.ray_lab import HOLD, cluster, joined, kill, let_go, nodes_of, titled, write_host
from swarm.mailbox.protocol.host_records import HostDrained, HostLeft, HostPrepared

__all__ = ["project"]

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="copies need bubblewrap")
pytestmark = [pytest.mark.live, needs_bwrap]

HOSTS = ("--hosts", "lab")
NODE_LIMIT_S = 90


@pytest.fixture(scope="module")
def lab():
    """The address of a cluster of two nodes."""
    with cluster(2, resources={"board": 2}) as made:
        yield made.address


def held_root(*names, **more):
    """The root waits until the test lets it go, then starts these agents and waits for all."""
    first, *rest = root(*names, **more)
    return [{"agent": "/root", "calls": [call("exec_command", cmd=HOLD)]}, first, *rest]


async def start(rig, *script, words=HOSTS):
    return await rig.run(rig.script(*script), *words, sandbox="workspace-write")


async def test_workers_on_two_machines_change_files_that_come_back_and_are_merged(
    rig, project, lab
):
    write_host(rig, lab)
    with trio.fail_after(LIMIT_S):
        started = await start(
            rig,
            *held_root("one", "two"),
            *turns("/root/one", "cat text; echo 1 > of-one; rm gone"),
            *turns("/root/two", "echo 2 > of-two; pwd"),
        )
        await let_go(rig, 2)
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()
    nodes = nodes_of(rig)
    assert nodes["/root"] == ""
    assert len({nodes["/root/one"], nodes["/root/two"]} - {""}) == 2
    assert sorted(os.listdir(project)) == ["go", "gone", "text"]
    assert str(project) in rig.outputs("/root/two")[0]
    await swarm(rig, "merge", rig.run_id, "--yes")
    assert sorted(os.listdir(project)) == ["go", "of-one", "of-two", "text"]


async def test_an_agent_whose_process_is_killed_there_lives_again_with_its_files(rig, project, lab):
    write_host(rig, lab)
    with trio.fail_after(LIMIT_S):
        started = await start(
            rig,
            *root("one"),
            *turns("/root/one", "echo first > made", "sleep 600", "cat made"),
        )
        await rig.wait_call(count=2, agent="/root/one")
        kill(rig.lives("/root/one")[-1].pid)  # the machine is this one
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
    first, second = rig.lives("/root/one")
    assert first.node == second.node != ""
    assert "interrupted" in rig.outputs("/root/one")[1]
    assert "first" in rig.outputs("/root/one")[2]


async def test_what_a_machine_held_goes_on_elsewhere_with_its_files_when_its_node_dies(
    rig, project, lab
):
    write_host(rig, lab)
    with trio.fail_after(NODE_LIMIT_S):
        started = await start(
            rig,
            *held_root("one", "two"),
            *turns("/root/one", "echo first > made", "sleep 600", "cat made"),
            *turns("/root/two", "echo second > other", "sleep 2"),
        )
        await let_go(rig, 2)
        life = await made_is_home(rig)
        kill(held_by(rig, "node", life.pid))
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()
    assert "first" in rig.outputs("/root/one")[2]
    assert len(rig.lives("/root/one")) == 2
    assert rig.bodies(HostLeft)[0].node == life.node


async def test_agents_outlive_the_fork_server_of_their_machine_and_others_start_there(
    rig, project, lab
):
    write_host(rig, lab, slots=2)
    first, second = root("one")[0], root("two")[0]
    with trio.fail_after(NODE_LIMIT_S):
        started = await start(
            rig,
            first,
            {"agent": "/root", "calls": [call("exec_command", cmd=HOLD)]},
            second,
            {
                "agent": "/root",
                "calls": [call("wait_agent", targets=["one", "two"], **{"for": "all"})],
            },
            {"agent": "/root", "text": "done", "repeat": "forever"},
            *turns("/root/one", "echo first > made; until test -e go; do sleep 0.1; done"),
            *turns("/root/two", "echo second > other"),
        )
        await rig.wait_call(agent="/root/one")
        (life,) = rig.lives("/root/one")
        kill(held_by(rig, "fork-server", life.pid))
        (rig.work / "go").touch()
        await rig.wait(lambda: rig.lives("/root/two"))
        kill(life.pid)
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()


async def made_is_home(rig):
    """Its life, once what it made is here and its next command runs."""
    await rig.wait_call(count=2, agent="/root/one")
    (life,) = rig.lives("/root/one")
    await rig.wait(lambda: (upper(rig, life.agent_id) / "made").exists())
    return life


def upper(rig, agent_id):
    return rig.places.copies / "agents" / agent_id / "0" / "upper"


def held_by(rig, title, agent_pid):
    """The process so called above this agent's."""
    return next(pid for pid in titled(rig, title) if pid in ancestors(agent_pid))


def ancestors(pid):
    found = []
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(") ")[2].split()[1])
        found.append(pid)
    return found


async def test_nothing_is_left_anywhere_when_the_supervisor_is_killed(rig, project, lab):
    write_host(rig, lab)
    with trio.fail_after(NODE_LIMIT_S):
        started = await start(
            rig,
            *held_root("one", "two"),
            *turns("/root/one", "sleep 600"),
            *turns("/root/two", "sleep 600"),
        )
        await let_go(rig, 2)
        await rig.wait_call(agent="/root/one")
        await rig.wait_call(agent="/root/two")
        os.kill(started.pid, signal.SIGKILL)
        await rig.wait_gone()


async def test_nothing_is_left_when_the_process_that_drives_machines_is_killed_and_work_goes_on(
    rig, project, lab
):
    write_host(rig, lab)
    with trio.fail_after(NODE_LIMIT_S):
        started = await start(
            rig,
            *held_root("one"),
            *turns("/root/one", "echo first > made", "sleep 600", "cat made"),
        )
        await let_go(rig, 2)
        await made_is_home(rig)
        (driver,) = titled(rig, "hosts")
        kill(driver)
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
        await rig.wait_gone()
    assert "first" in rig.outputs("/root/one")[2]


async def test_a_fan_out_of_readers_goes_to_other_machines(rig, project, lab):
    write_host(rig, lab, slots=2)
    task = rig.folder / "task.md"
    task.write_text(
        "---\nfan_out:\n  each: {lines: 'printf \"a\\nb\\nc\\nd\\n\"'}\n"
        "  prompt: 'Look at {item}.'\n---\nJoin.\n"
    )
    with trio.fail_after(LIMIT_S):
        turn = {"calls": [call("exec_command", cmd="cat gone; touch no")]}
        started = await rig.start(
            "run", str(task), "--provider",
            rig.script(
                *({**turn, "agent": f"/root/{name}"} for name in "abcd"),
                *({"agent": f"/root/{name}", "text": f"saw {name}"} for name in "abcd"),
                {"agent": "/root", "text": "joined"},
            ),
            "-s", "workspace-write", "--plain", *HOSTS,
        )  # fmt: skip
        ended = await started.wait_end()
        assert ended.code == 0, ended.err
    places = nodes_of(rig)
    assert all(places[f"/root/{name}"].startswith("lab/") for name in "abcd")
    assert "gone" in rig.outputs("/root/a")[0]
    assert sorted(os.listdir(project)) == ["gone", "text"]


async def test_a_role_with_resources_runs_where_they_are(rig, project, lab):
    write_host(rig, lab, slots=2)
    roles = rig.home / "agents"
    roles.mkdir()
    (roles / "tester.toml").write_text(
        'name = "tester"\ndescription = "tests"\ndeveloper_instructions = "Test."\n'
        'host = "lab"\nresources = {board = 2}\n'
    )
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", "two", agent_type="tester"),
            *turns("/root/one", "echo 1"),
            *turns("/root/two", "echo 2"),
            words=HOSTS,
        )
    nodes = nodes_of(rig)
    assert "/root/one" in nodes, rig.outputs()
    assert nodes["/root/one"] == nodes["/root/two"]


async def test_a_spawn_takes_what_it_asks_for_of_a_machine_that_has_it(rig, project, lab):
    write_host(rig, lab, slots=2)
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", "two", resources={"board": 1}),
            *turns("/root/one", "echo 1"),
            *turns("/root/two", "echo 2"),
            words=HOSTS,
        )
        log = await swarm(rig, "log")
    nodes = nodes_of(rig)
    assert "/root/one" in nodes, rig.outputs()
    assert nodes["/root/one"] == nodes["/root/two"]
    assert f", on {nodes['/root/one']}" in log


async def test_a_person_drains_a_machine_and_swarm_leaves_it_when_its_agent_is_done(
    rig, project, lab
):
    write_host(rig, lab)
    with trio.fail_after(LIMIT_S):
        started = await start(rig, *held_root("one"), *turns("/root/one", "echo 1 > of-one"))
        await rig.wait(lambda: len(joined(rig)) == 2)
        first, other = sorted(joined(rig))
        told = await swarm(rig, "hosts", "drain", rig.run_id, first.rpartition("-")[2])
        assert "gets no new agents; no agent is there" in told
        await rig.wait(lambda: joined(rig) == {other})
        assert "no machine" in await swarm(rig, "hosts", "drain", rig.run_id, "none", code=1)
        (rig.work / "go").touch()
        assert (await started.wait_end()).code == 0
    assert nodes_of(rig)["/root/one"] == other
    assert joined(rig) == set()
    (drained,) = rig.bodies(HostDrained)
    assert (drained.node, drained.reason) == (first, "a person asked for it")


async def test_a_role_whose_host_the_run_does_not_use_is_refused_with_what_to_do(rig, project, lab):
    write_host(rig, lab)
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            {"agent": "/root", "calls": [spawn("one", host="elsewhere")]},
            {"agent": "/root", "text": "done"},
            words=HOSTS,
        )
    assert "does not use the host `elsewhere`: it may use lab" in rig.outputs()[0]


async def test_a_cluster_that_is_not_there_is_said_at_once(rig, project):
    write_host(rig, "127.0.0.1:1")
    with trio.fail_after(NODE_LIMIT_S):
        await play(
            rig,
            {"agent": "/root", "calls": [spawn("one")]},
            {"agent": "/root", "text": "done"},
            words=HOSTS,
        )
    assert "cannot start on lab: no Ray cluster at 127.0.0.1:1" in rig.outputs()[0]


async def test_ignored_folders_that_the_table_names_travel_too(rig, project, lab):
    write_host(rig, lab, ship='["deps"]')
    (project / ".gitignore").write_text("deps\nother\n")
    for name in ("deps", "other"):
        (project / name).mkdir()
        (project / name / "lib").write_text(f"of {name}\n")
    with trio.fail_after(LIMIT_S):
        await play(
            rig, *root("one"), *turns("/root/one", "cat deps/lib; echo x > deps/lib"), words=HOSTS
        )
    assert "of deps" in rig.outputs("/root/one")[0]
    assert (project / "deps" / "lib").read_text() == "of deps\n"


async def test_commands_make_ignored_folders_there_once_for_all_agents(rig, project, lab):
    (project / "node_modules").mkdir()
    (project / "node_modules" / "here").write_text("only on this machine\n")
    made = "mkdir -p sub/.venv && echo $$ > sub/.venv/id && echo x > node_modules/made"
    write_host(
        rig, lab, slots=2,
        prepare=json.dumps([made, "echo 1 >> count; cat count > node_modules/count"]),
    )  # fmt: skip
    show = "cat sub/.venv/id node_modules/count; ls; echo mine > sub/.venv/mine"
    with trio.fail_after(LIMIT_S):
        await play(
            rig,
            *root("one", "two", resources={"board": 1}),
            *turns("/root/one", show, "ls sub/.venv node_modules"),
            *turns("/root/two", show),
            words=HOSTS,
        )
        log = await swarm(rig, "log")
    (prepared,) = rig.bodies(HostPrepared)
    assert (prepared.node, prepared.problem) == (nodes_of(rig)["/root/one"], "")
    assert f"{prepared.node}: prepared in" in log
    first, second = rig.outputs("/root/one")[0], rig.outputs("/root/two")[0]
    assert first.partition("Output:")[2] == second.partition("Output:")[2]  # made once
    assert "count" not in first.partition("Output:")[2].split()  # no other file shows
    assert {"id", "mine", "made"} <= set(rig.outputs("/root/one")[1].split())
    assert sorted(os.listdir(project)) == ["gone", "node_modules", "text"]


async def test_a_machine_on_which_a_prepare_command_fails_is_left_with_the_reason(
    rig, project, lab
):
    write_host(rig, lab, prepare=json.dumps(["echo no such lock >&2; exit 3"]))
    with trio.fail_after(LIMIT_S):
        await play(rig, *root("one"), words=HOSTS)
    told = rig.outputs("/root")[0]
    assert "ended with exit code 3: no such lock" in told
    assert {one.reason.partition(":")[0] for one in rig.bodies(HostDrained)} == {
        "prepare failed there"
    }


async def test_commands_there_see_nothing_of_nodes_nor_of_runs_of_that_machine(rig, project, lab):
    write_host(rig, lab)
    look = (
        "for one in $(seq 1); do ls ~/.local/state/swarm/nodes/* ~/.local/state/swarm/runs/*; "
        "ls /tmp/swarm-$(id -u)/* $XDG_RUNTIME_DIR/swarm/*; done 2>/dev/null | wc -l; "
        "env | grep -c RAY_"
    )
    with trio.fail_after(LIMIT_S):
        await play(rig, *root("one"), *turns("/root/one", look), words=HOSTS)
    assert "\n0\n0" in rig.outputs("/root/one")[0]
