"""What a person reads instead of a traceback: one line, and a file to send with a report."""

import errno
import os
import sys
import time
import traceback
from pathlib import Path

from swarm.mailbox.base.private_files import make_own_folders

_OUTPUT_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
_MOST_BYTES = 256 << 10


def describe_os_error(error: OSError) -> str | None:
    """The words for a failure that says by itself what it is about; None for others."""
    if isinstance(error.filename, str | bytes) and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if error.errno in _OUTPUT_FAULTS:
        return f"standard output could not be written: {error.strerror}"
    return None


def report_fault(error: BaseException, folder: Path) -> str:
    """Write the traceback into a file that its owner alone can read; the words for the person.

    Args:
        error: A fault of swarm itself.
        folder: Where the file goes; it is made.
    """
    from swarm.mailbox.base.redact import Redactor  # seldom needed, and it takes time to import

    from ....base.version import VERSION

    last = traceback.format_exception_only(error)[-1].strip()
    head = f"swarm {VERSION}, Python {sys.version.split()[0]}\n{' '.join(sys.argv[:2])}\n\n"
    text = Redactor(()).redact(head + "".join(traceback.format_exception(error)))
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    try:
        make_own_folders(folder)
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(text[-_MOST_BYTES:])
    except OSError as failed:
        where = f"it could not be saved ({failed.strerror})"
    else:
        where = f"what happened is in {path}; please report it"
    return f"this is a fault of swarm: {Redactor(()).redact(last)[:300]}; {where}"
