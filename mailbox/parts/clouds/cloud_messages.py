"""A cloud as a provider's source of credentials, and the tables that name one. No secrets."""

from typing import Literal

from ...base.writable_places import WritablePlaces
from ...protocol.values.base import Value


class AwsTable(Value, forbid_unknown_fields=True):
    """`[model_providers.ID.aws]`: requests are signed, as Bedrock wants it (SigV4)."""

    profile: str = ""  # of ~/.aws; "": AWS_PROFILE, else the default one
    region: str = ""  # "": as the address says
    service: str = ""  # "": as the address says


class GoogleTable(Value, forbid_unknown_fields=True):
    """`[model_providers.ID.google]`: Application Default Credentials, as Vertex wants them."""

    credentials_file: str = ""  # "": where Google's own programs look
    scopes: tuple[str, ...] = ("https://www.googleapis.com/auth/cloud-platform",)


class CloudCredentials(Value):
    """Where the gateway gets the credentials of one provider."""

    kind: Literal["aws", "google"]
    what: str  # its name in texts: `model_providers.mine.aws`
    profile: str = ""
    region: str = ""
    service: str = ""
    credentials_file: str = ""
    scopes: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()  # those that may hold secrets; they come through the pipe
    # What the cloud's library reads: hidden from every command, and refused where agents may write.
    files: tuple[str, ...] = ()
    path: str = ""  # the person's PATH
    places: WritablePlaces = WritablePlaces()
