"""The header of a model file: what is read, and that nothing in it is trusted."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.gguf_header import GgufHeader, NotAModelFile, read_gguf_header


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, packed):
    return text(key) + struct.pack("<I", kind) + packed


def number(key, value):
    return pair(key, 4, struct.pack("<I", value))


def model_file(*pairs, version=3, count=None):
    total = len(pairs) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", version, 0, total) + b"".join(pairs)


PAIRS = (
    pair("general.architecture", 8, text("qwen2")),
    pair("general.name", 8, text("A model")),
    pair("general.tags", 9, struct.pack("<IQ", 8, 1) + text("chat")),
)
SIZES = (
    number("qwen2.context_length", 32768),
    number("qwen2.block_count", 28),
    number("qwen2.embedding_length", 1536),
    number("qwen2.attention.head_count", 12),
    number("qwen2.attention.head_count_kv", 2),
)


def test_the_header_tells_window_and_size_of_the_cache(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(model_file(*PAIRS[:2], *SIZES, PAIRS[2]))
    header = read_gguf_header(path)
    assert header == GgufHeader(
        architecture="qwen2", name="A model", context_window=32768, layers=28, key_value_width=512
    )
    assert header.cache_bytes(32768) == 939_524_096


def test_numbers_behind_a_list_of_texts_are_read_too(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(model_file(*PAIRS, *SIZES))
    assert read_gguf_header(path).layers == 28


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not a GGUF model file"),
        (b"root:x:0:0", "is not a GGUF model file"),
        (b"GGUF", "its GGUF header cannot be read"),
        (model_file(version=1), "its GGUF header cannot be read"),
        (model_file(*PAIRS, count=9), "its GGUF header cannot be read"),
        (model_file(pair("a", 99, b"")), "its GGUF header cannot be read"),
        (model_file(struct.pack("<Q", 1 << 60)), "its GGUF header cannot be read"),
    ],
)
def test_what_is_no_model_file_is_told_by_its_fault(tmp_path, data, said):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(NotAModelFile, match=said):
        read_gguf_header(path)


@given(st.binary(max_size=400))
def test_any_bytes_give_a_header_or_a_clear_refusal(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(model_file(*PAIRS, count=20) + data)
    with suppress(NotAModelFile):
        assert read_gguf_header(path).layers >= 0
