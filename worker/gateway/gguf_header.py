"""The header of a GGUF model file: what the model is, its window, and the memory that it needs.

Only the beginning of the key-value section is read for that: the values that count stand before the
tokenizer's tables. `check_is_whole` reads on to the list of tensors, once, when a file is added.
Nothing here trusts a length that the file states.

Source: the GGUF specification, versions 2 and 3 (version 1 has other lengths and is refused).
"""

import struct
from collections.abc import Callable
from pathlib import Path

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.protocol.values.base import Value

_MAGIC = b"GGUF"
_HEAD_BYTES = 1 << 20  # how much of the file is read
_WHOLE_HEAD_BYTES = 64 << 20  # with the tokenizer's tables; a longer one is not checked
_MOST_PAIRS = 256
_MOST_DIMENSIONS = 8
_ALIGNMENT = 32  # of the tensors, where the file does not say
_MOST_TEXTS = 64  # of a list that is skipped; a tokenizer has thousands
_MOST_TEXT_BYTES = 64 * 1024
_F16_BYTES = 2  # of one value in the key-value cache
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?",
    10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_TEXT, _ARRAY = 8, 9

Scalar = int | float | bool | str


class NotAModelFile(SwarmError):
    """The file is no GGUF file, or not a whole one. The text names what is wrong with it."""

    exit_code = 5


class GgufHeader(Value):
    """What a model file says of itself. 0 or "": it does not say."""

    architecture: str = ""
    name: str = ""
    context_window: int = 0  # tokens that it was trained with
    layers: int = 0
    key_value_width: int = 0  # values that one token adds to the cache of one layer

    def cache_bytes(self, tokens: int) -> int:
        """Memory of a key-value cache for so many tokens, 16 bits a value; 0 if unknown."""
        return self.layers * self.key_value_width * _F16_BYTES * tokens


def read_gguf_header(path: Path) -> GgufHeader:
    """Read the header.

    Raises:
        NotAModelFile: it is no GGUF file of version 2 or 3, or it is cut off within its header.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_HEAD_BYTES)
    if data[:4] != _MAGIC:
        raise NotAModelFile(f"{path} is not a GGUF model file: it does not begin with GGUF")
    try:
        values = _read_pairs(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise NotAModelFile(f"{path} is damaged: its GGUF header cannot be read") from error
    return _header(values)


def check_is_whole(path: Path) -> None:
    """Find a file that was cut off: it ends before its last tensor begins.

    Raises:
        NotAModelFile: it is cut off, or its header cannot be read.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        data, size_bytes = file.read(_WHOLE_HEAD_BYTES), path.stat().st_size
    try:
        needed_bytes = _needed_bytes(data)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        if size_bytes > len(data):
            return  # its header is longer than what was read
        raise NotAModelFile(f"{path} is damaged: its list of tensors cannot be read") from error
    if size_bytes <= needed_bytes:
        raise NotAModelFile(
            f"{path} is not whole: it has {size_bytes:,} bytes and needs more than "
            f"{needed_bytes:,}. Fetch it again"
        )


def _needed_bytes(data: bytes) -> int:
    """Where the last tensor begins; -1 for a file without tensors."""
    (tensors,) = struct.unpack_from("<Q", data, 8)
    values, at = _read_all_pairs(data, _skip_any_array)
    offsets: list[int] = []
    while len(offsets) < tensors:
        _, at = _text(data, at)
        (dimensions,) = struct.unpack_from("<I", data, at)
        if dimensions > _MOST_DIMENSIONS:
            raise IndexError(dimensions)
        at += 4 + 8 * dimensions + 4
        offsets.append(struct.unpack_from("<Q", data, at)[0])
        at += 8
    stated = values.get("general.alignment", _ALIGNMENT)
    alignment = stated if isinstance(stated, int) and 0 < stated < 1 << 20 else _ALIGNMENT
    return -(-at // alignment) * alignment + max(offsets) if offsets else -1


def _read_pairs(data: bytes) -> dict[str, Scalar]:
    """The scalar values up to the first long array, in the file's order."""
    return _read_all_pairs(data, _skip_array)[0]


def _read_all_pairs(
    data: bytes, skip_array: Callable[[bytes, int], int | None]
) -> tuple[dict[str, Scalar], int]:
    """The scalar values until `skip_array` returns None, and the position behind them."""
    version, _, count = struct.unpack_from("<IQQ", data, 4)
    if version not in (2, 3):
        raise IndexError(version)
    at, values = 24, dict[str, Scalar]()
    for _ in range(min(count, _MOST_PAIRS)):
        key, at = _text(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        at += 4
        if kind == _ARRAY:
            skipped = skip_array(data, at)
            if skipped is None:
                break
            at = skipped
        elif kind == _TEXT:
            values[key], at = _text(data, at)
        else:
            form = _SCALARS.get(kind, "")
            if not form:
                raise IndexError(kind)
            (values[key],) = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
    return values, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from("<Q", data, at)
    end = at + 8 + size
    if size > _MOST_TEXT_BYTES or end > len(data):
        raise IndexError(size)
    return data[at + 8 : end].decode("utf-8", "replace"), end


def _skip_array(data: bytes, at: int) -> int | None:
    """The position after an array. None: a tokenizer's table begins; enough is known."""
    kind, size = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind == _TEXT and size <= _MOST_TEXTS:
        for _ in range(size):
            _, at = _text(data, at)
        return at
    if kind not in _SCALARS:
        return None
    end: int = at + size * struct.calcsize(_SCALARS[kind])
    return end if end <= len(data) else None


def _skip_any_array(data: bytes, at: int) -> int:
    """The position after an array of any length, without lists in it."""
    kind, size = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind == _TEXT:
        for _ in range(size):
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8 + length
        return at
    if kind not in _SCALARS:
        raise IndexError(kind)
    end: int = at + size * struct.calcsize(_SCALARS[kind])
    return end


def _header(values: dict[str, Scalar]) -> GgufHeader:
    architecture = str(values.get("general.architecture", ""))

    def number(name: str) -> int:
        value = values.get(f"{architecture}.{name}", 0)
        return value if isinstance(value, int) and 0 < value < 1 << 32 else 0

    heads = number("attention.head_count")
    shared = number("attention.head_count_kv") or heads
    usual = number("embedding_length") // heads if heads else 0
    key = number("attention.key_length") or usual
    value = number("attention.value_length") or usual
    return GgufHeader(
        architecture=architecture,
        name=str(values.get("general.name", "")),
        context_window=number("context_length"),
        layers=number("block_count"),
        key_value_width=shared * (key + value),
    )
