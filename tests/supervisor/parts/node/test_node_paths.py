"""A node's folders, and an agent's spec as it must be there."""

import os
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from support.nested_fields import with_fields
from swarm.mailbox.base.shipped_tree import shipped_tree
from swarm.mailbox.protocol.spec import CopyMount, LiveFolder
from swarm.mailbox.protocol.values.limits import NetworkPolicy
from swarm.supervisor.parts.node.node_paths import NodePaths, identities, live_mounts, spec_for_node
from swarm.supervisor.runs.paths import find_user_paths
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC


@pytest.fixture
def paths(tmp_path):
    return node_paths(tmp_path, "lab/a")


def places_of(tmp_path):
    return find_user_paths({"SWARM_HOME": str(tmp_path / "h"), "XDG_RUNTIME_DIR": str(tmp_path)})


def node_paths(tmp_path, name, epoch=1):
    run_id = "01a1fc24-7204-710f-b302-2343189d0946"
    return NodePaths.of(places_of(tmp_path), run_id, name, epoch=epoch)


def copied_spec():
    mount = CopyMount(
        path="/project", base="/runs/r/copies/bases/3/tree-0", upper="/u", work="/w",
        live=(LiveFolder(name="deps", upper="/lu", work="/lw"),),
    )  # fmt: skip
    return with_fields(
        FAKE_AGENT_SPEC, agent_id="abc", mounts=(mount,), hidden_paths=("/secret",),
        environment={"HERE": "1"},
    )  # fmt: skip


def test_each_start_of_each_node_on_one_machine_has_folders_of_its_own(tmp_path):
    found = [node_paths(tmp_path, *more) for more in (("lab/a",), ("lab/b",), ("lab/a", 2))]
    assert len({one.folder for one in found}) == 3
    assert len({one.sockets for one in found}) == 3


@pytest.mark.parametrize(
    "name",
    ["", "bases/1", "bases/x/tree-0", "bases/1/tree-x", "agents/../0/upper", "agents/a/0/work",
     "agents/a/0/upper/x", "shipped/..", "shipped/a/b", "/etc", "agents//0/upper"],
)  # fmt: skip
def test_a_tree_of_another_name_is_refused(paths, name):
    with pytest.raises(ValueError, match="no tree"):
        paths.tree(name)


def test_the_spec_has_this_machines_paths_and_hides_what_both_machines_hide(paths, tmp_path):
    paths.make()
    ours = identities(paths, places_of(tmp_path))
    got = spec_for_node(copied_spec(), paths, {"THERE": "1"}, ours)
    (mount,) = got.copy.mounts
    assert mount.path == "/project"
    assert mount.base == str(paths.folder / "copies/bases/3/tree-0")
    assert mount.upper.startswith(str(paths.folder))
    assert mount.live[0].lower == ""
    assert got.environment == {"THERE": "1"}
    assert got.endpoint == paths.supervisor_door
    assert {"/secret", str(paths.folder.parent), str(paths.sockets.parent)} <= {
        *got.guarded.hidden_paths
    }
    paths.tree(shipped_tree("/project/deps")).mkdir(parents=True)
    (mount,) = spec_for_node(copied_spec(), paths, {}, ours).copy.mounts
    assert mount.live[0].lower == str(paths.tree(shipped_tree("/project/deps")))


def test_an_agent_without_a_copy_or_with_the_proxy_is_refused(paths):
    with pytest.raises(ValueError, match="works in a copy"):
        spec_for_node(FAKE_AGENT_SPEC, paths, {}, ())
    spec = copied_spec()
    limits = msgspec.structs.replace(spec.limits, network=NetworkPolicy())
    with pytest.raises(ValueError, match="proxy"):
        spec_for_node(msgspec.structs.replace(spec, limits=limits), paths, {}, ())


def test_what_a_killed_node_left_is_swept_and_a_living_ones_folder_is_not(tmp_path):
    dead, living, here = (node_paths(tmp_path, f"lab/{name}") for name in "abc")
    os.close(dead.make())
    living.make()
    (dead.copies / "left").touch()
    here.make()
    here.sweep()
    assert not dead.folder.exists()
    assert living.folder.is_dir()
    assert here.folder.is_dir()


def test_what_commands_made_in_an_ignored_folder_stays_its_when_others_come_beside_it(paths):
    (mount,) = copied_spec().copy.mounts
    (made,) = live_mounts(paths, mount.path, ["deps"], paths.prepared_of(mount.path))
    Path(made.upper).mkdir(parents=True)
    (paths.prepared_of(mount.path) / "upper").mkdir()
    names = ("a", "deps")
    more = replace(mount, live=tuple(LiveFolder(name=one, upper="", work="") for one in names))
    (got,) = spec_for_node(with_fields(copied_spec(), mounts=(more,)), paths, {}, ()).copy.mounts
    assert got.made == (str(paths.prepared_of(mount.path) / "upper"),)
    assert {one.name: one.made for one in got.live} == {"a": (), "deps": (made.upper,)}
