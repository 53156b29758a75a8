"""Trees that come to a node: a base after another one, and one that is not whole."""

import os

import pytest
from msgspec.structs import replace

from support.nested_fields import with_fields
from swarm.mailbox.base.shipped_tree import layer_tree, shipped_tree
from swarm.mailbox.base.tree_pack import TreePacker, TreeRefused
from swarm.mailbox.protocol.spec import CopyMount, LiveFolder
from swarm.supervisor.parts.node.node_paths import NodePaths
from swarm.supervisor.parts.node.node_trees import NodeTrees, TreeBroken
from swarm.worker.testing.fake_tools import FAKE_AGENT_SPEC

FIRST, SECOND = "bases/1/tree-0", "bases/2/tree-0"


@pytest.fixture
def paths(tmp_path):
    return NodePaths(folder=tmp_path / "n", sockets=tmp_path / "s", shown=tmp_path / "shown")


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def spec_on(paths, base, project):
    own = paths.layers("x") / "0"
    mount = CopyMount(
        path=str(project), base=str(paths.tree(base)), upper=str(own / "upper"),
        work=str(own / "work"),
    )  # fmt: skip
    return with_fields(FAKE_AGENT_SPEC, agent_id="x", mounts=(mount,))


def send(trees, tree, folder, *, earlier=None, after=""):
    """As a driver sends it; returns how many bytes went."""
    packer, size = TreePacker(str(folder)), 0
    if earlier is not None:
        packer.follow(str(earlier))
        trees.take(tree, b"", is_last=False, after=after)
    for part in packer.pack():
        trees.take(tree, part, is_last=False)
        size += len(part)
    trees.take(tree, b"", is_last=True)
    return size


def test_of_a_later_base_only_what_is_new_goes_and_the_earlier_one_stays_as_it_was(paths, tmp_path):
    one, two, trees = tmp_path / "one", tmp_path / "two", NodeTrees(paths)
    write(one, {"same": "x" * 100_000, "a/b": "old", "gone": "gone"})
    (one / "link").symlink_to("a")
    two.mkdir()
    (two / "same").hardlink_to(one / "same")  # as local bases share what has not changed
    write(two, {"a/b": "new", "more/c": "c"})
    (two / "link").symlink_to("more")
    send(trees, FIRST, one)
    assert send(trees, SECOND, two, earlier=one, after=FIRST) < 10_000
    first, second = paths.tree(FIRST), paths.tree(SECOND)
    assert sorted(os.listdir(second)) == ["a", "link", "more", "same"]
    assert ((second / "a/b").read_text(), os.readlink(second / "link")) == ("new", "more")
    assert (second / "same").samefile(first / "same")
    assert sorted(os.listdir(first)) == ["a", "gone", "link", "same"]
    assert ((first / "a/b").read_text(), os.readlink(first / "link")) == ("old", "a")


def test_no_agent_starts_on_a_base_that_is_not_whole(paths, tmp_path):
    write(tmp_path / "one", {"a": "a"})
    trees, project = NodeTrees(paths), tmp_path / "project"
    for part in TreePacker(str(tmp_path / "one")).pack():
        trees.take(FIRST, part, is_last=False)
    with pytest.raises(TreeBroken, match="a part of it is missing"):
        trees.make_copy(spec_on(paths, FIRST, project))
    trees.take(FIRST, b"", is_last=True)
    trees.make_copy(spec_on(paths, FIRST, project))


@pytest.mark.parametrize("broken", [FIRST, layer_tree("x", 0)])
def test_what_could_not_be_written_stays_broken_and_so_does_what_follows_it(
    paths, tmp_path, broken
):
    write(tmp_path / "one", {"a": "a"})
    trees, project = NodeTrees(paths), tmp_path / "project"
    if broken != FIRST:
        send(trees, FIRST, tmp_path / "one")
    with pytest.raises(TreeRefused):
        trees.take(broken, b"no part", is_last=False)
    trees.take(broken, b"", is_last=True)
    with pytest.raises(TreeBroken, match="cannot be read"):
        trees.make_copy(spec_on(paths, FIRST, project))
    if broken == FIRST:
        with pytest.raises(TreeRefused, match="cannot be read"):
            trees.take(SECOND, b"", is_last=False, after=FIRST)
        with pytest.raises(TreeBroken):
            trees.make_copy(spec_on(paths, SECOND, project))


def test_agents_start_while_more_of_gits_objects_comes_for_another_one(paths, tmp_path):
    write(tmp_path / "one", {"a": "a"})
    write(tmp_path / "objects", {"aa/1": "1"})
    trees, project = NodeTrees(paths), tmp_path / "project"
    store = shipped_tree(f"{project}/.git/objects")
    send(trees, FIRST, tmp_path / "one")
    send(trees, store, tmp_path / "objects")
    spec = spec_on(paths, FIRST, project)
    live = LiveFolder(
        name=".git/objects", lower=str(paths.tree(store)), upper=str(tmp_path / "u"),
        work=str(tmp_path / "w"),
    )  # fmt: skip
    (mount,) = spec.copy.mounts
    spec = with_fields(spec, mounts=(replace(mount, live=(live,)),))
    write(tmp_path / "objects", {"bb/2": "2"})
    for part in TreePacker(str(tmp_path / "objects"), keeps_gone=True).pack():
        trees.take(store, part, is_last=False)
    trees.make_copy(spec)
