"""`aws` and `google` of a provider's table → where its credentials come from, checked. Pure."""

import os.path
import re
from collections.abc import Mapping

from swarm.mailbox.parts.clouds.cloud_messages import AwsTable, CloudCredentials, GoogleTable

from ...base.private_address import is_private_address

AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
)
# `bedrock-runtime.us-east-1.amazonaws.com`, `bedrock-mantle.us-east-1.api.aws`, and the same within
# a private network (`vpce-….bedrock-runtime.us-east-1.vpce.amazonaws.com`).
_HOST = re.compile(r"(?:^|[./])(bedrock[a-z-]*)\.([a-z]{2}(?:-[a-z]+)+-\d)\.")
_WORD = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_PROFILE = re.compile(r"[^\x00-\x1f\x7f]{1,200}\Z")


def find_credentials(
    place: str,
    base_url: str,
    tables: tuple[AwsTable | None, GoogleTable | None],
    environment: Mapping[str, str],
) -> CloudCredentials | None:
    """What the tables of the provider at `place` (`model_providers.ID`) say; None: there is none.

    They were checked with `cloud_problem`.
    """
    aws, google = tables
    if aws is not None:
        region, service = _scope(base_url, aws)
        return CloudCredentials(
            kind="aws",
            what=f"{place}.aws",
            profile=aws.profile,
            region=region,
            service=service,
            variables=AWS_VARIABLES,
            files=_aws_files(environment),
        )
    if google is not None:
        return CloudCredentials(
            kind="google",
            what=f"{place}.google",
            credentials_file=google.credentials_file,
            scopes=google.scopes,
            files=_google_files(environment, google),
        )
    return None


def cloud_problem(
    base_url: str, aws: AwsTable | None, google: GoogleTable | None
) -> tuple[str, str] | None:
    """(key, reason) of the first error in these tables; None if there is none."""
    if aws is None and google is None:
        return None
    name = "aws" if aws is not None else "google"
    if not is_private_address(base_url):
        why = "the provider's address has no https, where others could read what grants access"
        return name, f"{why}; only https, or this machine, gets it"
    if aws is not None:
        region, service = _scope(base_url, aws)
        if not _WORD.match(region):
            return "aws.region", "name the region; the address does not say it"
        if not _WORD.match(service):
            return "aws.service", "has letters, digits and `-` alone"
        if aws.profile and not _PROFILE.match(aws.profile):
            return "aws.profile", "must be one line"
    if google is not None and not (google.scopes and all(map(_is_scope, google.scopes))):
        return "google.scopes", "name one at least, each without blanks"
    return None


def _scope(base_url: str, aws: AwsTable) -> tuple[str, str]:
    """The region and the service for which requests are signed."""
    found = _HOST.search(base_url)
    host, region = (found[1], found[2]) if found else ("", "")
    named = "bedrock-mantle" if host == "bedrock-mantle" else "bedrock"
    return aws.region or region, aws.service or named


def _is_scope(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def _aws_files(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The person's AWS folder, and files that variables name in its place."""
    names = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
    given = (_absolute(environment.get(name, ""), environment) for name in names)
    home = environment.get("HOME", "")
    own = os.path.join(home, ".aws")  # noqa: PTH118 - pure
    return _unique((own if home else "", *given))


def _google_files(environment: Mapping[str, str], google: GoogleTable) -> tuple[str, ...]:
    """Google's folder of the person, and the file that the table or a variable names."""
    home = environment.get("HOME", "")
    own = os.path.join(home, ".config/gcloud") if home else ""  # noqa: PTH118 - pure
    folder = _absolute(environment.get("CLOUDSDK_CONFIG", ""), environment) or own
    named = google.credentials_file or environment.get("GOOGLE_APPLICATION_CREDENTIALS", "")
    return _unique((folder, _absolute(named, environment)))


def _absolute(path: str, environment: Mapping[str, str]) -> str:
    if path.startswith("~/"):
        path = os.path.join(environment.get("HOME", "/"), path[2:])  # noqa: PTH118 - pure
    return os.path.normpath(path) if path.startswith("/") else ""


def _unique(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, paths)))
