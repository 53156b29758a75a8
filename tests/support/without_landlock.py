"""Become a command for which the kernel has no Landlock: `python without_landlock.py CMD…`.

A system-call filter answers ENOSYS to `landlock_create_ruleset`, as an older kernel does.
"""

import ctypes
import os
import struct
import sys

_LANDLOCK_CREATE_RULESET = 444
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER = 38, 22, 2
_ENOSYS = 38


def main(words: list[str]) -> None:
    program = b"".join(
        struct.pack("=HBBI", *step)
        for step in (
            (0x20, 0, 0, 0),  # the call's number
            (0x15, 0, 1, _LANDLOCK_CREATE_RULESET),
            (0x06, 0, 0, 0x00050000 | _ENOSYS),
            (0x06, 0, 0, 0x7FFF0000),
        )
    )
    held = ctypes.create_string_buffer(program, len(program))
    packed = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((_NO_NEW_PRIVS, 1, 0, 0, 0), (_SET_SECCOMP, _FILTER, packed)):
        if libc.prctl(*call):
            raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(words[0], words)


if __name__ == "__main__":
    main(sys.argv[1:])
