"""Files of plugins: what is copied, what is refused, and what their hash covers."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.parts.plugins.files.plugin_tree import (
    MAX_FILES,
    LeftOut,
    TreeFile,
    TreeWriter,
    check_file_name,
    read_folder_tree,
    tree_digest,
    tree_fingerprint,
)


def file(name, data=b"x"):
    return TreeFile(name=name, data=data)


def test_only_regular_files_are_taken_and_never_through_a_link(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run.sh").write_text("x")
    (tmp_path / "sub" / "run.sh").chmod(0o755)
    (tmp_path / "out").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    found = list(read_folder_tree(tmp_path))
    assert [one.name for one in found if isinstance(one, LeftOut)] == ["folder", "out", "pipe"]
    assert [one for one in found if isinstance(one, TreeFile)] == [
        TreeFile(name="sub/run.sh", data=b"x", executable=True)
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/etc/x",
        "a/../b",
        "a//b",
        "./a",
        "",
        "a\nb",
        "a\\b",
        "a\0b",
        "x/" * 30 + "y",
        "a" * 300,
    ],
)
def test_a_name_that_leads_out_is_refused(name, tmp_path):
    with pytest.raises(UsageError):
        TreeWriter(tmp_path / "new").write(file(name))
    assert list((tmp_path / "new").iterdir()) == []


@given(st.text(max_size=80))
def test_every_name_that_is_taken_stays_inside(name):
    try:
        check_file_name(name)
    except UsageError:
        return
    assert os.path.normpath(f"/top/{name}") == f"/top/{name}"


@pytest.mark.parametrize(
    ("first", "second"),
    [("a/Read", "a/read"), ("A/x", "a/y"), ("a", "a"), ("ß", "ss")],
)
def test_names_that_differ_in_case_alone_are_refused(first, second, tmp_path):
    writer = TreeWriter(tmp_path / "new")
    writer.write(file(first))
    with pytest.raises(UsageError, match="the same"):
        writer.write(file(second))


def test_ten_thousand_files_are_refused(tmp_path):
    writer = TreeWriter(tmp_path / "new")
    with pytest.raises(UsageError, match=f"{MAX_FILES:,} files"):
        for number in range(10_000):
            writer.write(file(f"f{number}"))


def test_the_hash_covers_names_contents_and_what_may_be_executed(tmp_path):
    def written(name, *files):
        writer = TreeWriter(tmp_path / name)
        for one in files:
            writer.write(one)
        assert tree_digest(tmp_path / name) == writer.digest.hexdigest()
        return writer.digest.hexdigest()

    same = [written(name, file("a"), file("b/c")) for name in ("one", "two")]
    assert same[0] == same[1]
    others = [
        written("three", file("a"), file("b/d")),
        written("four", file("a"), file("b/c", b"y")),
        written("five", file("a"), TreeFile(name="b/c", data=b"x", executable=True)),
        written("six", file("a")),
    ]
    assert len({*same, *others}) == 5


def test_a_change_with_the_old_time_is_seen(tmp_path):
    path = tmp_path / "a"
    path.write_text("one")
    facts = path.stat()
    before = tree_fingerprint(tmp_path)
    assert tree_fingerprint(tmp_path) == before
    path.write_text("two")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert tree_fingerprint(tmp_path) != before
