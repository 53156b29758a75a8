"""`--record FILE` and `--replay FILE`: record and replay the model traffic of a run.

A recording is JSON lines: the choice of the provider, each agent's model, and each response as
events. A request is found by its agent path and its number within that agent. The digest of its
shape (kinds of items, names of calls) only shows whether the replay deviates, since outputs of
commands differ from run to run. A recording contains no key and no header.
"""

import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked
from swarm.mailbox.base.errors import UsageError
from swarm.mailbox.base.redact import Redactor
from swarm.mailbox.base.redact_structs import redact_encoded
from swarm.mailbox.base.safe_open import read_user_file
from swarm.mailbox.protocol.sampling import ModelInfo
from swarm.mailbox.protocol.values.base import Tagged

from .backend import (
    AnyResponseEvent,
    Backend,
    Failure,
    RenderedRequest,
    RequestWaiting,
    ResponseEvents,
    SampleError,
)

_MOST_BYTES = 1 << 30  # limit of a recording, which is held in memory

RECORDING_VERSION = 1


class RecordingError(UsageError):
    """A recording cannot be written or read; the text names file and line."""


class RecordingHeader(Tagged, tag="tape_begins"):
    version: int
    provider: str
    model: ModelInfo


class RecordedModel(Tagged, tag="model_told"):
    """The model that an agent received."""

    path: str
    model: ModelInfo


class RecordedResponse(Tagged, tag="response"):
    path: str
    ordinal: int
    shape: str = ""
    events: tuple[AnyResponseEvent, ...] = ()
    failure: Failure | None = None
    cancelled: bool = False  # the agent ended, or cancelled the request


AnyRecordingLine = RecordingHeader | RecordedModel | RecordedResponse
_encode = msgspec.json.Encoder().encode
_decode = depth_checked(msgspec.json.Decoder(AnyRecordingLine).decode)
Warn = Callable[[str], None]


class RecordingWriter:
    """Appends whole lines. A full disk ends the recording, never the run."""

    def __init__(self, path: Path, redactor: Redactor, warn: Warn) -> None:
        self._path, self._redactor, self._warn = path, redactor, warn
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        try:
            self._fd: int | None = os.open(path, flags, 0o600)
        except OSError as error:
            raise RecordingError(f"cannot record to {path}: {error.strerror}") from error

    def write(self, line: AnyRecordingLine) -> None:
        """Append one line at once."""
        if self._fd is None:
            return
        data = redact_encoded(self._redactor, line, _encode)[1] + b"\n"
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            self._warn(f"recording to {self._path} ended: {error.strerror}; the tape is incomplete")
            self.close()

    def close(self) -> None:
        """Close the file; later lines are dropped."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class RecordingBackend:
    """Passes all events on, and records each response when it has ended."""

    def __init__(self, inner: Backend, recording: RecordingWriter) -> None:
        self._inner, self._writer = inner, recording

    async def sample(self, request: RenderedRequest) -> ResponseEvents:
        kept: list[AnyResponseEvent] = []
        failure: Failure | None = None
        cancelled = True
        try:
            async with aclosing(self._inner.sample(request)) as events:
                async for event in events:
                    if not isinstance(event, RequestWaiting):
                        kept.append(event)
                    yield event
            cancelled = False
        except SampleError as error:
            failure, cancelled = error.failure, False
            raise
        finally:
            self._writer.write(
                RecordedResponse(
                    path=request.agent_path,
                    ordinal=request.ordinal,
                    shape=request.shape.hex(),
                    events=tuple(kept),
                    failure=failure,
                    cancelled=cancelled,
                )
            )


class Recording:
    """A recording in memory."""

    def __init__(self, begins: RecordingHeader, path: Path) -> None:
        self.header, self.path = begins, path
        self.models: dict[str, ModelInfo] = {}
        self.responses: dict[tuple[str, int], RecordedResponse] = {}


def load_recording(path: Path) -> Recording:
    """Read a recording. An incomplete last line is dropped. Raises RecordingError."""
    try:
        lines = read_user_file(path, most_bytes=_MOST_BYTES).split(b"\n")
    except OSError as error:
        raise RecordingError(f"cannot replay {path}: {error.strerror}") from error
    recording: Recording | None = None
    for number, data in enumerate(lines, start=1):
        if not data:
            continue
        try:
            line = _decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(lines):
                break
            raise RecordingError(f"{path}:{number}: not a line of a recording: {error}") from error
        recording = _add(recording, line, path)
    if recording is None:
        raise RecordingError(f"{path}: an empty recording")
    return recording


def _add(recording: Recording | None, line: AnyRecordingLine, path: Path) -> Recording:
    match line:
        case RecordingHeader(version=version):
            if version != RECORDING_VERSION:
                raise RecordingError(
                    f"{path}: a recording of version {version}; this program reads "
                    f"{RECORDING_VERSION}"
                )
            return Recording(line, path)
        case _ if recording is None:
            raise RecordingError(f"{path}:1: not the beginning of a recording")
        case RecordedModel(path=agent, model=model):
            recording.models[agent] = model
        case RecordedResponse(path=agent, ordinal=ordinal):
            recording.responses[agent, ordinal] = line
    return recording


class ReplayBackend:
    """Answers only from a recording."""

    def __init__(self, recording: Recording, warn: Warn) -> None:
        self._recording, self._warn = recording, warn
        self._has_warned = False

    async def sample(self, request: RenderedRequest) -> ResponseEvents:
        where = f"request {request.ordinal} of {request.agent_path}"
        response = self._recording.responses.get((request.agent_path, request.ordinal))
        if response is None:
            raise SampleError(_not_recorded(where, self._recording.path, "is not in the recording"))
        if response.shape != request.shape.hex() and not self._has_warned:
            self._has_warned = True
            self._warn(f"the run differs from the recording {self._recording.path} at {where}")
        for event in response.events:
            yield event
        if response.failure is not None:
            raise SampleError(response.failure)
        if response.cancelled:
            raise SampleError(
                _not_recorded(where, self._recording.path, "was cancelled when it was recorded")
            )


def _not_recorded(where: str, path: Path, what: str) -> Failure:
    text = f"{where} {what} {path}: record the run again with --record"
    return Failure(kind="bad_request", message=text)
