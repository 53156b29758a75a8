"""What shows through layers is told without a mount; the change of a copy of a copy is its own."""

import os
import random
from pathlib import Path

import msgspec
import pytest

from support.project_copy import CopiedProject, fill, layer_of, whiteout
from swarm.mailbox.base.overlay_marks import OPAQUE
from swarm.supervisor.parts.copies.layer_stack import LayerStack, layered_names
from swarm.supervisor.parts.copies.merge_plan import plan_merge
from swarm.supervisor.parts.copies.merge_target import CopyTarget
from swarm.supervisor.parts.undo.content_store import ContentStore

NAMES = ("a", "b", "c", "d")


def grow(rng: random.Random, folder: Path, depth: int = 0) -> None:
    """Add, change and remove entries of a tree of a few names."""
    for name in rng.sample(NAMES, rng.randint(1, 4)):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            if rng.random() < 0.6:
                grow(rng, path, depth + 1)
                continue
            for root, folders, files in os.walk(path, topdown=False):
                for one in files:
                    Path(root, one).unlink()
                for one in folders:
                    found = Path(root, one)
                    found.unlink() if found.is_symlink() else found.rmdir()
            path.rmdir()
        elif os.path.lexists(path):
            path.unlink()
        match rng.randint(0, 3 if depth < 3 else 1):
            case 0:
                path.write_text(f"{rng.random()}")
            case 1:
                path.symlink_to(rng.choice(NAMES))
            case 2:
                path.mkdir()
                grow(rng, path, depth + 1)
            case _:
                pass


def copy_of(folder: Path, into: Path) -> Path:
    os.system(f"cp -a {folder} {into}")
    return into


def shown(folder: Path) -> dict[str, str]:
    found = {}
    for path in folder.rglob("*"):
        is_plain = path.is_file() and not path.is_symlink()
        text = (
            f"-> {path.readlink()}" if path.is_symlink() else path.read_text() if is_plain else "/"
        )
        found[str(path.relative_to(folder))] = text
    return found


def text_at(place: str) -> str:
    path = Path(place)
    return (
        f"-> {path.readlink()}"
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else "/"
    )


@pytest.mark.parametrize("seed", range(40))
def test_it_tells_what_a_mount_of_these_layers_would_show(tmp_path, seed):
    rng, root = random.Random(seed), tmp_path.resolve()
    base = root / "base"
    base.mkdir()
    grow(rng, base)
    layers, wanted = [], copy_of(base, root / "wanted-0")
    for number in range(1, 4):
        before, wanted = wanted, copy_of(wanted, root / f"wanted-{number}")
        grow(rng, wanted)
        upper = root / f"upper-{number}"
        upper.mkdir()
        layer_of(before, wanted, upper)
        layers.insert(0, str(upper))
    stack = LayerStack((*layers, str(base)))
    names = shown(wanted)
    told = layered_names(shown(base), layers)
    assert told.keys() == names.keys()
    for name, text in names.items():
        place = stack.find(name)
        assert place is not None and text_at(place) == text
        assert text_at(told[name] or f"{base}/{name}") == text
        if text == "/":
            assert stack.names_in(name) == {*os.listdir(wanted / name)}
    assert stack.names_in("") == {*os.listdir(wanted)}
    for name in (*shown(base), "none", "a/none/b"):
        if name not in names:
            assert stack.find(name) is None


def test_a_link_in_a_layer_leads_nowhere(tmp_path):
    root = tmp_path.resolve()
    (root / "secret").mkdir()
    fill(root / "secret", {"key": "k"})
    fill(root / "base", {"folder/key": "mine"})
    (root / "upper").mkdir()
    (root / "upper" / "folder").symlink_to(root / "secret")
    stack = LayerStack((str(root / "upper"), str(root / "base")))
    assert stack.find("folder/key") is None
    assert stack.names_in("folder") == set()


@pytest.fixture
def project(tmp_path):
    project = CopiedProject(tmp_path)
    project.write({"text": "one\n", "gone": "gone\n", "sub/file": "file\n", "node_modules/x": "x"})
    project.freeze()
    return project


@pytest.fixture
def store(project):
    return ContentStore(project.paths.file_copies)


def copy_below(project: CopiedProject, above: str, name: str) -> Path:
    """A copy of the copy of `above`, whose layer is frozen with it as it is."""
    own = project.add_agent(name)
    found = project.folder.find(name)
    assert found is not None
    copy = msgspec.structs.replace(
        found, above=above, frozen_with=(name,), path=f"/root/{above}/{name}"
    )
    project.folder.add_agent(copy)
    copy_of(project.folder.upper(above, 0), project.folder.frozen(name) / "0" / "made")
    return own


def edits(project, store, name):
    change = project.change_of(name, store)
    return {
        edit.path.removeprefix(f"{project.root}/"): (edit.before.kind, edit.after.kind)
        for edit in change.edits
    }


def test_the_change_of_a_copy_of_a_copy_is_what_differs_from_that_copy(project, store):
    above = project.add_agent("mason")
    fill(above, {"text": "two\n", "new": "new\n", "build/CACHEDIR.TAG": "", "build/o": "o"})
    whiteout(above / "gone")
    own = copy_below(project, "mason", "apprentice")
    fill(own, {"text": "three\n", "gone": "again\n", "build/o": "p", "build/q": "q"})
    whiteout(own / "new")
    assert edits(project, store, "apprentice") == {
        "text": ("file", "file"),
        "gone": ("absent", "file"),
        "new": ("file", "absent"),
    }
    fill(above, {"text": "later\n"})
    before = next(one.before for one in project.change_of("apprentice", store).edits
                  if one.path.endswith("/text"))  # fmt: skip
    assert store.read_bytes(before.sha256) == b"two\n", "its base is frozen"


def test_a_folder_that_the_parent_made_anew_hides_the_base_and_goes_as_a_whole(project, store):
    above = project.add_agent("mason")
    fill(above, {"sub/other": "other\n"})
    os.setxattr(above / "sub", OPAQUE, b"y")
    own = copy_below(project, "mason", "apprentice")
    whiteout(own / "sub")
    assert edits(project, store, "apprentice") == {
        "sub": ("folder", "absent"),
        "sub/other": ("file", "absent"),
    }


def test_a_conflict_with_the_copy_names_it_and_the_project_is_not_asked(project, store):
    above = project.add_agent("mason")
    fill(above, {"text": "two\n"})
    fill(copy_below(project, "mason", "apprentice"), {"text": "three\n", "sub/file": "mine\n"})
    target = CopyTarget(project.folder, project.folder.find("mason"))
    change = project.change_of("apprentice", store)
    project.write({"text": "of the person\n", "sub/file": "of the person\n"})
    plan = plan_merge([change], store, target=target)
    assert not plan.conflicts and plan.target == "the copy of /root/mason"
    assert {after.path.rpartition("/")[2] for _, after in plan.totals} == {"text", "file"}
    fill(above, {"text": "four\n"})
    (conflict,) = plan_merge([change], store, target=target).conflicts
    assert conflict.path.endswith("/text")
    merged = store.read_bytes(conflict.merged).decode()
    assert "the copy of /root/mason" in merged and "/root/mason/apprentice" in merged
