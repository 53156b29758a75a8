"""Merges of agents' changes: what is clean, what conflicts, and that real git says the same."""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.project_copy import CopiedProject, fill, layer_of, whiteout
from swarm.supervisor.parts.copies import merge_plan
from swarm.supervisor.parts.copies.merge_apply import MergeStale, apply_merge
from swarm.supervisor.parts.copies.merge_plan import MergeImpossible, plan_merge
from swarm.supervisor.parts.undo.content_store import ContentStore

BASE = "".join(f"line {number}\n" for number in range(20))
HISTORIES = int(os.environ.get("SWARM_MERGE_HISTORIES", "40"))


@pytest.fixture
def project(tmp_path: Path) -> CopiedProject:
    made = CopiedProject(tmp_path)
    made.write({"text": BASE, "other": "o\n", "sub/x": "x\n", "bin": b"\0one"})
    made.freeze()
    return made


def plan(project: CopiedProject, *names: str, **resolved: bytes):
    store = ContentStore(project.paths.file_copies)
    contents = {str(project.root / name): data for name, data in resolved.items()}
    changes = [project.change_of(name, store) for name in names]
    return plan_merge(changes, store, resolved=contents)


def merge(project: CopiedProject, *names: str, **resolved: bytes):
    made = plan(project, *names, **resolved)
    assert made.conflicts == ()
    return apply_merge(made, ContentStore(project.paths.file_copies), lambda body, agent: None)


def whys(made) -> dict[str, str]:
    return {Path(one.path).name: one.why for one in made.conflicts}


def test_two_agents_that_change_different_lines_of_a_file_are_both_in_it(project):
    fill(project.add_agent("one"), {"text": BASE.replace("line 2\n", "LINE 2\n")})
    fill(project.add_agent("two"), {"text": BASE.replace("line 17\n", "LINE 17\n")})
    merge(project, "one", "two")
    text = (project.root / "text").read_text()
    assert "LINE 2\n" in text
    assert "LINE 17\n" in text
    assert text.count("\n") == 20


def test_the_same_line_is_a_conflict_that_names_the_other_agent(project):
    fill(project.add_agent("one"), {"text": BASE.replace("line 2\n", "LINE 2\n")})
    fill(project.add_agent("two"), {"text": BASE.replace("line 2\n", "zeile 2\n")})
    (found,) = plan(project, "one", "two").conflicts
    assert (found.agent, found.others, found.hunks) == ("/root/two", ("/root/one",), 1)
    assert found.why == "both sides changed the same lines"


def test_a_file_in_conflict_becomes_what_was_given_for_it_whoever_comes_after(project):
    for name, word in (("one", "1"), ("two", "2"), ("three", "3")):
        changed = BASE.replace("line 2\n", f"{word}\n")
        fill(project.add_agent(name), {"text": changed, "other": f"{word}\n"})
    whiteout(project.add_agent("four") / "other")
    agents = ("one", "two", "three", "four")
    half = plan(project, *agents, text=b"all\n")
    assert {Path(one.path).name for one in half.conflicts} == {"other"}
    merge(project, *agents, text=b"all\n", other=b"kept\n")
    assert (project.root / "text").read_bytes() == b"all\n"
    assert (project.root / "other").read_bytes() == b"kept\n"


def test_only_a_conflict_of_files_can_be_resolved_by_a_content(project):
    fill(project.add_agent("one"), {"text": "one\n"})
    with pytest.raises(MergeImpossible, match="text is in no conflict"):
        plan(project, "one", text=b"x")
    (project.add_agent("two") / "sub").symlink_to("text")
    project.write({"sub/mine": "m"})
    with pytest.raises(MergeImpossible, match="sub is in no conflict"):
        plan(project, "two", sub=b"x")


def test_what_a_person_changed_since_is_kept_or_a_conflict(project):
    fill(project.add_agent("one"), {"text": BASE.replace("line 2\n", "LINE 2\n"), "other": "1\n"})
    project.write({"text": BASE.replace("line 17\n", "mine\n"), "other": "mine\n"})
    made = plan(project, "one")
    assert [(Path(one.path).name, one.others) for one in made.conflicts] == [("other", ())]
    (project.root / "other").write_text("o\n")
    merge(project, "one")
    assert "mine\n" in (project.root / "text").read_text()


def test_the_same_change_on_both_sides_is_there_already(project):
    fill(project.add_agent("one"), {"other": "new\n"})
    fill(project.add_agent("two"), {"other": "new\n"})
    made = plan(project, "one", "two")
    assert [(step.files, step.already) for step in made.steps] == [(1, 0), (0, 1)]


def test_a_deletion_and_a_change_of_one_file_conflict(project):
    whiteout(project.add_agent("one") / "other")
    fill(project.add_agent("two"), {"other": "new\n"})
    assert whys(plan(project, "one", "two")) == {"other": "it changes what was deleted since"}
    assert whys(plan(project, "two", "one")) == {"other": "it deletes what was changed since"}


def test_two_changes_of_a_file_that_is_no_text_conflict(project):
    fill(project.add_agent("one"), {"bin": b"\0two"})
    fill(project.add_agent("two"), {"bin": b"\0three"})
    assert whys(plan(project, "one", "two")) == {"bin": "both sides changed it, and it is not text"}


def test_a_folder_that_somebody_filled_meanwhile_stays_with_what_is_in_it(project):
    whiteout(project.add_agent("one") / "sub")
    project.write({"sub/mine": "m"})
    merge(project, "one")
    assert os.listdir(project.root / "sub") == ["mine"]


def test_a_link_in_place_of_a_folder_that_somebody_filled_is_a_conflict(project):
    (project.add_agent("one") / "sub").symlink_to("text")
    project.write({"sub/mine": "m"})
    assert whys(plan(project, "one")) == {"sub": "the folder holds mine, which nobody removed"}


def test_a_link_that_stands_where_a_folder_was_is_never_followed(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    fill(project.add_agent("one"), {"sub/y": "y"})
    shutil.rmtree(project.root / "sub")
    (project.root / "sub").symlink_to(outside)
    (found,) = plan(project, "one").conflicts
    assert found.why == f"{project.root}/sub is not a folder any more"
    assert list(outside.iterdir()) == []


def test_a_link_of_one_agent_does_not_lead_a_file_of_another_out(project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    upper = project.add_agent("one")
    (upper / "sub").symlink_to(outside)
    fill(project.add_agent("two"), {"sub/y": "y"})
    assert plan(project, "one", "two").conflicts
    assert plan(project, "two", "one").conflicts


def test_a_change_that_is_not_whole_is_not_merged(project, monkeypatch):
    monkeypatch.setattr("swarm.supervisor.parts.copies.layer_change._MAX_DEPTH", 1)
    fill(project.add_agent("one"), {"1/2/3/4": "x"})
    with pytest.raises(MergeImpossible, match="cannot be read"):
        plan(project, "one")


def test_modes_merge_apart_from_contents(project):
    upper = project.add_agent("one")
    fill(upper, {"text": BASE})
    (upper / "text").chmod(0o755)
    fill(project.add_agent("two"), {"text": BASE + "more\n"})
    merge(project, "one", "two")
    assert (project.root / "text").read_text() == BASE + "more\n"
    assert (project.root / "text").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("changed", ["tools/agents/x", "tools/agents", "tools"])
def test_nothing_is_merged_behind_a_protected_link_or_over_where_it_leads(project, changed):
    (project.root / ".claude").symlink_to("tools/agents")
    upper = project.add_agent("one")
    fill(upper, {changed: "evil", "other": "new\n"})
    found = plan(project, "one").conflicts
    assert {one.why for one in found} == {"it lies behind a protected name"}
    assert f"{project.root}/{changed}" in {one.path for one in found}


def test_nothing_is_merged_into_a_git_folder_that_a_file_names(project):
    project.write({".git": "gitdir: store\n", "store/config": "c\n"})
    fill(project.add_agent("one"), {"store/config": "evil"})
    assert whys(plan(project, "one")) == {"config": "it lies behind a protected name"}


def test_a_protected_link_that_comes_after_the_plan_stops_the_merge(project):
    fill(project.add_agent("one"), {"sub/x": "new\n"})
    made = plan(project, "one")
    (project.root / ".claude").symlink_to("sub")
    with pytest.raises(MergeStale):
        apply_merge(made, ContentStore(project.paths.file_copies), lambda body, agent: None)
    assert (project.root / "sub/x").read_text() == "x\n"


def test_texts_over_the_limit_are_not_even_read(project, monkeypatch):
    monkeypatch.setattr(merge_plan, "MAX_TEXT_BYTES", 10)
    monkeypatch.setattr(ContentStore, "read_bytes", None)
    fill(project.add_agent("one"), {"text": BASE + "one\n"})
    project.write({"text": BASE + "mine\n"})
    assert whys(plan(project, "one"))["text"].startswith("both sides changed it, and it has more")


def test_a_plan_that_takes_too_long_is_given_up(project, monkeypatch):
    monkeypatch.setattr(merge_plan, "PLAN_LIMIT_S", -1.0)
    fill(project.add_agent("one"), {"other": "new\n"})
    with pytest.raises(MergeImpossible, match="merge fewer agents at once"):
        plan(project, "one")


# --- real git ------------------------------------------------------------------------------------

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
_NAMES = ("a", "b", "d/a", "d/b", "d/e/c", "f/g", "with space", "ä", "bin", "tool")


def git(folder: Path, *words: str, may_fail: bool = False) -> str:
    settings = ("user.name=x", "user.email=x@x", "merge.renames=false", "core.autocrlf=false",
                "diff.renames=false", "commit.gpgsign=false")  # fmt: skip
    command = ["git", *(word for one in settings for word in ("-c", one)), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=not may_fail)
    return done.stdout.decode()


def make_text(rng: random.Random) -> bytes:
    end = b"\r\n" if rng.random() < 0.15 else b"\n"
    lines = [b"%d" % rng.randrange(50) for _ in range(rng.randrange(1, 30))]
    return end.join(lines) + (b"" if rng.random() < 0.15 else end)


def edit(rng: random.Random, data: bytes) -> bytes:
    if b"\0" in data:
        return b"\0" + bytes(rng.randrange(256) for _ in range(8))
    lines = data.split(b"\n")
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(len(lines))
        match rng.randrange(3):
            case 0:
                lines[place] = b"edit %d" % rng.randrange(4)
            case 1:
                lines.insert(place, b"new %d" % rng.randrange(4))
            case _ if len(lines) > 1:
                del lines[place]
            case _:
                pass
    return b"\n".join(lines)


def change_tree(rng: random.Random, folder: Path) -> None:
    """What an agent may do: edits, adds, deletes, renames, modes, links."""
    for _ in range(rng.randrange(1, 5)):
        path = folder / rng.choice(_NAMES)
        is_file = path.is_file() and not path.is_symlink()
        match rng.randrange(7):
            case 0 | 1 | 2 if is_file:
                path.write_bytes(edit(rng, path.read_bytes()))
            case 3 if os.path.lexists(path) and not path.is_dir():
                path.unlink()
            case 4 if is_file:
                path.chmod(path.stat().st_mode ^ 0o111)
            case 5 if is_file:
                other = folder / rng.choice(_NAMES)
                if not os.path.lexists(other) and other.parent.is_dir():
                    path.rename(other)
            case 6 if not os.path.lexists(path) and path.parent.is_dir():
                path.symlink_to(rng.choice(("a", "b")))
            case _ if not os.path.lexists(path) and _can_hold(folder, path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(make_text(rng))
            case _:
                pass
    for below in sorted(folder.rglob("*"), reverse=True):
        if below.is_dir() and not below.is_symlink() and not any(below.iterdir()):
            below.rmdir()  # git keeps no empty folder


def _can_hold(folder: Path, path: Path) -> bool:
    above = path.parent
    while above != folder:
        if os.path.lexists(above) and (above.is_symlink() or not above.is_dir()):
            return False
        above = above.parent
    return True


def tree(folder: Path) -> dict[str, tuple[str, bytes, bool]]:
    found: dict[str, tuple[str, bytes, bool]] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if name.split("/")[0] == ".git":
            continue
        if path.is_symlink():
            found[name] = ("link", os.fsencode(path.readlink()), False)
        elif path.is_file():
            found[name] = ("file", path.read_bytes(), bool(path.stat().st_mode & 0o100))
    return found


@needs_git
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_generated_history_merges_as_real_branches_do(tmp_path, seed):
    rng = random.Random(seed)
    project = CopiedProject(tmp_path)
    for name in _NAMES:
        if rng.random() < 0.7:
            project.write({name: b"\0base" if name == "bin" else make_text(rng)})
    project.write({"always": "x\n"})
    project.freeze()
    repository = tmp_path / "repository"
    shutil.copytree(project.root, repository)
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "base")
    agents = [f"agent{number}" for number in range(rng.randrange(2, 6))]
    for name in agents:
        wanted = tmp_path / name
        shutil.copytree(project.root, wanted, symlinks=True)
        change_tree(rng, wanted)
        layer_of(project.root, wanted, project.add_agent(name))
        git(repository, "checkout", "-qb", name, "main")
        for path in [one for one in repository.iterdir() if one.name != ".git"]:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(wanted, repository, symlinks=True, dirs_exist_ok=True)
        git(repository, "add", "-A")
        git(repository, "commit", "-qm", name, "--allow-empty")
    git(repository, "checkout", "-q", "main")
    for name in agents:
        git(
            repository,
            "merge",
            "-q",
            "--no-edit",
            "-s",
            "recursive",
            "-X",
            "no-renames",
            name,
            may_fail=True,
        )
        theirs = set(git(repository, "-c", "core.quotePath=false", "diff", "--name-only",
                         "--diff-filter=U").split("\n")) - {""}  # fmt: skip
        made = plan(project, name)
        ours = {os.path.relpath(one.path, project.root) for one in made.conflicts}
        assert bool(ours) == bool(theirs), (name, ours, theirs)
        theirs = {one.partition("~")[0] for one in theirs}  # git's second name for a path
        if ours:
            assert ours == theirs
            return
        merge(project, name)
        assert tree(project.root) == tree(repository), name
