"""Commits of an agent in a copy: found by git's own names, packed as git reads them, bounded."""

import os
import subprocess
import zlib
from pathlib import Path

import pytest

from support.project_copy import CopiedProject
from swarm.supervisor.parts.copies import agent_commits
from swarm.supervisor.parts.copies.agent_commits import CommitsUnreadable, find_commits, read_packs
from swarm.supervisor.parts.copies.agent_tree import make_agent_tree, shown_in_place
from swarm.supervisor.parts.copies.copy_folder import AgentCopy, CopiedRoot


def git(folder: Path, *words: str, stdin: bytes = b"") -> str:
    settings = ("-c", "user.name=x", "-c", "user.email=x@x")
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, input=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


class Copied:
    """A repository, and an agent's tree of it with one commit."""

    def __init__(self, folder: Path) -> None:
        self.project = CopiedProject(folder)
        self.top = self.project.root
        self.project.write({"a": "a\n"})
        git(self.top, "init", "-q", "-b", "main")
        git(self.top, "add", "-A")
        git(self.top, "commit", "-qm", "base")
        self.project.freeze()
        root = CopiedRoot(path=str(self.top), mode=0o755)
        self.tree = self.project.folder.agent_tree("mason")
        base = self.project.folder.tree(1, 0)
        survey = self.project.survey
        make_agent_tree(base, survey, shown_in_place(str(self.top), survey), self.tree)
        self.copy = AgentCopy(agent_id="mason", path="/root/mason", base=1, roots=(root,),
                              cwd=str(self.top), tree=str(self.tree))  # fmt: skip
        (self.tree / "a").write_text("b\n")

    def commit(self) -> None:
        git(self.tree, "commit", "-qam", "mine")

    def find(self):
        return find_commits(self.project.folder, self.copy, str(self.top))


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def test_an_agent_that_committed_nothing_has_no_commits(copied):
    assert copied.find() is None


@pytest.mark.parametrize("how", ["loose", "packed", "detached", "packed refs"])
def test_git_takes_the_commits_over_however_they_are_stored(copied, how):
    copied.commit()
    if how == "detached":
        git(copied.tree, "checkout", "-q", "--detach")
    if how == "packed refs":
        git(copied.tree, "pack-refs", "--all")
    if how == "packed":
        git(copied.tree, "repack", "-dlq")
    found = copied.find()
    assert found is not None
    assert found.tip == git(copied.tree, "rev-parse", "HEAD")
    assert found.start == git(copied.top, "rev-parse", "HEAD")
    for pack in read_packs(found):
        git(copied.top, "index-pack", "--stdin", "--strict", stdin=pack)
    assert git(copied.top, "show", f"{found.tip}:a") == "b"
    git(copied.top, "fsck", "--strict")


@pytest.mark.parametrize(
    "text",
    ["ref: refs/../../outside", "ref: /etc/passwd", "ref: refs/heads//main", "x" * 40, "",
     "ref: refs/heads/missing", "ref: refs/heads/main\0"],
)  # fmt: skip
def test_a_head_that_names_no_ref_of_the_copy_leads_nowhere(copied, text):
    copied.commit()
    (copied.tree / ".git/HEAD").write_text(text)
    assert copied.find() is None


def test_a_ref_is_not_read_through_a_link(copied, tmp_path):
    copied.commit()
    ref = copied.tree / ".git/refs/heads/main"
    (tmp_path / "outside").write_text(ref.read_text())
    ref.unlink()
    ref.symlink_to(tmp_path / "outside")
    assert copied.find() is None


def plant(copied: Copied, data: bytes) -> None:
    folder = copied.tree / ".git/objects/ab"
    folder.mkdir(exist_ok=True)
    (folder / ("0" * 38)).write_bytes(data)


@pytest.mark.parametrize(
    "data",
    [b"no zlib", zlib.compress(b"blob 5\0abc"), zlib.compress(b"other 3\0abc"),
     zlib.compress(b"blob 99999999999999\0abc"), zlib.compress(b"")],
)  # fmt: skip
def test_an_object_that_is_none_is_an_error_and_no_pack(copied, data):
    copied.commit()
    plant(copied, data)
    with pytest.raises(CommitsUnreadable):
        list(read_packs(copied.find()))


def test_an_object_that_unpacks_to_more_than_fits_is_not_unpacked(copied, monkeypatch):
    monkeypatch.setattr(agent_commits, "_MOST_BYTES", 1 << 16)
    copied.commit()
    plant(copied, zlib.compress(b"blob %d\0" % (1 << 24) + bytes(1 << 24)))
    with pytest.raises(CommitsUnreadable, match="more than"):
        list(read_packs(copied.find()))


def test_links_and_other_names_among_the_objects_do_not_count(copied, tmp_path):
    copied.commit()
    (tmp_path / "secret").write_bytes(zlib.compress(b"blob 6\0secret"))
    folder = copied.tree / ".git/objects/ab"
    folder.mkdir(exist_ok=True)
    (folder / ("1" * 38)).symlink_to(tmp_path / "secret")
    (folder / "tmp_obj_x").write_bytes(b"no object")
    (copied.tree / ".git/objects/cd").symlink_to(tmp_path)
    os.mkfifo(folder / ("2" * 38))
    assert b"secret" not in b"".join(read_packs(copied.find()))
