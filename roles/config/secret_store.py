"""Secrets of a person by name, for all runs: in the system's keyring where there is one, else in a
file of mode 0600.

The folder is hidden from every command, tool and hook. An entry that the keyring holds leaves a
file that says so: nobody asks a keyring for what it never held, and the setting counts for what is
kept from now on. The keyring is asked through its own program, so that no secret is in an argument.
"""

import fcntl
import hashlib
import os
import site
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.base.private_files import make_own_folders
from swarm.mailbox.protocol.settings import KeepSecrets

from .atomic_replace import replace_file
from .file_reading import read_bounded

KeptIn = Literal["file", "keyring"]
_KEYRING_S = 30.0  # a locked keyring asks the person first
_SERVICE = "swarm"


class SecretsUnavailable(SwarmError):
    """A secret cannot be read or kept now. The text holds no part of it."""


class _Pointer(msgspec.Struct, forbid_unknown_fields=True):
    """What stands in the file of an entry that the keyring holds."""

    kept_in: Literal["keyring"]


class SecretStore:
    """The secrets in a folder. Blocks: for a small file, or for the keyring's program.

    Args:
        folder: Made with the first entry, mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._given: dict[str, tuple[tuple[int, int], bytes]] = {}  # by the keyring

    def names(self) -> tuple[str, ...]:
        """Every entry, sorted."""
        return tuple(sorted(path.stem for path in self.folder.glob("*.json")))

    def kept_in(self, name: str) -> KeptIn | None:
        """Where the entry is; None: there is none."""
        data = self._read_file(name)
        return None if data is None else "keyring" if _is_pointer(data) else "file"

    def read(self, name: str) -> bytes | None:
        """The entry; None: there is none. Raises SecretsUnavailable."""
        data = self._read_file(name)
        if data is None or not _is_pointer(data):
            return data
        mark = self._mark(name)
        if (given := self._given.get(name)) is not None and given[0] == mark:
            return given[1]  # its file is written with each new content
        found = self._ask_keyring("get", name)
        if found.returncode != 0 or not found.stdout.strip():
            raise SecretsUnavailable(
                f"`{name}` is kept in the keyring, which does not give it{_why(found)}; unlock it, "
                'or set `mcp_oauth_credentials_store = "file"` and log in again'
            )
        self._given[name] = (mark, found.stdout.strip())
        return found.stdout.strip()

    def write(self, name: str, data: bytes, wanted: KeepSecrets | None = None) -> KeptIn:
        """Put the entry in place of the one before; returns where it is. Raises SecretsUnavailable.

        Args:
            data: One line.
            wanted: None: where the entry is now.
        """
        before: KeptIn | None = None
        with suppress(SecretsUnavailable):  # what cannot be read is replaced
            before = self.kept_in(name)
        wanted = wanted or before or "auto"
        where: KeptIn = "keyring" if wanted != "file" and self._try_keyring(name, data) else "file"
        if wanted == "keyring" and where == "file":
            raise SecretsUnavailable(
                f"`{name}` cannot be kept in the keyring: {self._lack()}; with "
                '`mcp_oauth_credentials_store = "file"` it is kept in a file for you alone'
            )
        try:
            make_own_folders(self.folder)
            pointer = msgspec.json.encode(_Pointer(kept_in="keyring"))
            replace_file(self._path(name), pointer if where == "keyring" else data)
        except OSError as error:
            raise SecretsUnavailable(
                f"`{name}` cannot be kept in {self.folder}: {error.strerror or error}"
            ) from error
        if before == "keyring" and where == "file":
            self._ask_keyring("del", name)
        return where

    def remove(self, name: str) -> bool:
        """Forget the entry; False if there was none. Raises OSError, SecretsUnavailable."""
        where = self.kept_in(name)
        if where == "keyring":
            gone = self._ask_keyring("del", name)
            if gone.returncode != 0 and self._ask_keyring("get", name).stdout.strip():
                raise SecretsUnavailable(f"the keyring does not forget `{name}`{_why(gone)}")
        with suppress(FileNotFoundError):
            self._path(name).unlink()
            return True
        return False

    @contextmanager
    def try_locked(self, name: str) -> Iterator[bool]:
        """Hold the entry alone within the block, if no other process does: whether it is held.

        The lock ends with the process. Raises SecretsUnavailable if its file cannot be made.
        """
        path = self._path(name).with_suffix(".lock")
        try:
            make_own_folders(self.folder)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(path, flags, 0o600)
        except OSError as error:
            text = f"{path} cannot be locked: {error.strerror or error}"
            raise SecretsUnavailable(text) from error
        try:
            yield _lock(handle)
        finally:
            os.close(handle)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def _mark(self, name: str) -> tuple[int, int]:
        try:
            facts = self._path(name).stat()
        except OSError:
            return (0, 0)
        return (facts.st_ino, facts.st_mtime_ns)

    def _read_file(self, name: str) -> bytes | None:
        try:
            return read_bounded(self._path(name))
        except FileNotFoundError:
            return None
        except (OSError, SwarmError) as error:
            raise SecretsUnavailable(f"{self._path(name)} cannot be read: {error}") from error

    def _try_keyring(self, name: str, data: bytes) -> bool:
        """True if the keyring holds the entry now: it gives back what it was given."""
        if find_spec("keyring") is None or self._ask_keyring("set", name, data).returncode != 0:
            return False
        return self._ask_keyring("get", name).stdout.strip() == data

    def _lack(self) -> str:
        if find_spec("keyring") is None:
            return f"its library is not installed (`{line_for_extra('keyring')}`)"
        return f"it does not take it{_why(self._ask_keyring('get', 'nothing'))}"

    def _ask_keyring(
        self, verb: str, name: str, data: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        """Two folders of state never share an entry."""
        own = hashlib.sha256(os.fsencode(self.folder.absolute())).hexdigest()[:16]
        home = os.path.expanduser("~")  # noqa: PTH111 (never raises)
        argv = [*_program(), verb, _SERVICE, f"{name}-{own}"]
        try:
            return subprocess.run(
                argv, input=data, capture_output=True, check=False, cwd=home, timeout=_KEYRING_S,
                env=_environment(), start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            late = f"no answer within {_KEYRING_S:g} s".encode()
            return subprocess.CompletedProcess(argv, 1, b"", late)
        except OSError as error:
            return subprocess.CompletedProcess(argv, 1, b"", str(error).encode())


def _program() -> tuple[str, ...]:
    """Packages of the home folder are not loaded at its start, unless it is one of them."""
    found, own = find_spec("keyring"), site.getusersitepackages()
    is_own = found is not None and (found.origin or "").startswith(f"{own}/")
    return (sys.executable, "-P", *(() if is_own else ("-s",)), "-m", "keyring")


def _environment() -> dict[str, str]:
    """Without what would load other modules: agents of a run may write what such variables name."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "LD_")) or name == "PYTHON_KEYRING_BACKEND"
    }


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_pointer(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=_Pointer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _why(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Its last line of complaint, printable; it is not told what it holds."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    shown = "".join(sign for sign in lines[-1] if sign.isprintable())[:200] if lines else ""
    return f" ({shown})" if shown else ""
