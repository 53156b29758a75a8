"""Finds a cloud's credentials with that cloud's own library, prints them as one line, and ends.

Started by the gateway as `python -P -m … ORDER`; an order holds no secret. Secrets that were in the
person's environment are in that of this process alone.
"""

import importlib
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, cast

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.base.held_programs import why_unheld
from swarm.mailbox.base.own_distribution import line_for_extra
from swarm.mailbox.base.writable_places import WritablePlaces
from swarm.mailbox.protocol.values.base import Value

_MOST_CHARS = 32 << 10


class CloudOrder(Value):
    """What is to be found."""

    kind: Literal["aws", "google"]
    profile: str
    credentials_file: str
    scopes: tuple[str, ...]
    files: tuple[str, ...]  # what the library reads
    places: WritablePlaces


class FoundCredentials(Value):
    """`key` is a token, or the secret access key. `lasts_s` None: until it is refused."""

    key: str
    lasts_s: float | None = None
    access_key_id: str = ""
    session_token: str = ""
    quota_project: str = ""


class CredentialsMissing(SwarmError):
    """There are none. The text says what to do."""


# --- the parts of the libraries that we use ------------------------------------------------------


class _FrozenAws(Protocol):
    access_key: str
    secret_key: str
    token: str | None


class _Aws(Protocol):
    def get_frozen_credentials(self) -> _FrozenAws: ...


class _AwsSession(Protocol):
    def get_credentials(self) -> _Aws | None: ...


class _AwsLibrary(Protocol):
    def Session(self, profile: str | None = None) -> _AwsSession: ...


class _Google(Protocol):
    token: str | None
    expiry: datetime | None

    def refresh(self, request: object, /) -> None: ...


class _GoogleLibrary(Protocol):
    def default(self, scopes: Sequence[str] | None = None) -> tuple[_Google, str | None]: ...
    def load_credentials_from_file(
        self, filename: str, scopes: Sequence[str] | None = None
    ) -> tuple[_Google, str | None]: ...


class _GoogleTransport(Protocol):
    def Request(self) -> object: ...


def find_aws(order: CloudOrder) -> FoundCredentials:
    """Variables, profiles, sign-ins, programs and roles, in the library's own order.

    Raises CredentialsMissing, and what the library raises.
    """
    library = cast(_AwsLibrary, _import("botocore.session", "bedrock"))
    found = library.Session(profile=order.profile or None).get_credentials()
    if found is None:
        raise CredentialsMissing(
            "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
            "sign in with `aws sso login` or `aws configure`"
        )
    keys = found.get_frozen_credentials()
    ends = getattr(found, "_expiry_time", None)  # no public name; absent for keys that last
    return FoundCredentials(
        key=_fit(keys.secret_key),
        access_key_id=_fit(keys.access_key),
        session_token=_fit(keys.token or ""),
        lasts_s=max(0.0, ends.timestamp() - time.time()) if isinstance(ends, datetime) else None,
    )


def find_google(order: CloudOrder) -> FoundCredentials:
    """Application Default Credentials. Raises CredentialsMissing, and what the library raises."""
    library = cast(_GoogleLibrary, _import("google.auth", "vertex"))
    transport = cast(_GoogleTransport, _import("google.auth.transport.requests", "vertex"))
    if order.credentials_file:
        found, _ = library.load_credentials_from_file(order.credentials_file, order.scopes)
    else:
        found, _ = library.default(order.scopes)
    found.refresh(transport.Request())
    if not found.token:
        raise CredentialsMissing("Google gave no token")
    ends = found.expiry  # in UTC, without saying so
    lasts_s = None if ends is None else ends.replace(tzinfo=UTC).timestamp() - time.time()
    project = getattr(found, "quota_project_id", None)
    return FoundCredentials(
        key=_fit(found.token),
        lasts_s=None if lasts_s is None else max(0.0, lasts_s),
        quota_project=_fit(project) if isinstance(project, str) else "",
    )


def _import(module: str, extra: str) -> object:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CredentialsMissing(
            f"its library is not installed ({error.name}): {line_for_extra(extra)}"
        ) from error


def _fit(text: str) -> str:
    """Text that a header may hold. Raises CredentialsMissing."""
    if len(text) > _MOST_CHARS or not text.isascii() or not (text.isprintable() or not text):
        raise CredentialsMissing("the credentials have characters that no header may hold")
    return text


def _check_held(order: CloudOrder) -> None:
    """Raises CredentialsMissing if an agent could change what is read: it may name programs."""
    inside = (str(one) for path in order.files for one in _entries(Path(path)))
    for path in (*order.files, *inside):
        if why := why_unheld(path, order.places):
            raise CredentialsMissing(f"not read: {why}")


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder: one may be a link to elsewhere."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def main() -> int:
    """Exit code 1: the last line of stderr says why."""
    order = msgspec.json.decode(sys.argv[1], type=CloudOrder)
    try:
        _check_held(order)
        found = find_aws(order) if order.kind == "aws" else find_google(order)
    except Exception as error:  # the libraries raise what they like; the person needs the reason
        reason = " ".join(str(error).split()) or type(error).__name__
        sys.stderr.write(f"{reason}\n")
        return 1
    sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
