"""Finding items: sorted, each once, bounded, never outside the working directory."""

import os

import pytest

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.path_rules import make_rules
from swarm.mailbox.protocol.values.limits import ProfilePolicy, WorkspaceWrite
from swarm.supervisor.base.file_excerpts import readable_below
from swarm.supervisor.parts.fan_out import fan_out_items, glob_search
from swarm.supervisor.parts.fan_out.fan_out_items import (
    FanOutSource,
    find_items,
    item_prompt,
    item_texts,
    read_csv,
    split_lines,
)
from swarm.supervisor.parts.fan_out.glob_search import find_paths
from swarm.supervisor.request.run_request import FanOut


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "root"
    for name in (
        "src/b",
        "src/a/deep",
        ".git/objects",
        "src/__pycache__",
        ".github",
        "node_modules/x",
    ):
        (root / name).mkdir(parents=True)
    for name in (
        "src/a/one.py",
        "src/a/deep/two.py",
        "src/b/three.md",
        "top.py",
        ".hidden.py",
        ".git/x.py",
        "src/__pycache__/c.py",
        ".github/ci.yml",
        "node_modules/x/m.py",
    ):
        (root / name).write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("secret")
    return root


@pytest.mark.parametrize(
    ("pattern", "kind", "found"),
    [
        ("src/*", "dirs", ["src/a", "src/b"]),
        ("*", "dirs", ["src"]),
        ("**/*.py", "files", ["src/a/deep/two.py", "src/a/one.py", "top.py"]),
        ("**/two.py", "files", ["src/a/deep/two.py"]),
        ("src/**", "files", ["src/a/deep/two.py", "src/a/one.py", "src/b/three.md"]),
        ("src/**/deep", "dirs", ["src/a/deep"]),
        (".github/*", "files", [".github/ci.yml"]),
        (".*.py", "files", [".hidden.py"]),
        ("node_modules/*", "dirs", ["node_modules/x"]),
        ("./src/?", "dirs", ["src/a", "src/b"]),
        ("none/*", "files", []),
    ],
)  # fmt: skip
def test_patterns_find_what_is_not_hidden(tree, pattern, kind, found):
    assert list(find_paths(tree, [pattern], kind=kind)) == found


def test_each_path_comes_once_and_sorted(tree):
    assert find_paths(tree, ["top.py", "*.py", "src/a/*.py"], kind="files") == (
        "src/a/one.py", "top.py",
    )  # fmt: skip


@pytest.mark.parametrize("pattern", ["", "/etc/*", "../*", "src/../../*", "."])
def test_a_pattern_cannot_leave_the_root(tree, pattern):
    with pytest.raises(UsageError, match="stay inside"):
        find_paths(tree, [pattern], kind="any")


def test_links_lead_nowhere_outside_and_are_not_entered(tree):
    (tree / "out").symlink_to(tree.parent / "outside")
    (tree / "out.py").symlink_to(tree.parent / "outside" / "secret.py")
    (tree / "loop").symlink_to(tree)
    (tree / "in.py").symlink_to(tree / "top.py")
    assert find_paths(tree, ["*.py", "out/*", "loop/*.py"], kind="files") == ("in.py", "top.py")
    assert find_paths(tree, ["*"], kind="dirs") == ("loop", "src")


def test_ten_thousand_items_are_found_and_too_many_are_refused(tmp_path, monkeypatch):
    for number in range(10_050):
        os.close(os.open(tmp_path / f"{number:05}.txt", os.O_CREAT | os.O_WRONLY))
    found = find_items(FanOutSource(files="*.txt"), cwd=tmp_path, run_lines=no_lines)
    assert len(found.items) == 10_050
    assert found.items[0] == "00000.txt"
    monkeypatch.setattr(fan_out_items, "MAX_ITEMS", 10_000)
    with pytest.raises(UsageError, match="10,050 items"):
        find_items(FanOutSource(files="*.txt"), cwd=tmp_path, run_lines=no_lines)
    monkeypatch.setattr(glob_search, "MAX_VISITED", 5_000)
    with pytest.raises(UsageError, match="name a folder in it"):
        find_items(FanOutSource(files="*.txt"), cwd=tmp_path, run_lines=no_lines)


def no_lines(command, cwd):
    raise AssertionError("no command was to run")


def test_nothing_found_is_an_error(tree):
    with pytest.raises(UsageError, match=r"fan_out\.each\.dirs found nothing"):
        find_items(FanOutSource(dirs="x*"), cwd=tree, run_lines=no_lines)


def test_lines_keep_their_order_and_are_plain(tree):
    each = FanOutSource(lines="git ls-files")
    found = find_items(each, cwd=tree, run_lines=lambda *_: " b \n\na\x1b[31m\nb\n")
    assert found.items == ("b", "a [31m")
    assert split_lines("x" * 9000)[0] == "x" * 4096


def test_csv_rows_are_items_with_columns(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('\ufeffid, item ,note\n1,apple,"red, round"\n2,pear,\n')
    found = read_csv(path)
    assert found.items == ("apple", "pear")
    assert found.rows[0] == {"id": "1", "item": "apple", "note": "red, round"}
    path.write_text("id,note\n1,x\n1,y\n")
    assert read_csv(path).items == ("1", "1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: the header needs names"),
        ("a,a\n1,2", "line 1: the header"),
        ("a,\n1,2", "line 1: the header"),
        ("a,b\n1,2\n3", "line 3: not 2 columns"),
        ("a,b\n1,2,3", "line 2: not 2 columns"),
        ('a,b\n"1,2', "line 2: unexpected end of data"),
    ],
)
def test_a_bad_csv_names_its_line(tmp_path, text, words):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        read_csv(path)


def test_a_prompt_is_filled_once_and_leaves_other_braces():
    fan = FanOut(
        items=("{note}",),
        rows=({"note": "{item}", "id": "7"},),
        prompt='{item} {id} { note } {other} {"json": 1}',
    )
    assert item_prompt(fan, 0) == '{note} 7 {item} {other} {"json": 1}'


def test_an_items_own_text_follows_its_prompt(tree):
    texts = item_texts(
        ("src/a", "top.py", "gone", "../outside"),
        cwd=tree,
        patterns=("*.py", "."),
        limit_bytes=99,
        may=readable_below(tree, WorkspaceWrite()),
    )
    assert texts[0] == "File one.py:\n```\nsrc/a/one.py\n```"
    assert texts[1] == "File top.py:\n```\ntop.py\n```"
    assert texts[2:] == ("", "")
    fan = FanOut(items=("src/a",), prompt="What is {item}?", texts=texts[:1])
    assert item_prompt(fan, 0) == f"What is src/a?\n\n{texts[0]}"
    assert (
        item_texts(
            ("src/a",),
            cwd=tree,
            patterns=(),
            limit_bytes=9,
            may=readable_below(tree, WorkspaceWrite()),
        )
        == ()
    )


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_a_table_that_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "in.csv"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="not a regular file"):
        read_csv(path)


def test_texts_show_no_file_that_is_denied_or_that_a_link_leads_out_to(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("secret")
    for name in ("plain", "x.env"):
        (work / name).write_text(name)
    (work / "link").symlink_to("../secret")
    os.mkfifo(work / "pipe")
    profile = ProfilePolicy(
        name="p", rules=make_rules([(str(work), "read")]), deny_globs=(f"{work}/*.env",)
    )
    (text,) = item_texts(
        (".",), cwd=work, patterns=("*",), limit_bytes=999, may=readable_below(work, profile)
    )
    assert "plain" in text
    assert "secret" not in text and "x.env" not in text
