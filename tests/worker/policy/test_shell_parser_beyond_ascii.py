"""Text beyond ASCII: the parser never sees it, and every reader still gives it back unchanged."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.policy.script_commands import find_commands
from swarm.worker.policy.shell_parser import (
    heredoc_command,
    node_text,
    parse_script,
    plain_commands,
)


def test_words_come_back_as_they_were_written():
    assert plain_commands("echo 🎉 'naïve' \"Größe\" a\U0010ffff") == (
        ("echo", "🎉", "naïve", "Größe", "a\U0010ffff"),
    )
    assert heredoc_command("cat -ü <<E\n🎉\nE") == ("cat", "-ü")
    (command,) = find_commands(["bash", "-c", 'rm -rf é "ü x" ü*'])
    assert [word.text for word in command] == ["rm", "-rf", "é", "ü x", "ü*"]


def test_a_node_gives_the_scripts_own_text():
    read = parse_script("echo 🎉 && é")
    assert read is not None
    root, source = read
    assert node_text(root, source) == "echo 🎉 && é"


@pytest.mark.parametrize(
    "script",
    [
        "[\u0100${a@{1..\U0010fffd#\u0330|\U0010fffd${a:*\U0001f600for \U000e0000",
        "{a,\x80!([\uffff${\U000fffff+(\ue000test <<\uffff|\U0001f600",
        "\\test {\U000fffff1>\U0010fffflet ${#[[ a =~ \U000e0000",
        "{a,\U0010fffd${\U0010fffdcase x in \U0009317e${!\U000e0000",
        "let \x80[\U000e4e78<<E\n\U0009a569{1..\U000e0000case x in \U000e0000\\",
    ],
)
def test_texts_that_once_ended_the_process_are_read(script):
    """The scanner looked such characters up beyond the end of a table."""
    assert parse_script(script) is not None
    assert plain_commands(script) is None


PIECES = st.sampled_from(
    [
        "${",
        "{a,",
        "{1..",
        "<<E\n",
        "<<",
        "[[ a =~ ",
        "${#",
        "${a@",
        "$",
        "[",
        "a=",
        "case x in ",
        "\n",
    ]
)


@given(st.lists(st.one_of(PIECES, st.characters(min_codepoint=128, exclude_categories=["Cs"]))))
def test_no_text_beyond_ascii_ends_the_process(pieces):
    script = "".join(pieces)
    find_commands(["bash", "-c", script])
    heredoc_command(script)
