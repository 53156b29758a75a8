"""Ids of calls, as a wire takes them. Pure.

An id goes back to its own provider as it came. Another provider gets it only if every one takes it
in that form; else it gets a short one, made of the id, which is the same in each request.
"""

import hashlib
import re

_PORTABLE = re.compile(r"[a-zA-Z0-9_-]{1,40}\Z")
_SHORT = re.compile(r"[a-zA-Z0-9]{9}\Z")
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHORT_CHARS = 9  # the only length that Mistral's models take


def is_portable_id(call_id: str) -> bool:
    """True if nearly every server takes this id."""
    return _PORTABLE.match(call_id) is not None


def is_short_id(call_id: str) -> bool:
    """True if every server takes this id."""
    return _SHORT.match(call_id) is not None


def short_id(call_id: str, *, attempt: int = 0) -> str:
    """Nine letters and digits, made of the id."""
    number = int.from_bytes(
        hashlib.blake2b(f"{attempt}:{call_id}".encode("utf-8", "replace"), digest_size=8).digest()
    )
    signs: list[str] = []
    for _ in range(SHORT_CHARS):
        number, place = divmod(number, len(_ALPHABET))
        signs.append(_ALPHABET[place])
    return "".join(signs)
