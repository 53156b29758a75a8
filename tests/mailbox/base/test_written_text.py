"""Text and JSON that people write: their encodings, and where they are wrong."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.written_text import (
    NotText,
    decode_leniently,
    decode_written,
    read_written_json,
    read_written_object,
)

MARKED = {
    "utf-8": b"", "utf-8-sig": b"", "utf-16": b"", "utf-32": b"", "utf-16-le": b"\xff\xfe",
    "utf-16-be": b"\xfe\xff", "utf-32-le": b"\xff\xfe\0\0", "utf-32-be": b"\0\0\xfe\xff",
}  # fmt: skip
OBJECT = '{\n  "name": "Grüße",\n  "list": [1, 2]\n}\n'


@pytest.mark.parametrize("codec", MARKED)
def test_the_mark_says_the_encoding_and_is_no_part_of_the_text(codec):
    data = MARKED[codec] + OBJECT.encode(codec)
    assert decode_written(data) == OBJECT
    assert decode_leniently(data).text == OBJECT
    assert read_written_object(data, "f") == {"name": "Grüße", "list": [1, 2]}


def test_a_file_that_was_marked_twice_has_no_mark_in_its_text():
    assert decode_written(b"\xef\xbb\xbf\xef\xbb\xbfa") == "a"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a\n\xc3 b\xff", "line 2: not UTF-8 at byte 2"),
        (b"\xef\xbb\xbfa\xff", "line 1: not UTF-8 at byte 4"),
        (b"\xff\xfea\0\n\0\0\xd8b\0", "line 2: not UTF-16 at byte 6"),
        (b"\xff\xfe\0\0a\0\0\0\xff\xff\xff\xff", "line 1: not UTF-32 at byte 8"),
        (b"a\nb\0c", "line 2: it is not text: NUL characters at byte 3"),
        ("wide".encode("utf-16-le"), "UTF-16 without its mark? save it as UTF-8"),
    ],
)
def test_what_is_no_text_is_named_by_line_and_byte_and_told_as_far_as_it_can_be(data, problem):
    with pytest.raises(NotText) as caught:
        decode_written(data)
    assert problem in str(caught.value)
    told = decode_leniently(data)
    assert problem in told.problem
    assert "\ufffd" in told.text
    assert "\0" not in told.text


def test_a_character_that_a_cut_has_halved_is_no_wrong_byte():
    assert decode_leniently("aé".encode()[:2], is_whole=False) == decode_leniently(b"a")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,}', "f, line 1, column 9: not valid JSON: trailing comma in object"),
        ('{\n  // why\n  "a": 1}', "f, line 2, column 3: not valid JSON: JSON has no comments"),
        ('{"ä": 1 /* why */}', "f, line 1, column 9: not valid JSON: JSON has no comments"),
        ('{"a": [1', "f, line 1, column 9: not valid JSON: it ends too soon"),
        ("{'a': 1}", "f, line 1, column 2: not valid JSON"),
        ('{"a": 1}\n}', "f, line 2, column 2: not valid JSON: trailing characters"),
        (" \n", "f: not valid JSON: it is empty"),
        ("[1]", "f, line 1: must be a JSON object"),
        ("[" * 100_000, "f: not valid JSON: nested too deeply"),
        ('{"a": NaN}', "f, line 1, column 7: not valid JSON"),
    ],
)
def test_json_that_is_wrong_is_named_by_file_line_and_column(text, problem):
    for codec in ("utf-8-sig", "utf-16"):
        with pytest.raises(UsageError) as caught:
            read_written_object(text.encode(codec), "f")
        assert str(caught.value).startswith(problem)


def test_a_value_of_the_wrong_kind_is_named_by_its_key():
    with pytest.raises(UsageError, match=r"f: Expected `int`.*\$\[\.\.\.\]"):
        read_written_json(b'{"a": "b"}', "f", dict[str, int])


@given(st.binary(max_size=60))
def test_no_bytes_break_the_readers(data):
    told = decode_leniently(data)
    msgspec.json.encode(told)
    try:
        assert decode_written(data) == told.text
        assert not told.problem
    except NotText as error:
        assert str(error) == told.problem
    try:
        read_written_json(data, "f", object)
    except UsageError as error:
        assert str(error).startswith("f")
