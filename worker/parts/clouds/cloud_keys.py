"""The credentials of a cloud, as the gateway asks for them and sends them.

A cloud's own library finds them, in a process of its own that ends with its answer: it is large,
blocks, and reads what the person has configured.
"""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from swarm.mailbox.base.errors import SwarmError
from swarm.mailbox.parts.clouds.cloud_messages import CloudCredentials
from swarm.mailbox.protocol.spec import KeyCommand

from .aws_signing import AwsKeys, AwsScope, UnsignedRequest, sign_request
from .cloud_process import CloudOrder, FoundCredentials

_PROGRAM = ("-P", "-m", "swarm.worker.parts.clouds.cloud_process")
_LIMIT_S = 60.0  # a sign-in service may have to be asked, or a program of the person
_EARLY_S = 300.0  # as the libraries: credentials that end so soon are got anew
_LEAST_S = 10.0


class CloudKey(NamedTuple):
    """`key` is the secret access key, or the token; `values` belong to it, by name."""

    key: str
    lasts_s: float | None
    values: dict[str, str]
    secrets: tuple[str, ...]


def command_of(credentials: CloudCredentials) -> KeyCommand:
    """The process that finds them; it prints one line of JSON."""
    order = CloudOrder(
        kind=credentials.kind,
        profile=credentials.profile,
        credentials_file=credentials.credentials_file,
        scopes=credentials.scopes,
        files=credentials.files,
        places=credentials.places,
    )
    return KeyCommand(
        argv=(sys.executable, *_PROGRAM, msgspec.json.encode(order).decode()),
        what=credentials.what,
        timeout_s=_LIMIT_S,
        path=credentials.path or os.environ.get("PATH", ""),
        places=credentials.places,
        variables=credentials.variables,
    )


def read_credentials(line: str, credentials: CloudCredentials, name: str) -> CloudKey:
    """What the process has printed. Raises SwarmError; its text holds nothing of the line."""
    try:
        found = msgspec.json.decode(line, type=FoundCredentials)
    except msgspec.DecodeError as error:
        raise SwarmError(f"{credentials.what}: what was found cannot be read") from error
    lasts_s = None if found.lasts_s is None else max(_LEAST_S, found.lasts_s - _EARLY_S)
    values = {
        f"{name}.id": found.access_key_id,
        f"{name}.session": found.session_token,
        f"{name}.quota_project": found.quota_project,
    }
    secrets = tuple(filter(None, (found.key, found.session_token)))
    return CloudKey(found.key, lasts_s, values, secrets)


def cloud_headers(
    credentials: CloudCredentials, name: str, keys: Mapping[str, str], request: UnsignedRequest
) -> dict[str, str]:
    """What makes a request count as the person's, in lower case; {} without credentials."""
    key = keys.get(name, "")
    if not key:
        return {}
    if credentials.kind == "google":
        project = keys.get(f"{name}.quota_project", "")
        of_project = {"x-goog-user-project": project} if project else {}
        return {"authorization": f"Bearer {key}", **of_project}
    own = AwsKeys(keys.get(f"{name}.id", ""), key, keys.get(f"{name}.session", ""))
    scope = AwsScope(credentials.region, credentials.service)
    return sign_request(request, own, scope, datetime.now(UTC))
