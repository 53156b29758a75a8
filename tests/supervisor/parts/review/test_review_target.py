"""What is to be reviewed is looked up before anything starts; what is not there is said."""

import subprocess

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.supervisor.parts.review.review_target import ReviewTargetOptions, find_target


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
        ({"base": "--output=x"}, "not a name"),
        ({"base": "$(touch evil)"}, "no branch"),
        ({"commit": "'; touch evil; '"}, "no commit"),
        ({"base": " "}, "not a name"),
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


def test_files_that_the_change_breaks_are_told_of_and_those_that_were_broken_before_are_not(repo):
    folder, git = repo
    broken = "def f(text):\n    return slugify(text) = text\n"
    (folder / "old.py").write_text(broken)
    (folder / "ok.py").write_text("x = 1\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "data.json").write_text("{}")
    git("add", ".")
    git("commit", "-m", "second")
    (folder / "old.py").write_text(broken + "# more\n")
    (folder / "ok.py").write_text(broken)
    (folder / "sub" / "data.json").write_text("{")
    (folder / "run.sh").write_text("if true; then\n")
    (folder / "new.toml").write_text("a = \n")
    (folder / "fine.toml").write_text("a = 1\n")
    (folder / "link.py").symlink_to("/etc/passwd")
    broken = find(folder / "sub").broken  # in any folder of the repository
    assert [one.partition(": ")[0] for one in broken] == [
        str(folder / name) for name in ("ok.py", "sub/data.json", "new.toml", "run.sh")
    ]
    assert "ok.py: line 2: " in broken[0]
    assert all(f"- {one}" in find(folder).prompt for one in broken)


def test_what_a_commit_and_a_branch_break_is_told_of(repo):
    folder, git = repo
    git("checkout", "-b", "mine")
    (folder / "bad.py").write_text("x = = 1\n")
    git("add", ".")
    git("commit", "-m", "bad")
    assert "bad.py" in find(folder, commit="HEAD").broken[0]
    assert "bad.py" in find(folder, base="main").broken[0]
    (folder / "bad.py").write_text("x = 1\n")  # the working tree mends it: not the commit
    assert "bad.py" in find(folder, commit="HEAD").broken[0]
    assert find(folder, base="main").broken == ()


def test_a_first_commit_and_a_repository_without_one_are_checked_too(tmp_path):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "bad.py").write_text("x = = 1\n")
    assert len(find(tmp_path).broken) == 1
    git("add", ".")
    assert len(find(tmp_path).broken) == 1
    git("commit", "-m", "first")
    assert len(find(tmp_path, commit="HEAD").broken) == 1
