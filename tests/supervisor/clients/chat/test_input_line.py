"""What is typed and pasted: file names, pictures, long and broken text."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.protocol.control import AgentView
from swarm.supervisor.clients.chat.file_mentions import (
    is_mentionable,
    mention_at,
    mention_length,
    mention_of,
    rank_files,
)
from swarm.supervisor.clients.chat.image_mentions import find_images
from swarm.supervisor.clients.chat.input_completion import list_git_files
from swarm.supervisor.clients.chat.pasted_text import MOST_TEXT_BYTES, PastedTexts
from swarm.supervisor.clients.chat.words_to_send import decide_delivery, next_queued


@pytest.mark.parametrize(
    ("before", "typed"),
    [
        ("look at @src/ma", "src/ma"),
        ("@", ""),
        ("a\n@b", "b"),
        ("mail me@example.org", None),
        ('see @"my fi', "my fi"),
        ('see @"my file" and', None),
        ('see @"my file" @a', "a"),
        ("@done and", None),
        ("", None),
    ],
)
def test_a_mention_begins_with_an_at_after_a_blank(before, typed):
    assert mention_at(before) == typed


def test_a_name_with_a_blank_is_quoted_and_replaces_what_was_typed():
    assert (mention_of("a.py"), mention_of("my file.md")) == ("@a.py", '@"my file.md"')
    assert (mention_length("@my", "my"), mention_length('@"my fi', "my fi")) == (3, 7)


@pytest.mark.parametrize(
    "text",
    ["می\u200cخواهم", "ක්\u200dෂ", "👨\u200d👩\u200d👧", "❤\ufe0f", "\u200eabc\u200f", "a\u00adb",
     "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"],
)  # fmt: skip
def test_what_belongs_to_a_text_is_pasted_as_it_is(text):
    assert PastedTexts().add(text) == (text, "")


def test_what_is_no_text_is_left_out_of_a_paste_and_counted():
    paste = PastedTexts().add("a\x00b\u202e\x1b[31mc\U000e0041\r\nd")
    assert paste == ("ab[31mc\nd", "left out 4 characters that are not text")


def test_names_that_begin_with_the_letters_come_first():
    files = ("docs/main.md", "src/domain.py", "src/main.py", "m/a/i/n.txt", "other.py")
    assert rank_files(files, "main") == [
        "src/main.py", "docs/main.md", "src/domain.py", "m/a/i/n.txt",
    ]  # fmt: skip
    assert rank_files(files, "zzz") == []


@pytest.mark.parametrize("name", ["", 'a"b', "a\nb", "a\x1b[2Jb", "a\u202eb", "\udcff"])
def test_names_that_cannot_be_shown_are_not_offered(name):
    assert not is_mentionable(name)


def test_files_come_from_git_and_its_rules(tmp_path):
    assert list_git_files(tmp_path) == ()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("a.py", "b.log", "with blank"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert list_git_files(tmp_path) == (".gitignore", "a.py", "with blank")


@pytest.mark.parametrize("way", ["core.fsmonitor", "planted git", "promisor", "include"])
def test_listing_files_starts_nothing_that_the_folder_names(tmp_path, monkeypatch, way):
    """Before anybody trusted it: a monitor, git on PATH, a remote's program, an included file."""
    project, mark = tmp_path / "project", tmp_path / "ran"
    project.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=project, check=True)
    (project / "a.py").touch()
    subprocess.run([*git, "add", "."], cwd=project, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=project, check=True)
    evil = project / "bin/git"
    evil.parent.mkdir()
    evil.write_text(f'#!/bin/sh\ntouch {mark}\nexec /usr/bin/git "$@"\n')
    evil.chmod(0o755)
    config = project / ".git/config"
    more = {
        "core.fsmonitor": f"[core]\nfsmonitor = {evil}\n",
        "planted git": "",
        "promisor": "[extensions]\npartialClone = o\n[core]\nrepositoryformatversion = 1\n"
        f'[remote "o"]\nurl = {project}\npromisor = true\nuploadpack = {evil}\n',
        "include": f"[include]\npath = {project}/more\n",
    }[way]
    (project / "more").write_text(f"[core]\nfsmonitor = {evil}\n")
    config.write_text(config.read_text() + more)
    if way == "promisor":
        tree = subprocess.check_output([*git, "rev-parse", "HEAD^{tree}"], cwd=project, text=True)
        name = tree.strip()
        (project / ".git/objects" / name[:2] / name[2:]).unlink()
        (project / ".git/index").unlink()
    if way == "planted git":
        monkeypatch.setenv("PATH", f"{evil.parent}:/usr/bin:/bin")
    list_git_files(project)
    assert not mark.exists()


def test_pictures_are_found_by_name_and_by_pasted_path(tmp_path):
    (tmp_path / "a.png").touch()
    (tmp_path / "my shot.PNG").touch()
    line = f"see @a.png and '{tmp_path}/my shot.PNG' but not b.png or a.txt"
    assert find_images(line, tmp_path) == (f"{tmp_path}/a.png", f"{tmp_path}/my shot.PNG")
    assert find_images("don't look at a.png", tmp_path) == (f"{tmp_path}/a.png",)
    assert find_images("nothing here", tmp_path) == ()


def test_a_long_paste_is_a_mark_until_it_is_sent():
    pastes = PastedTexts()
    text = "line\n" * 100
    first = pastes.add(text)
    assert first.inline == "[pasted 1: 500 characters, 101 lines]"
    assert first.notice == ""
    assert pastes.expand(f"see {first.inline}!") == f"see {text}!"
    pastes.clear()
    assert pastes.expand(first.inline) == first.inline


@pytest.mark.parametrize("size", [MOST_TEXT_BYTES + 1, 5 * MOST_TEXT_BYTES])
def test_a_paste_over_the_limit_is_not_taken(size):
    paste = PastedTexts().add("x" * size)
    assert paste.inline == ""
    assert "put them into a file" in paste.notice


@given(st.text())
def test_nothing_pasted_can_control_a_terminal(raw):
    inline = PastedTexts().add(raw).inline
    assert not any(ord(sign) < 32 and sign not in "\n\t" for sign in inline)
    assert "\x7f" not in inline
    inline.encode()  # no lone surrogates


IDLE, BUSY = AgentView(path="/root", state="idle"), AgentView(path="/root", state="running")


@pytest.mark.parametrize(
    ("has_run", "is_alive", "target", "mode", "delivery"),
    [
        (False, False, None, "steer", "start"),
        (True, False, IDLE, "steer", "resume"),
        (True, False, BUSY, "queue", "resume"),
        (True, True, IDLE, "steer", "send"),
        (True, True, IDLE, "queue", "send"),
        (True, True, BUSY, "steer", "send"),
        (True, True, BUSY, "queue", "queue"),
        (True, True, None, "queue", "send"),
    ],
)
def test_where_words_go(has_run, is_alive, target, mode, delivery):
    decided = decide_delivery(has_run=has_run, is_alive=is_alive, target=target, busy_mode=mode)
    assert decided == delivery


def test_queued_words_wait_for_the_end_of_the_turn():
    assert next_queued(("a", "b"), BUSY) is None
    assert next_queued(("a", "b"), IDLE) == "a"
    assert next_queued((), IDLE) is None
