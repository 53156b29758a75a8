"""agent asks (in `events.Asked`), supervisor answers (in `ops.Answer`)."""

from .base import Tagged


class StoreBlob(Tagged):
    """Keep bytes in the run's folder, where every process of the run may read them."""

    sha256: str  # hex; checked on arrival
    data: bytes


class GetEnvironment(Tagged):
    """What a login shell would give a command; taken once a run."""


AnyRequest = StoreBlob | GetEnvironment


class BlobStored(Tagged):
    path: str  # absolute


class EnvironmentIs(Tagged):
    """Without any provider's keys."""

    variables: dict[str, str]


class RequestRefused(Tagged):
    """The supervisor will not; the text is for the model or a person."""

    message: str


AnyReply = BlobStored | EnvironmentIs | RequestRefused
