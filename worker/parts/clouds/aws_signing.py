"""AWS Signature Version 4 of one request whose body is held whole. Pure.

Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import posixpath
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-_.~"


class AwsKeys(NamedTuple):
    """`session_token` is "" for keys that last."""

    access_key_id: str
    secret_access_key: str
    session_token: str = ""


class AwsScope(NamedTuple):
    """What a signature counts for, beside its day."""

    region: str
    service: str


class UnsignedRequest(NamedTuple):
    """`target`: path and query as they are sent; `headers`: those to be signed, with `host`."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


def sign_request(
    request: UnsignedRequest, keys: AwsKeys, scope: AwsScope, at: datetime
) -> dict[str, str]:
    """The headers to add, in lower case. `at` is in UTC."""
    moment = at.strftime("%Y%m%dT%H%M%SZ")
    added = {"x-amz-date": moment}
    if keys.session_token:
        added["x-amz-security-token"] = keys.session_token
    headers = {name.lower(): _trimmed(value) for name, value in request.headers.items()} | added
    names = ";".join(sorted(headers))
    canonical = _canonical(request, headers, names)
    covers = f"{moment[:8]}/{scope.region}/{scope.service}/aws4_request"
    to_sign = "\n".join((_ALGORITHM, moment, covers, _hash(canonical.encode())))
    key = f"AWS4{keys.secret_access_key}".encode()
    for step in covers.split("/"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    said = f"Credential={keys.access_key_id}/{covers}, SignedHeaders={names}, Signature={signature}"
    return {**added, "authorization": f"{_ALGORITHM} {said}"}


def _canonical(request: UnsignedRequest, headers: Mapping[str, str], names: str) -> str:
    path, _, query = request.target.partition("?")
    lines = (f"{name}:{headers[name]}" for name in sorted(headers))
    return "\n".join(
        (
            request.method,
            _canonical_path(path),
            _canonical_query(query),
            *lines,
            "",
            names,
            _hash(request.body),
        )
    )


def _canonical_path(path: str) -> str:
    """Without `.` and `..`; what was sent encoded is encoded once more."""
    plain = "/" + posixpath.normpath(path or "/").lstrip("/")
    if path.endswith("/") and plain != "/":
        plain += "/"
    return quote(plain, safe=f"/{_UNRESERVED}")


def _canonical_query(query: str) -> str:
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = sorted((_encoded(name), _encoded(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


def _encoded(text: str) -> str:
    return quote(unquote(text), safe=_UNRESERVED)


def _trimmed(value: str) -> str:
    return " ".join(value.split())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
