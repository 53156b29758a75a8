"""agent asks (in `events.Asked`), supervisor answers (in `ops.Answer`)."""

from .base import Tagged


class StoreBlob(Tagged):
    """Keep bytes in the run's folder, where every process of the run may read them."""

    sha256: str  # hex; checked on arrival
    data: bytes


AnyRequest = StoreBlob


class BlobStored(Tagged):
    path: str  # absolute


class RequestRefused(Tagged):
    """The supervisor will not; the text is for the model or a person."""

    message: str


AnyReply = BlobStored | RequestRefused
