"""Files written for other programs are read as those read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.roles.markdown.front_matter import MarkdownFile, parse_markdown


def test_a_front_matter_and_the_text_are_told_apart_with_their_lines():
    file = parse_markdown(
        b"---\ndescription: Look\ntools: Read, Bash(git log, git diff)\n---\n\nGo.\n"
    )
    assert file.fields == {"description": "Look", "tools": "Read, Bash(git log, git diff)"}
    assert file.lines == {"description": 2, "tools": 3}
    assert file.words("tools") == ("Read", "Bash(git log, git diff)")
    assert file.body == "Go."


def test_a_file_without_front_matter_is_all_text():
    assert parse_markdown(b"Do it.\n---\nx\n") == MarkdownFile(body="Do it.\n---\nx")


@pytest.mark.parametrize(
    ("front", "key", "value"),
    [
        ("description: Use this: when <example>Context: x</example>", "description",
         "Use this: when <example>Context: x</example>"),
        ("argument-hint: [file] [message]", "argument-hint", "[file] [message]"),
        ("description: 'quoted: text'\nname: a: b", "description", "quoted: text"),
        ("description: first: one\n  and the rest", "description", "first: one and the rest"),
        ("description: |\n  two\n  lines", "description", "two lines"),
        ("argument-hint: [number]", "argument-hint", "[number]"),
    ],
)  # fmt: skip
def test_what_is_no_yaml_is_read_line_by_line(front, key, value):
    assert parse_markdown(f"---\n{front}\n---\nText".encode()).text(key) == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a\n\xff", "line 2: not UTF-8"),
        (b"a\nb\0", "line 2: it is not text"),
        (b"---\nx: " + b"y" * 40_000 + b"\n---\nText", "front matter larger than 32 KiB"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(data, words):
    with pytest.raises(UsageError, match=words):
        parse_markdown(data)


@given(st.binary(max_size=200))
def test_no_content_breaks_the_reader(data):
    try:
        file = parse_markdown(b"---\n" + data)
    except UsageError:
        return
    assert isinstance(file.body, str)
    for key in file.fields:
        assert isinstance(file.text(key), str)
        assert all(isinstance(word, str) for word in file.words(key))
