"""The API keys of the gateway: received at the start, or fetched from a file or a command.

A fetched key is kept until its refresh time, or until a server refuses it; one task fetches while
the others wait. Before a new key is used, `learn` adds it to the redaction lists.
"""

import os
import re
import signal
import stat
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

import trio

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import Lookup, held_environment
from swarm.mailbox.base.redact import MIN_SECRET_CHARS, Redactor
from swarm.mailbox.protocol.spec import KeyCommand, ProviderSpec
from swarm.roles.base.started_programs import find_started, why_started_unheld

from ..parts.key_parts import fetch_part_key
from .providers import ProviderError, is_header

OnNewSecret = Callable[[str], Awaitable[None]]
MOST_OUTPUT_BYTES = 64 * 1024
_MAX_ERROR_CHARS = 300
_SIGN = re.compile(r"[^\x20-\x7e]+")
_RETRY_S = 10.0
RENEW_PAUSE_S = 5.0  # many refusals of a key within this time cause one fetch


class KeyUnavailable(ProviderError):
    """The provider's key cannot be obtained. The text says why and contains no part of the key."""


async def _ignore_secret(secret: str) -> None:
    """For callers that write nothing that would need redaction."""


class ProviderKeys:
    """Keys by name: an environment variable, or `model_providers.ID.…` for all other sources.

    Args:
        values: The keys received through the pipe.
        learn: Called with each fetched key before it is used.
        warn: Called when a key could not be fetched again.
    """

    def __init__(
        self,
        values: Mapping[str, str],
        *,
        on_secret: OnNewSecret = _ignore_secret,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.values = dict(values)
        self._given = frozenset(name for name, value in values.items() if value.strip())
        self._on_new_secret, self._warn = on_secret, warn
        self._due: dict[str, float] = {}  # name → when it must be fetched again
        self._renewed: dict[str, float] = {}  # name → when it was last fetched after a refusal
        self._lock = trio.Lock()

    async def ensure_key(self, provider: ProviderSpec) -> None:
        """Make sure that the provider's key is fresh. Raises KeyUnavailable if there is none."""
        name = provider.env_key
        if name is None or not self._fetches(provider):
            return
        if trio.current_time() < self._due.get(name, 0.0):
            return
        async with self._lock:
            if trio.current_time() < self._due.get(name, 0.0):
                return
            try:
                await self._fetch(provider, name)
            except KeyUnavailable as error:
                if name not in self.values or provider.account is not None:
                    raise
                self._warn(f"{error}; the key that was there goes on being used")
                self._set_due(provider, name)

    async def refresh_key(self, provider: ProviderSpec, refused: str) -> bool:
        """A server refused a key: True if there is another key now, so that a retry makes sense.

        Raises KeyUnavailable if the key is an account's, which has no other one any more.
        """
        name = provider.env_key
        if name is None or not self._fetches(provider):
            return False
        async with self._lock:
            if self.values.get(name) != refused:
                return True
            if trio.current_time() < self._renewed.get(name, -RENEW_PAUSE_S) + RENEW_PAUSE_S:
                return False
            self._renewed[name] = trio.current_time()
            try:
                await self._fetch(provider, name, refused)
            except KeyUnavailable as error:
                if provider.account is not None:
                    raise
                self._warn(str(error))
                return False
            return self.values[name] != refused

    def _fetches(self, provider: ProviderSpec) -> bool:
        """True if the gateway gets the key itself; an account's gives way to a variable."""
        if provider.account is not None and self.is_from_variable(provider):
            return False
        return provider.fetches_key

    def is_from_variable(self, provider: ProviderSpec) -> bool:
        """True if the key came in the person's environment, or stands in the configuration."""
        return provider.env_key in self._given

    async def _fetch(self, provider: ProviderSpec, name: str, refused: str = "") -> None:
        if provider.account is not None or provider.credentials is not None:
            await self._fetch_of_part(provider, name, refused)
            return
        if provider.key_command is not None:
            key = await run_key_command(provider.key_command)
        else:
            key = read_key_file(Path(provider.key_file))
        if key != self.values.get(name):
            await self._on_new_secret(key)
            self.values[name] = key
        self._set_due(provider, name)

    async def _fetch_of_part(self, provider: ProviderSpec, name: str, refused: str) -> None:
        try:
            given = await fetch_part_key(provider, refused, self._run_command)
        except SwarmError as error:
            raise KeyUnavailable(str(error)) from error
        if given.warning:
            self._warn(given.warning)
        for secret in given.secrets:
            if secret not in self.values.values():
                await self._on_new_secret(secret)
        self.values |= {**given.values, name: given.key}
        lasts_s = float("inf") if given.lasts_s is None else given.lasts_s
        self._due[name] = trio.current_time() + lasts_s

    async def _run_command(self, command: KeyCommand) -> str:
        """With the variables that it may have; they came through the pipe."""
        given = {one: self.values[one] for one in command.variables if one in self.values}
        return await run_key_command(command, given)

    def _set_due(self, provider: ProviderSpec, name: str) -> None:
        if provider.credentials is not None:  # one that failed; what was there may end at any time
            self._due[name] = trio.current_time() + _RETRY_S
            return
        refresh_s = 0.0 if provider.key_command is None else provider.key_command.refresh_s
        self._due[name] = trio.current_time() + refresh_s if refresh_s else float("inf")


def read_key_file(path: Path) -> str:
    """Read the key from a file that only its owner can read. Raises KeyUnavailable."""
    name = f"key_file {path}"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyUnavailable(f"{name}: cannot be read: {error.strerror}") from error
    try:
        if (problem := file_problem(os.fstat(fd))) is not None:
            raise KeyUnavailable(f"{name}: {problem}")
        data = os.read(fd, MOST_OUTPUT_BYTES + 1)
    except OSError as error:
        raise KeyUnavailable(f"{name}: cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)
    return check_key(data, name)


def file_problem(found: os.stat_result) -> str | None:
    """Why a file must not be used for a key; None if it may."""
    if not stat.S_ISREG(found.st_mode):
        return "not a plain file"
    if found.st_uid not in {os.geteuid(), 0}:
        return "belongs to another user"
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        return f"others may read or change it (mode {mode:04o}); type chmod 600 on it"
    return None


async def run_key_command(command: KeyCommand, variables: Mapping[str, str] | None = None) -> str:
    """The command's output as one line. Raises KeyUnavailable.

    `variables` are added to its environment.
    """
    name = command.what
    try:
        with trio.fail_after(command.timeout_s):
            output, complaint, code = await _run(command, variables or {})
    except trio.TooSlowError as error:
        text = f"{name}: no answer within {command.timeout_s:g} s; it was ended"
        raise KeyUnavailable(text) from error
    except OSError as error:
        where = error.filename if error.filename is not None else command.argv[0]
        raise KeyUnavailable(f"{name}: cannot be started: {where}: {error.strerror}") from error
    if code != 0:
        ending = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        error_line = _last_line(complaint, output)
        raise KeyUnavailable(f"{name}: it {ending}{': ' + error_line if error_line else ''}")
    return check_key(output, name)


def check_key(data: bytes, name: str) -> str:
    """The single line of a file or an output. Raises KeyUnavailable."""
    if len(data) > MOST_OUTPUT_BYTES:
        raise KeyUnavailable(f"{name}: over {MOST_OUTPUT_BYTES:,} bytes; this is not a key")
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise KeyUnavailable(f"{name}: there is no key in it, only blanks")
    if "\n" in text:
        raise KeyUnavailable(f"{name}: more than one line; the key must stand alone")
    if not is_header("authorization", text):
        raise KeyUnavailable(f"{name}: it has characters that no header may hold")
    return text


def _held_command(command: KeyCommand) -> tuple[tuple[str, ...], dict[str, str], str]:
    """Its words, with the program's absolute path, its variables and its folder.

    It runs unconfined and may read what the person has stored. Raises KeyUnavailable.
    """
    cwd = command.cwd or _home()
    lookup = Lookup(command.path or os.environ.get("PATH", ""), cwd, command.places)
    found = find_started(command.argv, lookup)
    if why := why_started_unheld(found, lookup):
        advice = "; name a program that lies elsewhere by its absolute path" if found.path else ""
        raise KeyUnavailable(f"{command.what}: cannot be started: {why}{advice}")
    return (found.path, *command.argv[1:]), held_environment(os.environ, lookup), cwd


async def _run(command: KeyCommand, variables: Mapping[str, str]) -> tuple[bytes, bytes, int]:
    argv, environment, cwd = _held_command(command)
    process = await trio.lowlevel.open_process(
        list(argv),
        env=environment | dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    output, complaint = bytearray(), bytearray()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_read, process.stdout, output)
            nursery.start_soon(_read, process.stderr, complaint)
            code = await process.wait()
            nursery.cancel_scope.deadline = trio.current_time() + 0.5  # others may hold its pipes
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with trio.move_on_after(1, shield=True):
            await process.stdout.aclose()
            await process.stderr.aclose()
            await process.wait()
    return bytes(output), bytes(complaint), code


def _home() -> str:
    """Not the agents' working folder: there a program name could mean another program."""
    return os.path.expanduser("~")  # noqa: PTH111 (never raises)


async def _read(pipe: trio.abc.ReceiveStream, into: bytearray) -> None:
    """Read everything; data beyond the limit is dropped, so that the command does not block."""
    while piece := await pipe.receive_some():
        into += piece[: MOST_OUTPUT_BYTES + 1 - len(into)]


def _last_line(complaint: bytes, output: bytes) -> str:
    """The last line of stderr, in printable ASCII, without the words of stdout."""
    lines = complaint.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ""
    words = output.decode("utf-8", "replace").split()
    hidden = Redactor(word for word in words if len(word) >= MIN_SECRET_CHARS)
    return hidden.redact_error(_SIGN.sub(" ", lines[-1]).strip())[:_MAX_ERROR_CHARS]
