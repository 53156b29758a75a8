"""A tree that is packed and unpacked is the same tree, and a hostile one leaves no folder."""

import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.mailbox.base import tree_pack, tree_unpack
from swarm.mailbox.base.tree_pack import PackedEntry, PackedPart, TreePacker, TreeRefused
from swarm.mailbox.base.tree_unpack import TreeUnpacker

encode = msgspec.msgpack.encode
NAMES = st.sampled_from(["a", "b", "c d", "ä", "-x"])


def seen(root: Path) -> dict[str, object]:
    """What a tree is: by name its kind, mode and contents."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        facts = path.lstat()
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", stat.S_IMODE(facts.st_mode))
        elif stat.S_ISCHR(facts.st_mode):
            found[name] = "whiteout"
        else:
            found[name] = (stat.S_IMODE(facts.st_mode), facts.st_mtime_ns, path.read_bytes())
    return found


def carry(packer: TreePacker, target: Path) -> int:
    count = 0
    with TreeUnpacker(str(target)) as unpacker:
        for message in packer.pack():
            unpacker.take(message)
            count += 1
    return count


def clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def test_a_sparse_file_arrives_whole_and_sparse(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    with (source / "image").open("wb") as file:
        file.seek(3_000_001)
        file.write(b"middle")
        file.truncate(9_000_000)
    carry(TreePacker(str(source)), target)
    assert (target / "image").read_bytes() == (source / "image").read_bytes()
    assert (target / "image").stat().st_blocks * 512 < 1 << 20


@st.composite
def histories(draw):
    step = st.tuples(
        st.sampled_from(["file", "folder", "link", "whiteout", "remove", "mode"]),
        st.lists(NAMES, min_size=1, max_size=3),
        st.binary(max_size=40),
    )
    return draw(st.lists(st.lists(step, max_size=8), min_size=1, max_size=4))


def apply(root: Path, step) -> None:
    kind, names, data = step
    path = root.joinpath(*names)
    above = path.parent
    while above != root and not above.is_dir():
        clear(above) if above.is_symlink() or above.exists() else None
        above = above.parent
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "mode":
            if path.is_file() and not path.is_symlink():
                path.chmod(0o755)
        case "remove":
            clear(path)
        case "folder":
            if not path.is_dir() or path.is_symlink():
                clear(path)
                path.mkdir()
        case "file":
            clear(path)
            path.write_bytes(data)
        case "link":
            clear(path)
            path.symlink_to("../elsewhere")
        case "whiteout":
            clear(path)
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_after_each_pack_the_copy_is_the_tree(tmp_path_factory, rounds):
    base = tmp_path_factory.mktemp("tree").resolve()
    source, target = base / "source", base / "target"
    source.mkdir()
    target.mkdir()
    packer = TreePacker(str(source))
    for steps in rounds:
        for step in steps:
            try:
                apply(source, step)
            except (FileExistsError, NotADirectoryError):
                continue
        carry(packer, target)
        assert seen(target) == seen(source)
        assert carry(packer, target) == 0


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(histories())
def test_a_tree_goes_as_a_layer_over_its_base_and_the_layer_makes_the_tree_again(
    tmp_path_factory, rounds
):
    top = tmp_path_factory.mktemp("tree").resolve()
    base, tree, layer = top / "base", top / "tree", top / "layer"
    for folder in (base, layer):
        folder.mkdir()
    for step in rounds[0]:
        with suppress(FileExistsError, NotADirectoryError):
            apply(base, step)
    without_whiteouts(base)
    shutil.copytree(base, tree, symlinks=True)
    packer = TreePacker(str(tree))
    packer.take_as_base()
    for number, steps in enumerate(rounds[1:]):
        for step in steps:
            with suppress(FileExistsError, NotADirectoryError):
                apply(tree, step)
        without_whiteouts(tree)
        carry(packer, layer)
        assert carry(packer, layer) == 0
        again = top / f"again-{number}"
        shutil.copytree(base, again, symlinks=True)
        with TreeUnpacker(str(again), is_tree=True) as unpacker:
            for message in TreePacker(str(layer)).pack():
                unpacker.take(message)
        assert seen(again) == seen(tree)


def without_whiteouts(root: Path) -> None:
    for path in root.rglob("*"):
        if stat.S_ISCHR(path.lstat().st_mode):
            path.unlink()


def test_only_what_differs_from_the_base_is_in_the_layer(tmp_path):
    tree, layer = tmp_path.resolve() / "tree", tmp_path.resolve() / "layer"
    for name in ("same/deep/file", "a/b/changed", "a/gone/file", "skipped/file"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("base")
    layer.mkdir()
    packer = TreePacker(str(tree), left_out=("skipped",))
    packer.take_as_base()
    assert carry(packer, layer) == 0
    (tree / "a" / "b" / "changed").write_text("changed")
    shutil.rmtree(tree / "a" / "gone")
    (tree / "skipped" / "file").write_text("changed")
    carry(packer, layer)
    assert sorted(seen(layer)) == ["a", "a/b", "a/b/changed", "a/gone"]
    assert seen(layer)["a/gone"] == "whiteout"


def test_what_goes_to_who_keeps_everything_takes_nothing_away(tmp_path):
    source, target = tmp_path.resolve() / "source", tmp_path.resolve() / "target"
    for folder in (source, target):
        folder.mkdir()
    (source / "old").write_text("old")
    packer = TreePacker(str(source), keeps_gone=True)
    carry(packer, target)
    (source / "old").unlink()
    (source / "new").write_text("new")
    carry(packer, target)
    assert sorted(os.listdir(target)) == ["new", "old"]


def test_large_files_come_in_pieces_and_opaque_folders_stay_opaque(tmp_path):
    source, target = tmp_path.resolve() / "source", tmp_path.resolve() / "target"
    (source / "folder").mkdir(parents=True)
    target.mkdir()
    (source / "large").write_bytes(os.urandom(3 << 20))
    os.setxattr(source / "folder", "user.overlay.opaque", b"y")
    assert carry(TreePacker(str(source)), target) > 3
    assert seen(target) == seen(source)
    assert os.getxattr(target / "folder", "user.overlay.opaque") == b"y"


@pytest.mark.parametrize(
    "name", [b"../out", b"a/../../out", b"/out", b"a//b", b".", b"a\0b", b"x" * 5000]
)
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    with TreeUnpacker(str(tmp_path.resolve())) as unpacker, pytest.raises(TreeRefused):
        unpacker.take(encode(PackedPart((PackedEntry("file", name),))))


def test_nothing_is_written_through_a_link(tmp_path):
    root, outside = tmp_path.resolve() / "root", tmp_path.resolve() / "outside"
    root.mkdir()
    outside.mkdir()
    link = PackedEntry("link", b"door", target=os.fsencode(outside))
    with TreeUnpacker(str(root)) as unpacker, pytest.raises(OSError, match="door"):
        unpacker.take(encode(PackedPart((link, PackedEntry("file", b"door/evil", 0o644)))))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "part",
    [
        PackedPart((), b"contents of nothing"),
        PackedPart((PackedEntry("file", b"a", size=2),), b"too long"),
        PackedPart((PackedEntry("file", b"a", size=2), PackedEntry("file", b"b"))),
        PackedPart((PackedEntry("file", b""),)),
        PackedPart((PackedEntry("file", b"a", size=-1),)),
    ],
)
def test_parts_that_cannot_be_are_refused(tmp_path, part):
    with TreeUnpacker(str(tmp_path.resolve())) as unpacker, pytest.raises(TreeRefused):
        unpacker.take(encode(part))


def test_what_is_no_part_is_refused(tmp_path):
    with TreeUnpacker(str(tmp_path.resolve())) as unpacker, pytest.raises(TreeRefused):
        unpacker.take(b"\xc1")


def test_a_folder_that_becomes_a_link_while_the_tree_is_walked_shows_nothing_of_where_it_leads(
    tmp_path, monkeypatch
):
    source, outside = tmp_path.resolve() / "source", tmp_path.resolve() / "outside"
    for folder in (source / "a", outside):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("x")
    scan = tree_pack._scan

    def swap(above, path):
        yield from scan(above, path)
        if not above:
            (source / "a").rename(source / "b")
            (source / "a").symlink_to(outside)

    monkeypatch.setattr(tree_pack, "_scan", swap)
    sent = b"".join(TreePacker(str(source)).pack())
    assert b"a" in sent
    assert b"secret" not in sent


def test_a_tree_that_is_reached_through_a_link_is_not_packed(tmp_path):
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(OSError, match="link"):
        list(TreePacker(str(tmp_path.resolve() / "link")).pack())


def test_a_layer_that_is_larger_than_allowed_is_refused_before_anything_goes(tmp_path):
    tree, layer = tmp_path.resolve() / "tree", tmp_path.resolve() / "layer"
    for folder in (tree, layer):
        folder.mkdir()
    (tree / "base").write_bytes(b"x" * 5000)
    packer = TreePacker(str(tree), most_bytes=1000)
    packer.take_as_base()
    (tree / "small").write_bytes(b"x" * 500)
    assert carry(packer, layer) == 1
    with (tree / "huge").open("wb") as huge:
        huge.truncate(9 << 30)
    with pytest.raises(TreeRefused, match="larger than"):
        carry(packer, layer)
    assert sorted(os.listdir(layer)) == ["small"]
    (tree / "huge").unlink()
    assert carry(packer, layer) == 0


def test_the_bounds_of_what_comes_count_for_each_round(tmp_path, monkeypatch):
    monkeypatch.setattr(tree_unpack, "MAX_BYTES", 1000)
    part = encode(PackedPart((PackedEntry("file", b"a", 0o644, size=600),), b"x" * 600))
    with TreeUnpacker(str(tmp_path.resolve())) as unpacker:
        for _ in range(3):
            unpacker.take(part)
            unpacker.end_round()
        unpacker.take(part)
        with pytest.raises(TreeRefused, match="larger than any"):
            unpacker.take(part)
