"""What terminals send is taken sequence by sequence; nothing of one is typed or taken for Esc."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.keys import Keys

from swarm.supervisor.clients.chat.key_sequences import KeySequences
from swarm.supervisor.clients.chat.terminal_keys import keys_of


def typed(*reads: str, flush: bool = True) -> list[str]:
    """The keys of what was read, piece by piece: texts, or names of keys."""
    sequences = KeySequences()
    parts = [part for read in reads for part in sequences.feed(read)]
    parts += sequences.flush() if flush else ()
    keys = [key for part in parts for key in keys_of(part)]
    return [str(key.data or (key.key.value if isinstance(key.key, Keys) else key.key))
            for key in keys]  # fmt: skip


ENTER, NEW_LINE, ESC = "\r", "\n", "\x1b"


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("ab", ["a", "b"]),
        (ESC, [ESC]),
        ("\x1b[13;2u", [NEW_LINE]),  # Shift-Enter
        ("\x1b[27;2;13~", [NEW_LINE]),  # Shift-Enter of xterm
        ("\x1b[13;5u", [NEW_LINE]),
        ("\x1b[13u", [ENTER]),
        ("\x1b[57414u", [ENTER]),
        ("\x1b\r", ["escape", "c-m"]),
        ("\x1b[97u", ["a"]),
        ("\x1b[97;2u", ["A"]),
        ("\x1b[97:65;2u", ["A"]),
        ("\x1b[49:33;2u", ["!"]),
        ("\x1b[97;65u", ["A"]),  # Caps Lock
        ("\x1b[228u", ["ä"]),
        ("\x1b[97;;229u", ["å"]),
        ("\x1b[27;2;65~", ["A"]),
        ("\x1b[97;5u", ["\x01"]),
        ("\x1b[27;5;97~", ["\x01"]),
        ("\x1b[97;1:3u", []),  # let go
        ("\x1b[97;9u", []),  # with the Super key
        ("\x1b[98;3u", ["escape", "b"]),
        ("\x1b[27u", [ESC]),
        ("\x1b[27;2u", []),
        ("\x1b[127u", ["\x7f"]),
        ("\x1b[9;2u", ["s-tab"]),
        ("\x1b[57399u", ["0"]),
        ("\x1b[57358u", []),  # Caps Lock itself
        ("\x1b[A", ["up"]),
        ("\x1b[1;5A", ["c-up"]),
        ("\x1b[1;65A", ["up"]),
        ("\x1b[1;1:3A", []),
        ("\x1bOA", ["up"]),
        ("\x1bOM", [ENTER]),
        ("\x1bOq", ["1"]),
        ("\x1b[[A", ["f1"]),
        ("\x1b[200~two\nlines\x1b[201~x", ["two\nlines", "x"]),
        ("\x1b[I\x1b[O", []),  # focus
        ("\x1b[M !!", []),
        ("\x1b[<0;10;20M", []),
        ("\x1b[12;40R", []),
        ("\x1b[?2026;2$y\x1b[?62;c\x1b[>0;1;0c", []),
        ("\x1b[999;99~\x1b[5;3;7z", []),
        ("\x1b]11;rgb:ffff/ffff/ffff\x07\x1b]10;rgb:0/0/0\x1b\\", []),
        ("\x1bP1+r544e=787465726d\x1b\\", []),
        ("\x1b_Gi=31;OK\x1b\\\x1b^x\x1b\\\x1bXx\x1b\\", []),
        ("\x9b13;2u\x9d0;x\x07", [NEW_LINE]),
        ("\x1bx", ["escape", "x"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b[12\x03", ["\x03"]),
    ],
)
def test_each_sequence_is_one_key_or_none(sent, keys):
    assert typed(sent) == keys
    assert typed(*sent) == keys, "however it is cut into reads"
    assert typed(f"{sent}z")[-1:] == ["z"] if sent != ESC else True


def test_the_rest_of_a_reply_that_comes_late_is_still_part_of_it():
    sequences = KeySequences()
    parts = [*sequences.feed("\x1b]11;rgb:ff"), *sequences.flush(), *sequences.feed("ff\x07a")]
    assert [key.data for part in parts for key in keys_of(part)] == ["a"]


def test_alt_and_a_bracket_does_not_swallow_what_is_typed_after_it():
    sequences = KeySequences()
    parts = [*sequences.feed("\x1b]"), *sequences.flush(), *sequences.feed("hello")]
    assert "".join(parts) == "hello"


@given(
    st.lists(
        st.builds(
            lambda parameters, between, final: f"\x1b[{parameters}{between}{final}",
            st.text(alphabet="0123456789:;<=>?", min_size=1, max_size=12),
            st.text(alphabet=' !"#$%&/', max_size=2),
            st.sampled_from("".join(map(chr, range(0x40, 0x7F)))),
        ),
        max_size=4,
    )
)
def test_no_control_sequence_types_more_than_one_letter_or_is_esc(sequences):
    for sequence in sequences:
        keys = keys_of(sequence)
        texts = [key.data for key in keys if key.data]
        assert sum(map(len, texts)) <= 1
        if sequence[2:-1].strip("0123456789:;"):
            assert texts == []
    found = KeySequences().feed("".join(sequences))
    assert [part for part in found if not part.startswith("\x1b[200~")] == [
        one for one in sequences if one != "\x1b[200~"
    ] or "\x1b[200~" in "".join(sequences)


@given(
    st.lists(st.text(alphabet="\x1b[]O;:0123456789~uPM\\\x07ab\x9b\x03", max_size=6), max_size=6)
)
def test_any_input_is_taken_without_a_fault(reads):
    typed(*reads)
