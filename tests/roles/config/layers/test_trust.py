"""Trust is in a folder with a content; whatever cannot be believed trusts nothing."""

import json
import os
import stat
import subprocess

import pytest

from swarm.roles.config.layers.project_config import ProjectFolder, read_project_folders
from swarm.roles.config.layers.trust import (
    TRUST_FILE,
    TrustNotSaved,
    TrustStore,
    forbidden_by_config,
    forget_trust_decisions,
    read_trust,
    save_trust_decision,
)


def folder(path="/repo", digest="d1", root="/repo", problem=""):
    return ProjectFolder(folder=path, root=root, digest=digest, problem=problem)


def test_a_yes_is_for_this_content_only(tmp_path):
    save_trust_decision(tmp_path, [folder()], trusted=True)
    book = read_trust(tmp_path)
    assert book.trust_state(folder()) == "trusted"
    assert book.trust_state(folder(digest="d2")) == "unknown"
    assert book.trust_state(folder("/repo/sub")) == "unknown"
    assert book.trust_state(folder("/other", root="/other")) == "unknown"


def test_a_no_is_remembered_for_this_content_only_and_can_be_changed(tmp_path):
    save_trust_decision(tmp_path, [folder()], trusted=False)
    assert read_trust(tmp_path).trust_state(folder()) == "declined"
    assert read_trust(tmp_path).trust_state(folder(digest="d2")) == "unknown"
    save_trust_decision(tmp_path, [folder()], trusted=True)
    assert read_trust(tmp_path).trust_state(folder()) == "trusted"
    save_trust_decision(tmp_path, [folder()], trusted=False)
    assert read_trust(tmp_path).trust_state(folder()) == "declined"


def test_what_could_not_be_read_whole_is_never_trusted(tmp_path):
    save_trust_decision(tmp_path, [folder(digest="")], trusted=True)
    assert read_trust(tmp_path).trust_state(folder(digest="")) == "unknown"
    save_trust_decision(tmp_path, [folder()], trusted=True)
    assert read_trust(tmp_path).trust_state(folder(problem="half read")) == "unknown"


def test_contents_of_branches_are_kept_and_old_ones_fall_out(tmp_path):
    for number in range(20):
        save_trust_decision(tmp_path, [folder(digest=f"d{number}")], trusted=True)
    book = read_trust(tmp_path)
    assert (
        book.trust_state(folder(digest="d19")) == book.trust_state(folder(digest="d4")) == "trusted"
    )
    assert book.trust_state(folder(digest="d3")) == "unknown"


def test_revoking_forgets_a_folder_and_all_below_it_and_nothing_else(tmp_path):
    paths = ["/repo", "/repo/sub", "/repository"]
    save_trust_decision(tmp_path, [folder(path) for path in paths], trusted=True)
    assert sorted(forget_trust_decisions(tmp_path, "/repo")) == ["/repo", "/repo/sub"]
    assert list(read_trust(tmp_path).folders) == ["/repository"]
    assert forget_trust_decisions(tmp_path, "/repo") == ()


def test_the_file_is_private_and_replaced_as_a_whole(tmp_path):
    home = tmp_path / "config"
    save_trust_decision(home, [folder()], trusted=True)
    path = home / TRUST_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    before = path.stat().st_ino
    save_trust_decision(home, [folder(digest="d2")], trusted=True)
    assert path.stat().st_ino != before
    assert os.listdir(home) == [TRUST_FILE]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"folders": 3}', '{"folders": {"/repo": {"trusted": "d1"}}}']
)
def test_a_file_that_cannot_be_read_trusts_nothing_and_is_not_overwritten(tmp_path, content):
    (tmp_path / TRUST_FILE).write_text(content)
    os.chmod(tmp_path / TRUST_FILE, 0o600)
    book = read_trust(tmp_path)
    assert "nothing is trusted" in book.problem
    assert book.trust_state(folder()) == "unknown"
    with pytest.raises(TrustNotSaved, match="nothing is trusted"):
        save_trust_decision(tmp_path, [folder()], trusted=True)
    assert (tmp_path / TRUST_FILE).read_text() == content


@pytest.mark.parametrize("mode", [0o622, 0o606, 0o666])
def test_a_file_that_others_may_write_trusts_nothing(tmp_path, mode):
    save_trust_decision(tmp_path, [folder()], trusted=True)
    os.chmod(tmp_path / TRUST_FILE, mode)
    book = read_trust(tmp_path)
    assert "others may write" in book.problem
    assert book.trust_state(folder()) == "unknown"


def test_a_problem_cannot_be_written_into_the_file(tmp_path):
    (tmp_path / TRUST_FILE).write_text(json.dumps({"problem": "x", "folders": {}}))
    os.chmod(tmp_path / TRUST_FILE, 0o600)
    assert read_trust(tmp_path) == TrustStore()


@pytest.mark.parametrize(
    ("projects", "forbidden"),
    [
        ({"/repo": {"trust_level": "untrusted"}}, True),
        ({"/repo/sub": {"trust_level": "untrusted"}}, True),
        ({"/repo/sub": {"trust_level": "trusted"}, "/repo": {"trust_level": "untrusted"}}, False),
        ({"/repo": {"trust_level": "trusted"}}, False),
        ({"/other": {"trust_level": "untrusted"}}, False),
        ({"/repo": 3}, False),
        ({}, False),
    ],
)
def test_a_configuration_can_forbid_trust_and_never_grant_it(projects, forbidden):
    one = folder("/repo/sub")
    assert forbidden_by_config(one, {"projects": projects}) is forbidden
    assert TrustStore().trust_state(one) == "unknown"


def git(*words, cwd):
    subprocess.run(
        ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words],
        cwd=cwd, check=True, capture_output=True,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path):
    repo = tmp_path / "repo"
    (repo / ".swarm").mkdir(parents=True)
    (repo / ".swarm" / "config.toml").write_text("model = 'm'\n")
    git("init", "-q", cwd=repo)
    git("add", "-A", cwd=repo)
    git("commit", "-qm", "x", cwd=repo)
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=repo)
    return repo


def look(cwd):
    (one,) = read_project_folders(cwd, [".git"], config_folder=cwd / "none")
    return one


def test_a_worktree_is_trusted_while_it_says_the_same_as_its_repository(repository, tmp_path):
    save_trust_decision(tmp_path, [look(repository)], trusted=True)
    tree = tmp_path / "tree"
    assert read_trust(tmp_path).trust_state(look(tree)) == "trusted"
    (tree / ".swarm" / "config.toml").write_text("sandbox_mode = 'danger-full-access'\n")
    assert read_trust(tmp_path).trust_state(look(tree)) == "unknown"


def test_a_folder_that_only_claims_to_be_a_worktree_is_none(repository, tmp_path):
    save_trust_decision(tmp_path, [look(repository)], trusted=True)
    fake = tmp_path / "fake"
    (fake / ".swarm").mkdir(parents=True)
    (fake / ".swarm" / "config.toml").write_text("model = 'm'\n")
    (fake / ".git").write_text((tmp_path / "tree" / ".git").read_text())
    assert look(fake).digest == look(repository).digest
    assert read_trust(tmp_path).trust_state(look(fake)) == "unknown"
