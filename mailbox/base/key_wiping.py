"""Removes API keys from the environment and overwrites their memory. Linux only.

Deleting a variable only unlinks it: the block that /proc/<pid>/environ shows, and that every fork
copies, still holds the text. Call this before any fork, while there is one thread.
"""

import ctypes
import os
import re
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import suppress
from pathlib import Path

_CREDENTIAL = re.compile(r"key|secret|token|pass|auth|credential|header", re.IGNORECASE)
_WIPEABLE = re.compile(r"[\w+/=.~:-]{16,}", re.ASCII)  # shorter texts may be ordinary words
# fields 50 and 51 of proc(5) stat; index 0 is the field after the name
_ENV_START, _ENV_END = 47, 48
_libc = ctypes.CDLL(None)
_libc.memmem.restype = ctypes.c_void_p
_libc.memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]


def is_credential_name(name: str) -> bool:
    """True if a variable or header of this name likely holds something secret."""
    return _CREDENTIAL.search(name) is not None


def take_keys(environment: MutableMapping[str, str], variables: Collection[str]) -> dict[str, str]:
    """Remove these variables from `environment` and from this process; return their values.

    Their values in the process's initial environment block are overwritten with zeros. Unset
    variables are left out.
    """
    taken = {name: environment.pop(name) for name in variables if name in environment}
    for name in variables:
        os.environ.pop(name, None)
    _wipe_block(set(map(os.fsencode, variables)))
    return taken


def _wipe_block(names: Collection[bytes]) -> None:
    fields = Path("/proc/self/stat").read_bytes().rpartition(b") ")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not names or not 0 < start < end:
        return
    position = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in names:
            ctypes.memset(position + len(name) + 1, 0, len(value))
        position += len(entry) + 1


def wipe_secrets(secrets: Collection[str]) -> int:
    """In a forked child: overwrite all copies of these texts in memory; return their number.

    The fork copied the supervisor's heap. Objects that refer to a copy then hold zeros, so no code
    of the parent may continue here. Texts under 16 characters or with unusual characters are left
    alone: they might be other data.
    """
    found: list[tuple[int, int]] = []
    kept = set(os.environ.values())
    for secret in secrets:
        if not _WIPEABLE.fullmatch(secret) or secret in kept:
            continue
        needle = ctypes.create_string_buffer(secret.encode())
        size = len(secret)
        for start, end in _writable_regions():
            found += ((place, size) for place in _find_copies(start, end, needle, size))
        found.append((ctypes.addressof(needle), size))
    for place, size in found:
        ctypes.memset(place, 0, size)
    return len(found)


def _find_copies(
    start: int, end: int, needle: "ctypes.Array[ctypes.c_char]", size: int
) -> Iterator[int]:
    while start < end and (place := _libc.memmem(start, end - start, needle, size)):
        if place != ctypes.addressof(needle):  # `needle` is still needed for the search
            yield place
        start = place + size


def _writable_regions() -> list[tuple[int, int]]:
    """Private writable mappings without a file: heap, stack, anonymous mappings."""
    regions: list[tuple[int, int]] = []
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            span, rights, _, _, inode = line.split()[:5]
            if rights == "rw-p" and inode == "0":
                start, _, end = span.partition("-")
                regions.append((int(start, 16), int(end, 16)))
    return regions
