"""What a failure of the machine means for a person: what happened, where, and what to do. Pure.

A full disk, no descriptor, no thread or process left, a damaged database: none of them is a fault
of swarm. They are told apart by their type and number, wherever they come out.
"""

import errno
import os
import re
import sys
from typing import cast

_NO_PROCESS = (
    "no further process or thread can be started here; raise the limit (`ulimit -u`, pids.max of "
    "the container or service), or end other programs"
)
_BY_NUMBER: dict[int, str] = {
    errno.ENOSPC: "there is no space left; free some, or set SWARM_HOME to a folder with space",
    errno.EDQUOT: "your quota is used up; free some space, or set SWARM_HOME to another disk",
    errno.EROFS: "it can only be read; set SWARM_HOME to a folder that can be written",
    errno.EMFILE: "too many files are open; raise the limit with `ulimit -n 4096`",
    errno.ENFILE: "too many files are open on this machine; end other programs",
    errno.EAGAIN: _NO_PROCESS,
    errno.ENOMEM: "there is no memory left; end other programs, or use fewer agents (--max-agents)",
    errno.EACCES: "permission was denied; make it accessible, or set SWARM_HOME to another folder",
    errno.EPERM: "it is not permitted; make it accessible, or set SWARM_HOME to another folder",
    errno.ENOENT: "it is gone; it was removed while it was needed",
    errno.ENOTDIR: "it is not a folder any more; move the file of that name away",
    errno.ESTALE: "its network file system has lost it; mount it again",
    errno.EIO: "the disk cannot read or write it; look at the disk's health",
    errno.ENAMETOOLONG: "its name is too long; use a shorter one",
    errno.ELOOP: "its links lead in a circle; fix them",
}
_NO_THREAD = "can't start new thread"
_ABORT = re.compile(r"(.{1,100}) \(src/[\w.]{1,60}:\d{1,6}\)")  # as libzmq says it
_MOST_DEPTH = 20  # of groups of errors


def explain_failure(error: BaseException, *, depth: int = 0) -> str | None:
    """What happened, and what to do; None: nobody but swarm is to blame, or it is not known.

    A group is explained if each of its errors is. The text has one line.
    """
    if isinstance(error, BaseExceptionGroup):
        if depth >= _MOST_DEPTH:
            return None
        group = cast("BaseExceptionGroup[BaseException]", error)
        told = [explain_failure(one, depth=depth + 1) for one in group.exceptions]
        return None if None in told else next(iter(told), None)
    if isinstance(error, Exception) and _is_of_database(error):
        return explain_database(error)
    if isinstance(error, OSError):
        return _explain_os_error(error)
    if isinstance(error, MemoryError):
        return _BY_NUMBER[errno.ENOMEM]
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return _NO_PROCESS
    return None


def explain_abort(said: str) -> str | None:
    """The same for a process that libzmq has ended, by the last line that it wrote."""
    found = _ABORT.fullmatch(said.strip().rpartition("\n")[2])
    if found is None:
        return None
    by_words = {os.strerror(number): text for number, text in _BY_NUMBER.items()}
    return by_words.get(found[1])


def _is_of_database(error: BaseException) -> bool:
    """Without loading sqlite3, which few processes need."""
    if "sqlite3" not in sys.modules:
        return False
    import sqlite3

    return isinstance(error, sqlite3.Error)


def explain_database(error: Exception, *, file: str = "") -> str | None:
    """The same for a database; None: its use is wrong."""
    import sqlite3  # the caller has it

    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    where = file or "a database of swarm"
    match primary:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{where} is locked by another program; end it, or try again in a moment"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"{where} is damaged; move the file away, and a new one is made"
        case sqlite3.SQLITE_FULL:
            return f"{where} cannot grow: {_BY_NUMBER[errno.ENOSPC]}"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return f"{where} cannot be opened or written; look at its permissions"
        case sqlite3.SQLITE_IOERR:
            return f"{where}: {_BY_NUMBER[errno.EIO]}"
        case sqlite3.SQLITE_NOMEM:
            return _BY_NUMBER[errno.ENOMEM]
        case _:
            return None


def _explain_os_error(error: OSError) -> str | None:
    number = error.errno
    told = _BY_NUMBER.get(number) if number is not None else None
    if told is None:
        return None
    name = error.filename
    if isinstance(name, str | bytes) and name:
        return f"{os.fsdecode(name)}: {told}"
    if number in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EAGAIN):
        # Without a name these may be anything; only a fork is known to be short of processes.
        return told if number == errno.EAGAIN else None
    return told
