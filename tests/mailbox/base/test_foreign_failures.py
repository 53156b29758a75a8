"""What the machine lacks is told with what to do; a fault of ours is not explained away."""

import errno
import os
import sqlite3
from contextlib import closing

import pytest

from swarm.mailbox.base.foreign_failures import explain_abort, explain_database, explain_failure


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/s/a"), "/s/a: there is no space left"),
        (OSError(errno.EDQUOT, "x", "/s/a"), "your quota is used up"),
        (OSError(errno.EROFS, "x", "/s/a"), "SWARM_HOME"),
        (OSError(errno.EMFILE, "x"), "ulimit -n"),
        (OSError(errno.ENFILE, "x"), "too many files"),
        (OSError(errno.EAGAIN, "x"), "pids.max"),
        (FileNotFoundError(errno.ENOENT, "x", "/s/memories"), "/s/memories: it is gone"),
        (MemoryError(), "no memory left"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (ExceptionGroup("g", [ExceptionGroup("h", [OSError(errno.EMFILE, "x")])]), "ulimit -n"),
    ],
)
def test_a_failure_of_the_machine_says_what_to_do(error, words):
    assert words in explain_failure(error)
    assert "\n" not in explain_failure(error)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("x"), ValueError("x"), KeyError("x"), OSError("x"), OSError(errno.EBADF, "x"),
        FileNotFoundError(errno.ENOENT, "x"), sqlite3.ProgrammingError("x"),
        ExceptionGroup("g", [OSError(errno.EMFILE, "x"), ValueError("x")]),
    ],
)  # fmt: skip
def test_a_fault_of_ours_is_not_explained_away(error):
    assert explain_failure(error) is None


def test_a_group_of_any_depth_is_bounded():
    error: Exception = OSError(errno.EMFILE, "x")
    for _ in range(200):
        error = ExceptionGroup("g", [error])
    assert explain_failure(error) is None


def failure_of(file, *statements):
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as base:
        with pytest.raises(sqlite3.Error) as caught:
            for statement in statements:
                base.execute(statement).fetchall()
        return caught.value


def test_real_failures_of_a_database_are_told_apart(tmp_path):
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"no database at all" * 100)
    assert "damaged" in explain_database(failure_of(damaged, "SELECT * FROM sqlite_master"))
    locked = tmp_path / "locked"
    with closing(sqlite3.connect(locked, isolation_level=None)) as holder:
        holder.execute("CREATE TABLE t (a)")
        holder.execute("BEGIN EXCLUSIVE")
        error = failure_of(locked, "INSERT INTO t VALUES (1)")
        assert "locked by another program" in explain_database(error, file="/x")
    full = ("PRAGMA max_page_count = 3", "CREATE TABLE t (a)", "CREATE TABLE u (a)",
            "INSERT INTO t VALUES (zeroblob(100000))")  # fmt: skip
    assert "no space left" in explain_failure(failure_of(tmp_path / "full", *full))
    readonly = failure_of(locked, "PRAGMA query_only = 1", "INSERT INTO t VALUES (1)")
    assert "permissions" in explain_failure(readonly)


def test_a_process_that_libzmq_ended_is_told_by_its_last_words():
    said = "a line\nResource temporarily unavailable (src/thread.cpp:241)\n"
    assert "pids.max" in explain_abort(said)
    assert "ulimit -n" in explain_abort("Too many open files (src/epoll.cpp:38)")
    for odd in ("", "Segmentation fault", "what (src/x.cpp:1)", "Too many open files"):
        assert explain_abort(odd) is None
