"""renameat2 with all its flags, which Python lacks."""

import ctypes
import os
import platform

from .path_resolution import ResolvedEntry

_NUMBERS = {"x86_64": 316, "aarch64": 276}
_libc = ctypes.CDLL(None, use_errno=True)


def rename_entry(source: ResolvedEntry, target: ResolvedEntry, flags: int) -> None:
    """Rename an entry. Raises OSError as the kernel does."""
    number = _NUMBERS[platform.machine()]
    done = _libc.syscall(
        number, source.folder, source.name, target.folder, target.name, ctypes.c_uint(flags)
    )
    if done < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
