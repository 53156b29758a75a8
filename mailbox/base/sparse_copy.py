"""Copies contents of files so that what is empty takes no room: long runs of zeros become holes.

Blocks; failures are OSError.
"""

import errno
import os
from collections.abc import Iterator

_CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 64 << 10  # of zeros, from which on there is a hole
_ZEROS = bytes(_BLOCK_BYTES)


def copy_sparse(source: int, target: int, most_bytes: int | None = None) -> int:
    """Copy from where both descriptors stand; returns how many bytes.

    What the source has as holes is not even read, where its file system tells of them.
    """
    start, at = _here(source), _here(target)
    facts_end = os.fstat(source).st_size
    end = facts_end if most_bytes is None else min(facts_end, start + most_bytes)
    done = start
    for first, last in _data_in(source, start, end):
        os.lseek(target, at + first - start, os.SEEK_SET)
        done = first
        while done < last and (chunk := os.pread(source, min(_CHUNK_BYTES, last - done), done)):
            write_sparse(target, chunk)
            done += len(chunk)
        if done < last:
            end = done  # it became shorter meanwhile
            break
    size = end - start
    os.lseek(target, at + size, os.SEEK_SET)
    os.ftruncate(target, at + size)
    return size


def write_sparse(target: int, chunk: bytes) -> None:
    """Write at the present place, or pass over blocks of zeros. Whoever calls sets the size."""
    for block in _blocks(chunk):
        if block == _ZEROS:
            os.lseek(target, len(block), os.SEEK_CUR)
            continue
        view = memoryview(block)
        while view:
            view = view[os.write(target, view) :]


def _blocks(chunk: bytes) -> Iterator[bytes]:
    """The chunk in blocks, or as a whole if it has no block of zeros."""
    if _ZEROS not in chunk:
        yield chunk
        return
    for start in range(0, len(chunk), _BLOCK_BYTES):
        yield chunk[start : start + _BLOCK_BYTES]


def _data_in(source: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of the file that are no holes."""
    at = start
    while at < end:
        try:
            first = os.lseek(source, at, os.SEEK_DATA)
            last = os.lseek(source, first, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            if error.errno != errno.EINVAL:
                raise
            first, last = at, end  # this file system knows of no holes
        if first >= end:
            return
        yield first, min(last, end)
        at = last


def _here(fd: int) -> int:
    return os.lseek(fd, 0, os.SEEK_CUR)
