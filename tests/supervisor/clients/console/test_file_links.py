"""Names of files become links only where the file is there, and only with the file's own name."""

from typing import get_args

import pytest
from rich.segment import Segment

from swarm.supervisor.clients.console.answer_markdown import render_answer
from swarm.supervisor.clients.console.file_links import FileLinks, FileOpener


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    for name in ("one.py", "a/two.py", "x\x1b]8;;evil\x07.py"):
        (tmp_path / name).write_text("")
    (tmp_path.parent / "outside.py").write_text("")
    return tmp_path


def links_in(links, text):
    return [
        (one.text, one.style.link)
        for one in links.mark([Segment(text)])
        if one.style is not None and one.style.link
    ]


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("see one.py.", ["one.py"]),
        ("(a/two.py:12:3), ./one.py", ["a/two.py:12:3", "./one.py"]),
        ("none.py a/ . .. / ../outside.py /etc/passwd", []),
        ("a.one.py one.pyc", []),
    ],
)
def test_only_files_that_are_there_and_inside_are_links(folder, text, linked):
    links = FileLinks(str(folder))
    assert [word for word, _ in links_in(links, text)] == linked
    assert "".join(one.text for one in links.mark([Segment(text)])) == text


@pytest.mark.parametrize("opener", get_args(FileOpener))
def test_the_scheme_is_the_one_that_was_chosen(folder, opener):
    found = links_in(FileLinks(str(folder), opener), "a/two.py:7")
    path = f"{folder}/a/two.py"
    wanted = {"none": [], "file": [("a/two.py:7", f"file://{path}")]}
    assert found == wanted.get(opener, [("a/two.py:7", f"{opener}://file{path}:7")])


def test_a_name_cannot_end_its_link(folder):
    link = FileLinks(str(folder)).style_of("x\x1b]8;;evil\x07.py").link
    assert link is not None
    assert link.isprintable()
    assert "\x1b" not in link


def test_many_names_are_not_looked_for_without_end(folder):
    text = " ".join(f"n{number}.py" for number in range(5_000)) + " one.py"
    assert links_in(FileLinks(str(folder)), text) == []


def test_a_models_own_link_stays_text_and_its_files_are_links(folder):
    text = "[safe](https://evil.example) and `one.py`"
    shown = render_answer(
        text, width=80, coloured=True, environment={"TERM": "xterm-256color"},
        links=FileLinks(str(folder)),
    )  # fmt: skip
    assert f";file://{folder}/one.py\x1b" in shown
    assert ";https://evil.example\x1b" not in shown
    assert "https://evil.example" in shown
