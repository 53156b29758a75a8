"""What of an agent's copy travels to a machine."""

import pytest

from swarm.mailbox.base.shipped_tree import layer_tree, shipped_tree
from swarm.mailbox.protocol.spec import CopyMount, LiveFolder
from swarm.supervisor.parts.copies.copy_folder import AgentCopy, CopiedRoot
from swarm.supervisor.parts.hosts.placement.copy_shipment import ship_order

LIVE = ("a/deps", ".venv", ".git/objects")


def order(*patterns):
    root = CopiedRoot(path="/p", mode=0o755, live=tuple((name, 0o755) for name in LIVE))
    copy = AgentCopy(agent_id="x", path="/root/x", base=3, roots=(root,), cwd="/p")
    own = tuple(LiveFolder(name=name, upper=f"/up/{name}", work="/w") for name in LIVE)
    mount = CopyMount(path="/p", base="/b", upper="/up", work="/w", live=own)
    return ship_order(1, "lab/a", copy, (mount,), patterns)


@pytest.mark.parametrize(
    ("patterns", "travel"),
    [
        ((), []),
        (("deps",), ["/p/a/deps"]),
        (("a/*",), ["/p/a/deps"]),
        (("*",), ["/p/a/deps", "/p/.venv"]),
    ],
)
def test_ignored_folders_travel_by_name_or_pattern_and_gits_objects_always(patterns, travel):
    folders = order(*patterns).folders
    assert [one.path for one in folders] == [*travel, "/p/.git/objects"]
    assert [one.grows for one in folders] == [False] * len(travel) + [True]
    assert [one.tree for one in folders] == [shipped_tree(one.path) for one in folders]


def test_what_an_agent_wrote_travels_and_so_do_its_commits():
    sent = {one.tree: one.path for one in order().layers}
    assert sent == {
        layer_tree("x", 0): "/up",
        layer_tree("x", 0, ".git/objects"): "/up/.git/objects",
    }
