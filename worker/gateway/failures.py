"""Classify failures: status, headers and body of an HTTP response, or an error inside a stream.

Each failure is final, concerns only this request, or concerns everyone who uses that server. The
texts are for people: what happened, where, and what to do. They are redacted before they are sent.
"""

import re
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from time import time
from typing import cast

import msgspec

from swarm.mailbox.base.bounded_formats import depth_checked

from .backend import Failure, FailureScope
from .failure_texts import (
    TextReading,
    may_be_too_long,
    never_resets,
    read_failure_text,
    texts_of_error,
)
from .rate_limit_headers import asked_delay_s, delay_in_prose_s
from .rate_limit_state import MAX_WAIT_S
from .reset_times import describe_reset, read_reset_time

MAX_QUOTED_CHARS = 1000
_SOONEST_S = 60.0  # a limit that is spent does not reset earlier

# The window in `context size (16384 tokens)`, `context length is 8192`, `210000 tokens > 200000`.
_WINDOW = re.compile(
    r"> ?(?P<above>[0-9][0-9,]{2,10})|context (?:length|size|window|limit)(?! by)"
    r"(?! exceeds? limit \()[^0-9]{0,24}"  # MiniMax: its own code stands in those brackets
    r"(?P<named>[0-9][0-9,]{2,10})",
    re.IGNORECASE,
)
_BAD_IMAGE = re.compile(
    r"image data you provided does not represent a valid image|could not process image|"
    r"image exceeds .{1,40} maximum|image dimensions exceed",
    re.IGNORECASE,
)
_RETRY_INFO = re.compile(rb'"retryDelay"\s*:\s*"([0-9]{1,6}(?:\.[0-9]{1,9})?)s"')
_SCHEMA_FIELD = re.compile(r"response.?format|json.?schema|grammar|guided", re.IGNORECASE)
_OLD_THINKING = re.compile(r"`?(?:redacted_)?thinking`? block", re.IGNORECASE)
_OVERLOADED = frozenset(
    {
        "server_is_overloaded", "slow_down", "overloaded_error", "overloaded", "rate_limit_error",
        "capacity_exceeded", "engine_overloaded_error",
    }
)  # fmt: skip
_UNAUTHORIZED = frozenset({"authentication_error", "permission_error"})
_BAD_REQUEST = frozenset(
    {
        "invalid_prompt", "invalid_request_error", "not_found_error", "request_too_large", "400",
        "413", "422", "BadRequestError", "bad_request",
    }
)  # fmt: skip


class ErrorBody(msgspec.Struct):
    """The error formats of nearly all servers: `{"error": {…}}`, `{"error": "…"}`, `{"message":
    "…"}`.
    """

    message: str = ""
    code: str = ""
    type: str = ""
    window_tokens: int | None = None


class ErrorFields(msgspec.Struct):
    """An `error` object as servers send it."""

    message: str | None = None
    code: str | int | None = None
    type: str | None = None
    n_ctx: int | float | str | None = None  # llama.cpp: the window that was exceeded

    def body(self) -> ErrorBody:
        code = "" if self.code is None else str(self.code)
        window = self.n_ctx if isinstance(self.n_ctx, int) and self.n_ctx > 0 else None
        message, type_ = self.message or "", self.type or ""
        return ErrorBody(message=message, code=code, type=type_, window_tokens=window)


class _Outer(msgspec.Struct):
    error: ErrorFields | str | None = None
    message: str | None = None
    detail: str | None = None
    code: object = None  # xAI and the Responses wire: beside the text
    type: object = None
    request_id: object = None


_decode_outer = depth_checked(msgspec.json.Decoder(_Outer).decode)
_decode_outers = depth_checked(msgspec.json.Decoder(tuple[_Outer, ...]).decode)


def read_error_body(body: bytes) -> ErrorBody:
    """The error in a body, as far as it can be decoded; the body's text if it is not JSON."""
    try:
        outer = _decode_outer(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:  # Google's compatible endpoint wraps its errors in a list
            outers = _decode_outers(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            outers = ()
        if not outers:
            return ErrorBody(message=_plain(body))
        outer = outers[0]
    found = _body_of(outer)
    return found if found.message else msgspec.structs.replace(found, message=_plain(body))


def read_error_event(payload: bytes) -> ErrorBody:
    """The error in an event of a stream, in any of these forms."""
    try:
        outer = _decode_outer(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ErrorBody(message=_plain(payload))
    found = _body_of(outer)
    if isinstance(outer.request_id, str) and outer.request_id:
        text = f"{found.message} (request id: {outer.request_id[:100]})"
        return msgspec.structs.replace(found, message=text)
    return found


def _body_of(outer: _Outer) -> ErrorBody:
    match outer.error:
        case ErrorFields() as inner:
            found = inner.body()
        case str() as text:
            found = ErrorBody(message=text)
        case None:
            found = ErrorBody(message=outer.message or outer.detail or "")
    code = found.code or (str(outer.code) if isinstance(outer.code, str | int) else "")
    kind = found.type or (outer.type if isinstance(outer.type, str) else "")
    return msgspec.structs.replace(found, code=code, type=kind)


def _plain(body: bytes) -> str:
    text = body[: 4 * MAX_QUOTED_CHARS].decode("utf-8", "replace")
    if "<html" in text.lower():
        text = re.sub(r"(?s)<(script|style).*?</\1>|<[^<>]*>", " ", text)
    return " ".join(text.split())[:MAX_QUOTED_CHARS]


class FailureOrigin(msgspec.Struct, frozen=True):
    """Which server refused, for texts. Never contains a key or a query."""

    provider: str
    url: str = ""
    key_from: str | None = None  # where its key comes from, in words
    env_key_instructions: str = ""


def classify_status(
    status: int, headers: Mapping[str, str], body: bytes, *, origin: FailureOrigin
) -> Failure:
    """Classify an HTTP response that is not a stream.

    Args:
        headers: With lower-case names.
        body: At most its first 64 KiB.
    """
    error, said = read_error_body(body), texts_of_error(body)
    quoted = f": {error.message[:MAX_QUOTED_CHARS]}" if error.message else ""
    text = f"{origin.provider} answered {status} {_phrase(status)}{quoted}{_trace(headers, origin)}"
    kinds = frozenset({error.code, error.type}) - {""}
    delay_s = asked_delay_s(headers, said, time()) or _retry_info_s(body)
    is_delayed = delay_s is not None and delay_s <= MAX_WAIT_S
    reading = read_failure_text(said, kinds, is_delayed=is_delayed)
    failure = _of_reading(reading, text, error) or _of_status(status, text, kinds)
    if failure.kind == "unauthorized":
        failure = _unauthorized(text, origin)
    elif failure.kind == "bad_request":
        if _BAD_IMAGE.search(said):
            failure = Failure(kind="invalid_image", message=text)
        else:
            failure = Failure(
                kind="bad_request",
                message=text + _advice(status, headers),
                may_be_too_long=may_be_too_long(status, said),
            )
    asked_s = delay_s if failure.retryable else None
    resets_at = None if never_resets(said, kinds) else read_reset_time(headers, body, said, time())
    failure = _with_reset(failure, resets_at)
    return msgspec.structs.replace(failure, http_status=status, said=said, retry_after_s=asked_s)


def _with_reset(failure: Failure, resets_at_unix_s: float | None) -> Failure:
    """A limit that was reached, with the time of its reset."""
    if failure.kind not in {"usage_limit_exceeded", "overloaded"}:
        return failure
    is_spent = failure.kind == "usage_limit_exceeded"
    if is_spent and resets_at_unix_s is not None and resets_at_unix_s < time() + _SOONEST_S:
        resets_at_unix_s = None  # the delay of a rate, which a server names of a day's quota too
    text = failure.message + (describe_reset(resets_at_unix_s) if is_spent else "")
    return msgspec.structs.replace(failure, message=text, resets_at_unix_s=resets_at_unix_s)


def _retry_info_s(body: bytes) -> float | None:
    """The delay in Google's form, `"retryDelay": "34s"`; None if there is none."""
    found = _RETRY_INFO.search(body)
    return None if found is None else float(found[1])


def _of_reading(reading: TextReading | None, text: str, error: ErrorBody) -> Failure | None:
    """What the words say; None if they are no known ones."""
    match reading:
        case TextReading(kind="usage_limit_exceeded"):
            hint = "check the plan, credit and limits of that account, or choose another provider"
            return Failure(kind="usage_limit_exceeded", message=f"{text}; {hint}")
        case TextReading(kind="context_window_exceeded", window_tokens=window):
            window = error.window_tokens or window or named_window(error)
            return Failure(kind="context_window_exceeded", message=text, window_tokens=window)
        case TextReading():
            return Failure(kind="bad_request", message=text)
        case None:
            return None


def _of_status(status: int, text: str, kinds: frozenset[str]) -> Failure:
    """What the status says."""
    if status in {401, 403}:
        return Failure(kind="unauthorized", message=text)
    if status in {429, 529} or (status == 503) or kinds & _OVERLOADED:
        return Failure(kind="overloaded", message=text, retryable=True, scope="everyone")
    if status in {408, 409, 425} or status >= 500:
        return Failure(kind="other", message=text, retryable=True, scope="request")
    return Failure(kind="bad_request", message=text)


def named_window(error: ErrorBody) -> int | None:
    """The window in tokens that an error names; None if it names none."""
    if error.window_tokens is not None:
        return error.window_tokens
    if (found := _WINDOW.search(error.message)) is None:
        return None
    return int((found["above"] or found["named"]).replace(",", "")) or None


def _unauthorized(text: str, origin: FailureOrigin) -> Failure:
    if origin.key_from is None:
        hint = "this provider has no `env_key`; name the variable that holds its key in the config"
    else:
        hint = f"the key {origin.key_from} was not accepted; set a valid one and start again"
    if origin.env_key_instructions:
        hint = f"{hint} ({origin.env_key_instructions})"
    return Failure(kind="unauthorized", message=f"{text}; {hint}")


def _advice(status: int, headers: Mapping[str, str]) -> str:
    if status == 404:
        return "; check `base_url`, `wire_api` and the name of the model"
    if 300 <= status < 400:
        target = headers.get("location", "nowhere").partition("?")[0][:200]
        return f"; it points to {target}, which is not followed with a key: set `base_url` to it"
    return ""


def classify_stream_error(error: ErrorBody, *, provider: str, event: bytes = b"") -> Failure:
    """Classify an error inside a stream: `response.failed`, or an `error` object in chat."""
    kinds = frozenset({error.code, error.type}) - {""}
    resets_at: float | None = None
    if not never_resets(error.message, kinds):
        resets_at = read_reset_time({}, event, error.message, time())
    return _with_reset(_stream_failure(error, provider), resets_at)


def _stream_failure(error: ErrorBody, provider: str) -> Failure:
    said = (error.message or error.code or "the response failed")[:MAX_QUOTED_CHARS]
    text = f"{provider}: {said}"
    kinds = frozenset({error.code, error.type}) - {""}
    is_delayed = delay_in_prose_s(error.message) is not None
    reading = read_failure_text(error.message, kinds, is_delayed=is_delayed)
    if (known := _of_reading(reading, text, error)) is not None:
        return known
    if kinds & _UNAUTHORIZED:
        return Failure(kind="unauthorized", message=text)
    if kinds & _BAD_REQUEST:
        said = error.message[:MAX_QUOTED_CHARS] or "Invalid request."
        return Failure(
            kind="bad_request",
            message=f"{provider}: {said}",
            http_status=400,
            said=error.message,
            may_be_too_long=may_be_too_long(400, error.message),
        )
    if kinds & _OVERLOADED or "rate_limit_exceeded" in kinds or error.code in {"429", "503"}:
        return Failure(
            kind="overloaded",
            message=text,
            retryable=True,
            retry_after_s=delay_in_prose_s(error.message),
            scope="everyone",
        )
    return Failure(kind="other", message=text, retryable=True, scope="final")


def cut_off(kind_scope: FailureScope, *, provider: str, why: str) -> Failure:
    """The connection ended before the response was complete."""
    return Failure(
        kind="stream_disconnected",
        message=f"{provider}: the stream ended before the response was complete ({why})",
        retryable=True,
        scope=kind_scope,
    )


def unreadable(*, provider: str, why: str) -> Failure:
    """An event in the middle of a response is unreadable: treated like the end of the stream."""
    text = (
        f"{provider}: an event of the stream cannot be read ({why}), so the stream was cut there; "
        "what was not complete is not used"
    )
    return Failure(kind="stream_disconnected", message=text, retryable=True)


def only_keepalives(limit_s: float, *, provider: str) -> Failure:
    """The server sent only keep-alives for so long that no answer is expected any more."""
    text = (
        f"{provider} sent only keep-alives for {limit_s / 60:.3g} min, and nothing of an answer: "
        "the stream was cut. Ask again later, lower the effort, or raise "
        "`stream_idle_timeout_ms`, of which this is six times"
    )
    return Failure(kind="idle_timeout", message=text)


def refuses_thinking(failure: Failure) -> bool:
    """True if the server rejects the thinking that the conversation holds."""
    return failure.http_status == 400 and _OLD_THINKING.search(failure.message) is not None


def refuses_schema(failure: Failure) -> bool:
    """True if the server rejects the schema that an answer is to be held to."""
    is_refused = failure.http_status in {400, 422, 501}
    return is_refused and _SCHEMA_FIELD.search(failure.message) is not None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "(no standard status)"


def _trace(headers: Mapping[str, str], origin: FailureOrigin) -> str:
    names = ("request-id", "x-request-id", "x-oai-request-id", "cf-ray")
    found = next((headers[name] for name in names if headers.get(name)), None)
    parts = [f"url: {origin.url}"] if origin.url else []
    parts += [f"request id: {found[:100]}"] if found else []
    return f" ({', '.join(parts)})" if parts else ""


def internal_failure(error: Exception) -> Failure:
    """A bug of the gateway in one request. The text names the place, never the contents."""
    error = _innermost_error(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = (
        f"the gateway could not go on with this request ({type(error).__name__}{place}); that is a "
        "bug of swarm, the other agents go on. Run it again, and report it if it comes back"
    )
    return Failure(kind="internal", message=text)


def _innermost_error(error: Exception) -> Exception:
    """The first innermost error of nested groups."""
    if isinstance(error, ExceptionGroup):
        return _innermost_error(cast("ExceptionGroup[Exception]", error).exceptions[0])
    return error
