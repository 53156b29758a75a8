"""The header of a model file: what is read, and that nothing in it is trusted."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.worker.gateway.gguf_header import (
    GgufHeader,
    NotAModelFile,
    check_is_whole,
    read_gguf_header,
)


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


def tensor(name, offset):
    return text(name) + struct.pack("<IQQIQ", 2, 4, 4, 0, offset)


def with_tensors(*pairs, offsets, size):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(offsets), len(pairs)) + b"".join(pairs)
    whole = head + b"".join(tensor(f"t{n}", offset) for n, offset in enumerate(offsets))
    return whole.ljust(-(-len(whole) // 32) * 32, b"\0") + b"w" * size


TOKENS = pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 500) + text("tok") * 500)


@pytest.mark.parametrize(("size", "is_whole"), [(65, True), (64, False), (10, False), (0, False)])
def test_a_file_that_ends_before_its_last_tensor_is_not_whole(tmp_path, size, is_whole):
    path = tmp_path / "m.gguf"
    path.write_bytes(with_tensors(*PAIRS, TOKENS, offsets=[0, 64], size=size))
    if is_whole:
        check_is_whole(path)
        return
    with pytest.raises(NotAModelFile, match=r"m.gguf is not whole: it has [\d,]+ bytes"):
        check_is_whole(path)


def test_a_file_that_ends_within_its_header_is_damaged(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(with_tensors(*PAIRS, TOKENS, offsets=[0], size=9)[:3000])
    with pytest.raises(NotAModelFile, match="its list of tensors cannot be read"):
        check_is_whole(path)


@given(st.binary(max_size=400))
def test_no_header_makes_the_check_fail_in_another_way(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("gguf") / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + data)
    with suppress(NotAModelFile):
        check_is_whole(path)
