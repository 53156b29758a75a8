"""What is to be reviewed is looked up before anything starts; what is not there is said."""

import subprocess

import pytest

from swarm.mailbox.errors import UsageError
from swarm.supervisor.review.review_target import ReviewTargetOptions, find_target


@pytest.fixture
def repo(tmp_path):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init")
    (tmp_path / "one").write_text("1\n")
    git("add", ".")
    git("commit", "-m", "first; $(touch evil)")
    return tmp_path, git


def find(folder, **options):
    def look(script):
        done = subprocess.run(
            ["/bin/sh", "-c", script], cwd=folder, check=True, capture_output=True, text=True
        )
        return done.stdout

    return find_target(ReviewTargetOptions(**options), look)


def test_uncommitted_changes_and_new_files_are_found(repo):
    folder, _ = repo
    (folder / "new").write_text("x")
    target = find(folder)
    assert (target.kind, target.hint) == ("uncommitted", "uncommitted changes")
    assert "not committed" in target.prompt


def test_changes_against_a_branch_begin_where_both_parted(repo):
    folder, git = repo
    git("checkout", "-b", "mine")
    (folder / "one").write_text("2\n")
    git("commit", "-am", "second")
    git("checkout", "main")
    (folder / "other").write_text("x")
    git("add", ".")
    git("commit", "-m", "other")
    git("checkout", "mine")
    target = find(folder, base="main")
    assert target.kind == "base"
    assert git("merge-base", "main", "mine") in target.prompt


def test_a_commit_is_named_by_its_whole_id_and_its_title_is_only_words(repo):
    folder, git = repo
    target = find(folder, commit="HEAD")
    sha = git("rev-parse", "HEAD")
    assert sha in target.prompt
    assert target.hint == f"commit {sha[:9]}: first; $(touch evil)"
    assert not (folder / "evil").exists()


def test_words_alone_are_the_target_and_beside_one_are_added(repo):
    folder, _ = repo
    assert find(folder, words="Look at one.").prompt == "Look at one."
    (folder / "one").write_text("3")
    assert find(folder, words="Mind this.", uncommitted=True).prompt.endswith("Mind this.")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to review"),
        ({"uncommitted": True}, "nothing to review"),
        ({"base": "main"}, "nothing to review: there are no changes against 'main'"),
        ({"base": "nowhere"}, "no branch or commit 'nowhere'"),
        ({"commit": "feed"}, "no commit 'feed'"),
        ({"commit": "HEAD", "base": "main"}, "give one of"),
        ({"base": "--output=x"}, "no name"),
        ({"base": "$(touch evil)"}, "no branch"),
        ({"commit": "'; touch evil; '"}, "no commit"),
        ({"base": " "}, "no name"),
    ],
)
def test_what_cannot_be_reviewed_is_an_error(repo, options, message):
    folder, _ = repo
    with pytest.raises(UsageError, match=message.replace("(", "\\(").replace("$", "\\$")):
        find(folder, **options)
    assert not (folder / "evil").exists()


def test_a_folder_without_a_repository_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no git repository"):
        find(tmp_path)


def test_a_repository_without_a_commit_has_only_what_is_uncommitted(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "new").write_text("x")
    assert find(tmp_path).kind == "uncommitted"
    with pytest.raises(UsageError, match="no commit 'HEAD'"):
        find(tmp_path, commit="HEAD")
