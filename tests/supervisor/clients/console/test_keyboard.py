"""Bytes of a terminal → keys: whole or torn, sensible or not; and a terminal is left as it was."""

import os
import termios

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from swarm.supervisor.clients.console.keyboard import can_read_keys, decode_keys, open_keyboard

KEYS = {
    b"\x1b[A": "up", b"\x1bOB": "down", b"\x1b[C": "right", b"\x1b[1;5D": "left", b"\r": "enter",
    b"\n": "enter", b"\x1b[5~": "page_up", b"\x1b[6~": "page_down", b"\x1b[H": "home",
    b"\x1b[4~": "end", b"\x7f": "backspace", b"\t": "tab", b"s": "s", "é".encode(): "é",
    "漢".encode(): "漢", "😀".encode(): "😀",
}  # fmt: skip
SEQUENCES = st.lists(st.sampled_from(sorted(KEYS)), max_size=12)


@pytest.mark.parametrize(("data", "key"), KEYS.items())
def test_each_key_has_one_name(data, key):
    assert decode_keys(data, at_rest=False) == ((key,), b"")


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"\x1b", ("esc",)),
        (b"\x1b\x1b", ("esc", "esc")),
        (b"\x1bq", ("esc", "q")),
        (b"\x1b[99;7~", ()),
        (b"\x1b[", ()),
        (b"\x1b[1;", ()),
        (b"\x00\x01\x04", ()),
        (b"\xff\xfea", ("a",)),
        (b"\xe6\xbc", ()),
        (b"\x1b[\x1b[A", ("up",)),
        (b"\x1b[" + b"1" * 100 + b"A", ("1",) * 70 + ("A",)),
    ],
)
def test_what_is_no_key_is_passed_over_and_a_lone_escape_is_one(data, keys):
    assert decode_keys(data, at_rest=True) == (keys, b"")


@given(SEQUENCES, st.data())
def test_however_it_is_torn_the_same_keys_come_out(sequences, data):
    whole = b"".join(sequences)
    cut = data.draw(st.integers(0, len(whole)))
    first, rest = decode_keys(whole[:cut], at_rest=False)
    second, left = decode_keys(rest + whole[cut:], at_rest=False)
    assert first + second == tuple(KEYS[one] for one in sequences)
    assert left == b""


@given(st.binary(max_size=200), st.booleans())
def test_nothing_breaks_it_and_the_rest_is_short(data, at_rest):
    keys, rest = decode_keys(data, at_rest=at_rest)
    assert len(rest) < 32
    assert data.endswith(rest)
    assert not (at_rest and rest)
    assert all(key and key.isprintable() for key in keys)


async def test_a_terminal_gives_keys_and_is_as_before_afterwards():
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    with trio.fail_after(10):
        async with open_keyboard(theirs, on_stop=lambda stopped: None) as keys:
            assert not termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO)
            assert termios.tcgetattr(theirs)[3] & termios.ISIG, "Ctrl-C stays a signal"
            os.write(ours, b"j\x1b[A\x1b")
            assert [await anext(keys) for _ in range(3)] == ["j", "up", "esc"]
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


async def test_the_keys_end_with_the_terminal():
    ours, theirs = os.openpty()
    with trio.fail_after(10):
        async with open_keyboard(theirs, on_stop=lambda stopped: None) as keys:
            os.write(ours, b"j")
            assert await anext(keys) == "j"
            os.close(ours)
            assert [key async for key in keys] == []
    os.close(theirs)


async def test_it_is_as_before_also_when_the_block_fails():
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    with pytest.RaisesGroup(RuntimeError):
        async with open_keyboard(theirs, on_stop=lambda stopped: None):
            raise RuntimeError("any")
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


async def test_what_is_no_terminal_gives_no_keys():
    reader, writer = os.pipe()
    assert not can_read_keys(reader)
    assert not can_read_keys(-1)
    with pytest.raises(OSError, match="ioctl"):
        async with open_keyboard(reader, on_stop=lambda stopped: None):
            raise AssertionError("a pipe is no terminal")
    os.close(reader)
    os.close(writer)
