"""Run a command that prints an API key, with a timeout and an output limit.

When the command ends, the processes that it left in its session are killed. Its output is never
reported. Of its stderr only the last line is reported, without the words of its output.
"""

import os
import re
import signal
import subprocess
from contextlib import suppress

import trio

from swarm.mailbox.protocol.spec import KeyCommand
from swarm.mailbox.redact import MIN_SECRET_CHARS, Redactor

from .providers import ProviderError, is_header

MOST_OUTPUT_BYTES = 64 * 1024
_MAX_ERROR_CHARS = 300
_SIGN = re.compile(r"[^\x20-\x7e]+")


class KeyUnavailable(ProviderError):
    """The provider's key cannot be obtained. The text says why and contains no part of the key."""


async def run_key_command(command: KeyCommand) -> str:
    """The command's output as one line. Raises KeyUnavailable."""
    name = command.what
    try:
        with trio.fail_after(command.timeout_s):
            output, complaint, code = await _run(command)
    except trio.TooSlowError as error:
        text = f"{name}: no answer within {command.timeout_s:g} s; it was ended"
        raise KeyUnavailable(text) from error
    except OSError as error:
        where = error.filename if error.filename is not None else command.argv[0]
        raise KeyUnavailable(f"{name}: cannot be started: {where}: {error.strerror}") from error
    if code != 0:
        ending = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        said = _last_line(complaint, output)
        raise KeyUnavailable(f"{name}: it {ending}{': ' + said if said else ''}")
    return check_key(output, name)


def check_key(data: bytes, name: str) -> str:
    """The single line of a file or an output. Raises KeyUnavailable."""
    if len(data) > MOST_OUTPUT_BYTES:
        raise KeyUnavailable(f"{name}: over {MOST_OUTPUT_BYTES:,} bytes; this is no key")
    text = data.decode("utf-8", "replace").strip()
    if not text:
        raise KeyUnavailable(f"{name}: there is no key in it, only blanks")
    if "\n" in text:
        raise KeyUnavailable(f"{name}: more than one line; the key must stand alone")
    if not is_header("authorization", text):
        raise KeyUnavailable(f"{name}: it has characters that no header may hold")
    return text


async def _run(command: KeyCommand) -> tuple[bytes, bytes, int]:
    process = await trio.lowlevel.open_process(
        list(command.argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=command.cwd or _home(),
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
