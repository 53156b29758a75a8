"""A text whose words stand in a file with other blanks is found once, and edited in its layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.tools.word_match import find_words, replace_words

CODE = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"


@pytest.mark.parametrize(
    ("wanted", "new", "after"),
    [
        ("def add(a, b): return a - b", "def add(a, b): return a + b", CODE.replace(" - ", " + ")),
        ("return a  -  b", "return a + b", CODE.replace("a - b", "a + b")),
        ("dd(a, b): return a - b", "dd(a, b): return b", None),  # begins within a word
        ("def sub(a, b): return a - b", "x", None),
        ("return a", "return b", None),  # two words
    ],
)
def test_lines_written_as_one_are_found_and_keep_their_line_ends(wanted, new, after):
    span = find_words(CODE, wanted)
    if after is None:
        assert span is None
        return
    assert span is not None
    start, end = span
    assert CODE[:start] + replace_words(CODE[start:end], new) + CODE[end:] == after


def test_a_text_that_stands_twice_is_not_found():
    assert find_words("a b c\na b  c\n", "a b c") is None


@pytest.mark.parametrize(
    ("new", "after"),
    [("a b c d e", "a b\n  c d e"), ("b c", "b\n  c"), ("a c", "a c"), ("", "")],
)
def test_words_are_added_and_taken_away_between_the_blanks(new, after):
    assert replace_words("a b\n  c", new) == after


_WORDS = st.lists(st.text("abc=", min_size=1, max_size=3), max_size=8)


@given(_WORDS.filter(bool), _WORDS)
def test_the_words_afterwards_are_those_of_the_new_text(old, new):
    assert replace_words("\n  ".join(old), " ".join(new)).split() == new
