"""Saves an approved rule: appends one line to the user's `rules/default.rules`.

Called only after a person's approval. The line is one that a person could have written; the rest of
the file stays. A link, another user's file, or a folder or file that others may write is refused.
The file is replaced atomically under a lock: a reader sees the old one or the new one.
"""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.private_files import make_own_folders

from ..config.atomic_replace import lock_folder_handle
from .matching import is_banned
from .rule_parsing import RuleRefused, normalize_rule_host

RULES_FILE = "default.rules"
RuleProtocol = Literal["http", "https", "socks5_tcp", "socks5_udp"]
_PROTOCOL_NAMES = {"https": "https_connect"}
_MAX_BYTES = 256 << 10
_MAX_LINE = 8 << 10


class RuleNotSaved(SwarmError):
    """Nothing was written; the rules on disk are unchanged."""


def append_prefix_rule(rules_folder: Path, prefix: Sequence[str], *, exact: bool = False) -> Path:
    """Allow commands that begin with these words, or are exactly these, from now on.

    Returns the file.

    Raises RuleNotSaved for a banned or impossible prefix, or an untrusted file.
    """
    if not prefix or not all(prefix[:1]):
        raise RuleNotSaved("no rule was saved: a prefix needs at least one word")
    if is_banned(prefix):
        raise RuleNotSaved(
            f"no rule was saved: a rule for `{' '.join(prefix)}` alone would allow nearly "
            "anything; give more of the command"
        )
    words = ", ".join(_quote(word) for word in prefix)
    more = ", exact=True" if exact else ""
    return _append(rules_folder, f'prefix_rule(pattern=[{words}], decision="allow"{more})')


def append_network_rule(
    rules_folder: Path, host: str, protocol: RuleProtocol, decision: Literal["allow", "deny"]
) -> Path:
    """Always allow, or always deny, a host; return the file. Raises RuleNotSaved."""
    try:
        name = normalize_rule_host(host)
    except RuleRefused as error:
        raise RuleNotSaved(f"no rule was saved: {error}") from error
    verb = "Allow" if decision == "allow" else "Deny"
    why = _quote(f"{verb} {_PROTOCOL_NAMES.get(protocol, protocol)} access to {name}")
    return _append(
        rules_folder,
        f'network_rule(host={_quote(name)}, protocol="{protocol}", decision="{decision}", '
        f"justification={why})",
    )


def _quote(text: str) -> str:
    """Quote as JSON. Unprintable text is refused, because Starlark would read it differently."""
    if not text.isprintable():
        raise RuleNotSaved("no rule was saved: a word of it holds a control character")
    return json.dumps(text, ensure_ascii=False)


def _append(folder: Path, line: str) -> Path:
    path = folder / RULES_FILE
    if len(line.encode()) > _MAX_LINE:
        raise RuleNotSaved("no rule was saved: it would be longer than 8 KiB")
    try:
        with _locked(folder) as handle:
            before = _read(handle, path)
            if line in before.split("\n"):
                return path
            gap = "" if not before or before.endswith("\n") else "\n"
            after = f"{before}{gap}{line}\n".encode()
            if len(after) > _MAX_BYTES:
                raise RuleNotSaved(f"no rule was saved: {path} would be over 256 KiB")
            _replace(handle, after)
    except OSError as error:
        raise RuleNotSaved(f"no rule was saved in {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RuleNotSaved(f"no rule was saved: {path} is not UTF-8") from error
    return path


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Lock the folder and yield its descriptor; all further steps are relative to it."""
    make_own_folders(folder.parent)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(os.fstat(handle), folder)
        lock_folder_handle(handle, folder)
        yield handle
    finally:
        os.close(handle)


def _read(handle: int, path: Path) -> str:
    try:
        file = os.open(
            RULES_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle
        )
    except FileNotFoundError:
        return ""
    with os.fdopen(file, "rb") as stream:
        facts = os.fstat(file)
        _check(facts, path)
        if not stat.S_ISREG(facts.st_mode):
            raise RuleNotSaved(f"no rule was saved: {path} is not a regular file")
        return stream.read(_MAX_BYTES + 1).decode()


def _replace(handle: int, content: bytes) -> None:
    """Write a temporary file and rename it over the rules file, inside the open folder."""
    name = f".{RULES_FILE}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=handle)
    try:
        with os.fdopen(os.open(name, flags, 0o600, dir_fd=handle), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(name, RULES_FILE, src_dir_fd=handle, dst_dir_fd=handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=handle)
        raise


def _check(facts: os.stat_result, path: Path) -> None:
    if facts.st_uid != os.getuid():
        raise RuleNotSaved(f"no rule was saved: {path} belongs to someone else")
    if facts.st_mode & 0o022:
        raise RuleNotSaved(f"no rule was saved: others may write {path}; run `chmod go-w {path}`")
